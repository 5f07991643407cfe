"""The files that attempts which did not land have left, and where they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TaskState
from forgepool.workers.schema.reports import EarlierWork


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStanding:
    """The files that an attempt has left which did not land, and the ref that has them in the hub."""

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
    """Yield the files that the attempts of a task have left; of one that is done, only those of losers of a race."""
    works = {n: one for n, one in task.works.items() if task.phase not in DONE or n in task.withdrawn}
    if not works:
        return
    from forgepool.workers.workspace.refs import candidate_ref, progress_ref, work_ref

    refs = {"candidate": candidate_ref, "unverified": work_ref, "unfinished": progress_ref}
    for number, one in works.items():
        ref = "" if one.withheld else refs[one.what](state.run, task.id, number)
        yield KeptStanding(attempt=number, what=one.what, ref=ref, commit=one.commit, withheld=one.withheld)


def find_work(state: RunState, task: TaskState, attempt: int) -> EarlierWork | None:
    """Return the work that an attempt has left in the hub; None where there is none."""
    found = (one for one in list_kept(state, task) if one.attempt == attempt and one.commit and one.ref)
    return next((EarlierWork(attempt=one.attempt, commit=one.commit, ref=one.ref) for one in found), None)


def find_returned(state: RunState, task: TaskState, attempt: int) -> EarlierWork | None:
    """Return the last candidate that came back before an attempt's own was judged, if the hub has one."""
    before = (reason.attempt for reason in takewhile(lambda one: one.attempt != attempt, task.reasons))
    earlier = [number for number in before if number in task.works and task.works[number].what == "candidate"]
    return find_work(state, task, earlier[-1]) if earlier else None
