"""The work that ended runs have left in their hubs: candidates of tasks that did not land, and what was under way."""

from collections.abc import Iterator
from dataclasses import dataclass

from forgepool.orchestrator.journal.store import JournalUnreadable, is_being_written
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import marker_ref, run_refs
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.target import prune_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A run that has ended and may have left refs in its hub."""

    run: str
    hub: str
    ended: float
    """Unix seconds."""
    state: RunState


def list_ended_runs(settings: Settings) -> Iterator[Leftover]:
    """List the runs of this host that have ended, the latest first. One that cannot be read is left alone."""
    for name in run_folder.run_names(settings):
        try:
            kept = run_folder.open_run(settings, name, with_course=False)
            state = kept.state()
        except JournalUnreadable:
            continue
        if state.finished and not is_being_written(kept.folder):
            yield Leftover(run=name, hub=kept.options.hub, ended=state.at, state=state)


def mirror_of(hub: str, settings: Settings) -> Mirror:
    """Raises GitFailed."""
    return open_mirror(hub, settings.cache, credential_helper=settings.git_credential_helper)


def refs_left(mirror: Mirror, state: RunState) -> dict[str, list[str]]:
    """Map each task to the refs that the run has of it in its hub now. Raises GitFailed."""
    found: dict[str, list[str]] = {}
    for ref in sorted(mirror.hub_refs(run_refs(state.run)).keys() - set(markers(state))):
        parts = ref.split("/")
        found.setdefault(parts[4] if len(parts) > 4 else parts[-1], []).append(ref)
    return found


def markers(state: RunState) -> list[str]:
    """Name the markers of tasks that tried to land: these may have landed, and must not land twice if tried again."""
    tried = [task.id for task in state.tasks.values() if task.landings and task.phase != "landed"]
    return [marker_ref(state.run, task) for task in tried]


def remove_refs(mirror: Mirror, state: RunState, *, but_for: tuple[str, ...] = ()) -> int:
    """Remove the run's refs from its hub, but for the work of these tasks, and count them. Raises GitFailed."""
    return prune_run(mirror, state.run, keep_orders_of=but_for, keep=markers(state))


def list_unlanded_tasks(state: RunState) -> tuple[str, ...]:
    """Name the tasks whose work is kept after the run's end."""
    return tuple(task.id for task in (*state.tasks.values(), *state.removed.values()) if task.phase not in DONE)
