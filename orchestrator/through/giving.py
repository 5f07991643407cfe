"""A run's candidates in the hub for the gate of its target, and what lies there for the run."""

from collections.abc import Mapping

from orchestrator.course import Course
from orchestrator.dispatch import author_in
from orchestrator.gatekeeper.submissions import entry_of, tag_text
from orchestrator.state import State
from orchestrator.task_state import TaskState
from orchestrator.through.cards import written
from orchestrator.through.messages import Asks, Card, GateAnswer, GateSign
from workers.refs import candidate_ref, sign_ref, submission_ref, told_ref
from worktrees.git import CommitId
from worktrees.mirror import Mirror
from worktrees.push import Pushed, RefUpdate
from worktrees.target import contained

_MOST_TOLD = 100_000
"""Characters of a description, and of what an agent says of its work."""


def asks_of(state: State, task: TaskState) -> Asks:
    return Asks(run=state.run, task=task.id, number=task.given)


def entry_ref(state: State, task: TaskState) -> str:
    """Where it is given."""
    return submission_ref(state.target, entry_of(asks_of(state, task)))


def card_of(course: Course, state: State, task: TaskState) -> Card:
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
    )


def give(course: Course, state: State, mirror: Mirror, task: TaskState, there: Mapping[str, CommitId]) -> bool:
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
    said = [("By", f"run {state.run}"), ("Style", course.plan.landing), *written(card)]
    text = tag_text(commit, entry_of(card.asks), said, by="Forgepool", at=task.since)
    tag = CommitId(mirror.git.text("mktag", stdin=text.encode()))
    if there.get(ref) == tag:
        return True
    return isinstance(mirror.push([RefUpdate(ref=ref, new=tag, expected=there.get(ref))]), Pushed)


def answer_to(state: State, mirror: Mirror, task: TaskState, blob: CommitId) -> GateAnswer | None:
    """
    What the gate says of it, as far as the target bears it out; None where it does not, or says it of another.

    Raises:
        GitFailed: the hub could not be asked.
    """
    ref = told_ref(state.run, task.id, task.given)
    said = GateAnswer.model_validate_json(_fetched(mirror, ref, blob))
    if (said.entry, said.number) != (entry_of(asks_of(state, task)), task.given):
        return None
    if said.word == "refused" and contained(mirror, state.target, CommitId(task.candidate)):
        return said.model_copy(update={"word": "landed", "commit": task.candidate})
    if said.word == "landed" and not contained(mirror, state.target, CommitId(said.commit)):
        return None
    return said


def read_sign(mirror: Mirror, target: str, blob: CommitId) -> GateSign:
    return GateSign.model_validate_json(_fetched(mirror, sign_ref(target), blob))


def standing_gate(mirror: Mirror, target: str) -> str:
    """The gate that keeps the target by its own sign, be it up or not; empty where there is none. Raises GitFailed."""
    ref = sign_ref(target)
    at = mirror.hub_refs(ref).get(ref)
    return "" if at is None else read_sign(mirror, target, at).gate


def take_away(mirror: Mirror, state: State) -> None:
    """What lies there still of a run that has ended: sent again, as its answer came. Raises GitFailed."""
    mine = [entry_ref(state, task) for task in state.tasks.values() if task.given]
    there = mirror.hub_refs(*mine) if mine else {}
    for ref, at in there.items():
        mirror.push([RefUpdate(ref=ref, new=None, expected=at)])


def _fetched(mirror: Mirror, ref: str, blob: CommitId) -> bytes:
    mirror.fetch(f"+{ref}:refs/hub/{ref.removeprefix('refs/')}")
    return mirror.git.run("cat-file", "blob", blob).stdout
