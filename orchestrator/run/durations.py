"""How long tasks took in earlier runs of the same plan: what the order of starting goes by where the plan is silent."""

import json
import statistics
from collections import defaultdict
from pathlib import Path

from forgepool.orchestrator.journal.events import OrderAnswered
from forgepool.orchestrator.journal.store import JournalUnreadable, read
from forgepool.orchestrator.plan.document import Plan
from forgepool.workers.schema.settings import Settings

_RUNS_LOOKED_AT = 5


def learn_durations(settings: Settings, plan: Plan) -> dict[str, float]:
    """Median seconds of each task's finished orders over the last five runs of plans of this name."""
    if all(task.duration_s is not None for task in plan.tasks):
        return {}
    folder = settings.home / "runs"
    if not folder.is_dir():
        return {}
    # The name of a run begins with its plan's, but so do the names of runs of a plan called `<name>-more`.
    alike = sorted(folder.glob(f"{plan.name[:40]}-*"), key=lambda path: path.stat().st_mtime)
    earlier = [run for run in alike if _plan_name(run) == plan.name]
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


def _plan_name(run: Path) -> str | None:
    """As the run's own copy of its plan has it; None for a folder that is no whole run."""
    try:
        return str(json.loads((run / "plan.json").read_text())["name"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
