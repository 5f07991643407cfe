"""A run's candidates in the hub for the gate of its target, and what lies there for the run."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.queue.submissions import entry_of, tag_text, write_card_lines
from forgepool.orchestrator.decisions.reasons import author_in
from forgepool.orchestrator.journal.queue_events import Asks, Card, GateAnswer, GateSign
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.outputs.earlier_landings import work_of
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.orders import Message
from forgepool.workers.workspace.refs import candidate_ref, reply_ref, sign_ref, submission_ref
from forgepool.worktrees.commits.candidate import read_trailers
from forgepool.worktrees.git.git import CommitId, GitFailed, without_password
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate
from forgepool.worktrees.hub.target import is_contained

Said = TypeVar("Said", bound=Message)
_MOST_TOLD = 100_000
"""Characters of a description, and of what an agent says of its work."""


class UnreadableRef(Exception):
    """What lies in the hub is none of ours, whoever has put it there."""


def asks_of(state: RunState, task: TaskState) -> Asks:
    return Asks(run=state.run, task=task.id, number=task.given)


def entry_ref(state: RunState, task: TaskState) -> str:
    """Where it is given."""
    return submission_ref(state.target, entry_of(asks_of(state, task)))


def card_of(course: PlanIndex, state: RunState, task: TaskState) -> Card:
    """What the gate is told of it: all that the run itself would have asked a supervisor with."""
    planned, result = course.tasks[task.id], task.result
    return Card(
        asks=asks_of(state, task),
        attempt=task.made_by,
        description=planned.description[:_MOST_TOLD],
        acceptance=planned.acceptance,
        files=planned.files,
        extended=task.extra,
        planned=result.planned if result is not None else (),
        claims=result.claimed_summary[:_MOST_TOLD] if result is not None else "",
        author=author_in(course, state, task),
        reviewed=course.wants_review(task),
        withdrawn=task.recalled,
        work=work_of(course.plan, planned),
    )


def give(course: PlanIndex, state: RunState, mirror: Mirror, task: TaskState, there: Mapping[str, CommitId]) -> bool:
    """
    Whether the candidate, or the wish to have it back, lies in the hub now; the same object every time. `there` is what
    lies where submissions do.

    Raises:
        MissingCommit: the hub has lost the candidate.
        GitFailed: the hub could not be asked.
    """
    commit, ref = CommitId(task.candidate), entry_ref(state, task)
    mirror.ensure(commit, refs=(candidate_ref(state.run, task.id, task.made_by),))
    card = card_of(course, state, task)
    said = [("By", f"run {state.run}"), ("Style", course.plan.landing), *write_card_lines(card)]
    text = tag_text(commit, entry_of(card.asks), said, by="Forgepool", at=task.since)
    tag = CommitId(mirror.git.text("mktag", stdin=text.encode()))
    if there.get(ref) == tag:
        return True
    return isinstance(mirror.push([RefUpdate(ref=ref, new=tag, expected=there.get(ref))]), Pushed)


def answer_to(state: RunState, mirror: Mirror, task: TaskState, blob: CommitId) -> GateAnswer | None:
    """
    What the gate says of it, as far as the target bears it out; None where it does not, or says it of another.

    Raises:
        Unreadable: it is no answer.
        GitFailed: the hub could not be asked.
    """
    said = _read(GateAnswer, mirror, reply_ref(state.run, task.id, task.given), blob)
    if (said.entry, said.number) != (entry_of(asks_of(state, task)), task.given):
        return None
    if said.word in ("refused", "withdrawn") and is_contained(mirror, state.target, CommitId(task.candidate)):
        return said.model_copy(update={"word": "landed", "commit": task.candidate})
    if said.word == "landed" and not _has_landed(state, mirror, task, said):
        return None
    return said


def _has_landed(state: RunState, mirror: Mirror, task: TaskState, said: GateAnswer) -> bool:
    """
    The commit came into the target after the task was first given, and it is this task's: it contains the candidate, or
    says of itself that this gate has landed this entry with it. Anybody who may push can name another.
    """
    commit, before = CommitId(said.commit), CommitId(task.given_on)
    if not is_contained(mirror, state.target, commit):
        return False
    if mirror.has(before) and _contains(mirror, before, commit):
        return False
    if _contains(mirror, commit, CommitId(task.candidate)):
        return True
    ours = read_trailers(mirror.git, commit)
    return (ours.get("Forgepool-Run"), ours.get("Forgepool-Task")) == (said.gate, said.entry)


def _contains(mirror: Mirror, tip: CommitId, commit: CommitId) -> bool:
    return mirror.git.run("merge-base", "--is-ancestor", commit, tip, ok=(0, 1, 128)).status == 0


def read_sign(mirror: Mirror, target: str, blob: CommitId) -> GateSign:
    """Raises Unreadable, GitFailed."""
    return _read(GateSign, mirror, sign_ref(target), blob)


def standing_gate(mirror: Mirror, target: str) -> str:
    """
    The gate that keeps the target by its own sign, be it up or not; empty where there is none.

    Raises:
        CannotRun: there is a sign, and nobody can tell whose.
        GitFailed: the hub could not be asked.
    """
    ref = sign_ref(target)
    at = mirror.hub_refs(ref).get(ref)
    try:
        return "" if at is None else read_sign(mirror, target, at).gate
    except UnreadableRef as strange:
        raise CannotRun(
            f"what lies at {ref} in {without_password(mirror.hub)} is no sign of a gate that this version can read; "
            "keep the gate again with this one, remove the ref if nobody keeps the branch, or say --own-train"
        ) from strange


def take_away(mirror: Mirror, state: RunState) -> None:
    """What lies there still of a run that has ended: sent again, as its answer came. Raises GitFailed."""
    mine = [entry_ref(state, task) for task in state.tasks.values() if task.given]
    there = mirror.hub_refs(*mine) if mine else {}
    for ref, at in there.items():
        mirror.push([RefUpdate(ref=ref, new=None, expected=at)])


def _read(kind: type[Said], mirror: Mirror, ref: str, blob: CommitId) -> Said:
    mirror.fetch(f"+{ref}:refs/hub/{ref.removeprefix('refs/')}")
    try:
        kept = mirror.git.text("cat-file", "-t", blob).strip()
    except GitFailed:
        # It has been moved since it was asked for, and the fetch brought what lies there now.
        raise GitFailed(("fetch", ref), 0, f"{ref} was moved meanwhile") from None
    if kept != "blob":
        raise UnreadableRef
    try:
        return kind.model_validate_json(mirror.git.run("cat-file", "blob", blob).stdout)
    except ValidationError as strange:
        raise UnreadableRef from strange
