"""What a gate has to tell the runs that gave it something: pure."""

from collections.abc import Iterator

from forgepool.orchestrator.decisions.evidence import describe_checks, reviewer_words
from forgepool.orchestrator.journal.events import EntryRefused
from forgepool.orchestrator.journal.queue_events import LAST_WORDS, Asks, GateAnswer, Word
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState


def due_answers(state: RunState) -> Iterator[tuple[Asks, GateAnswer]]:
    """Of what runs have given, what has changed since they were told last; of one that was told the end, nothing."""
    for name, entry in state.submitted.items():
        if entry.card is not None:
            asks, word = entry.card.asks, _word(state.tasks[name])
            if _is_news(state, name, asks.number, word):
                yield asks, _answer(state, state.tasks[name], asks, word)
    for refused in state.refused.values():
        if refused.asks is not None and _is_news(state, refused.name, refused.asks.number, "refused"):
            yield refused.asks, _refusal(state, refused, refused.asks)
    for stray in state.out_of_turn.values():
        if stray.asks is not None:
            yield stray.asks, _refusal(state, stray, stray.asks)


def _is_news(state: RunState, name: str, number: int, word: Word) -> bool:
    told, said = state.answered.get(name, (0, "in_line"))
    if number != told:
        return number > told and word != "in_line"
    return said != word and said not in LAST_WORDS


def _word(task: TaskState) -> Word:
    match task.phase:
        case "landed":
            return "landed"
        case "failed" | "blocked":
            return "returned"
        case "cancelled":
            return "withdrawn"
        case "needs_human":
            return "wants_person"
        case _:
            return "in_line"


def _answer(state: RunState, task: TaskState, asks: Asks, word: Word) -> GateAnswer:
    told = GateAnswer(gate=state.run, entry=task.id, number=asks.number, word=word, why=task.question or task.detail)
    if word == "landed":
        return told.model_copy(
            update={"commit": task.commit, "proofs": _proofs(task), "certificates": task.certificates}
        )
    reason = task.reasons[-1] if task.phase == "failed" and task.reasons else None
    return told.model_copy(update={"reason": reason})


def _proofs(task: TaskState) -> tuple[str, ...]:
    said = [*describe_checks(task.verdict)] if task.verdict is not None else []
    if task.review.answer is not None:
        said.append(f"review: {task.review.answer.outcome} by {reviewer_words(task.review.answer)}")
    if task.review.person is not None:
        said.append(f"approved by {task.review.person.by}, for {task.review.person.commit[:12]}")
    return tuple(said)


def _refusal(state: RunState, refused: EntryRefused, asks: Asks) -> GateAnswer:
    """One whose name has landed already has landed: by an earlier giving, which somebody had tried again."""
    told = GateAnswer(gate=state.run, entry=refused.name, number=asks.number, word=refused.word, why=refused.why)
    task = state.tasks.get(refused.name)
    if task is None or task.phase != "landed":
        return told
    why = "an earlier candidate of it had landed already"
    return told.model_copy(update={"word": "landed", "commit": task.commit, "why": why})
