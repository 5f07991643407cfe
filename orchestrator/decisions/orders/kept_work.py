"""The files that attempts of unlanded tasks have left, and where they are."""

from collections.abc import Iterator
from dataclasses import dataclass

from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TaskState
from forgepool.workers.schema.reports import EarlierWork


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStanding:
    """The files that an attempt of an unlanded task has left, and the ref that has them in the hub."""

    attempt: int
    what: str
    """`candidate`, which may land; `unverified`, which never does; `unfinished`, which another attempt may continue."""
    ref: str
    """Empty where the hub does not have them."""
    commit: str
    withheld: str
    """Why the hub does not have them, and what has them; empty where it has."""

    @property
    def words(self) -> str:
        return f"attempt {self.attempt}, {self.what}: {self.ref or self.withheld}"


def list_kept(state: RunState, task: TaskState) -> Iterator[KeptStanding]:
    """Yield the files that the attempts of a task have left; those of one that is done are removed."""
    if not task.works or task.phase in DONE:
        return
    from forgepool.workers.workspace.refs import candidate_ref, progress_ref, work_ref

    refs = {"candidate": candidate_ref, "unverified": work_ref, "unfinished": progress_ref}
    for number, one in task.works.items():
        ref = "" if one.withheld else refs[one.what](state.run, task.id, number)
        yield KeptStanding(attempt=number, what=one.what, ref=ref, commit=one.commit, withheld=one.withheld)


def find_work(state: RunState, task: TaskState, attempt: int) -> EarlierWork | None:
    """Return the work that an attempt has left in the hub; None where there is none."""
    found = (one for one in list_kept(state, task) if one.attempt == attempt and one.commit and one.ref)
    return next((EarlierWork(attempt=one.attempt, commit=one.commit, ref=one.ref) for one in found), None)


def find_returned(state: RunState, task: TaskState, attempt: int) -> EarlierWork | None:
    """Return the last candidate before an attempt's own, if the hub has one."""
    earlier = [number for number, work in task.works.items() if work.what == "candidate" and number < attempt]
    return find_work(state, task, max(earlier)) if earlier else None
