"""How long tasks took in earlier runs of the same plan: what the order of starting goes by where the plan is silent."""

import statistics
from collections import defaultdict

from orchestrator.events import OrderAnswered
from orchestrator.journal import JournalUnreadable, read
from orchestrator.plan import Plan
from workers.settings import Settings

_RUNS_LOOKED_AT = 5


def learned_durations(settings: Settings, plan: Plan) -> dict[str, float]:
    """Median seconds of each task's finished orders over the last five runs of plans of this name."""
    if all(task.duration_s is not None for task in plan.tasks):
        return {}
    folder = settings.home / "runs"
    if not folder.is_dir():
        return {}
    earlier = sorted(folder.glob(f"{plan.name[:40]}-*"), key=lambda path: path.stat().st_mtime)
    took: dict[str, list[float]] = defaultdict(list)
    for run in earlier[-_RUNS_LOOKED_AT:]:
        try:
            for recorded in read(run):
                event = recorded.event
                if isinstance(event, OrderAnswered) and event.result.outcome == "candidate":
                    took[event.task].append(event.result.finished_at - event.result.started_at)
        except JournalUnreadable:
            continue
    return {task: statistics.median(seconds) for task, seconds in took.items()}
