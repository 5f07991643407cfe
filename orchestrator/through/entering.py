"""What a gate makes of what a run gives it, or wants back: pure."""

from orchestrator.events import EntryRefused, EntrySubmitted, Event, TaskCancelled
from orchestrator.gatekeeper.submissions import Submission, entry_of
from orchestrator.state import State
from orchestrator.through.messages import LAST_WORDS, Asks, Card

_MAY_GO = ("queued", "testing", "reviewing", "reviewed", "needs_human")


def of_run(state: State, one: Submission) -> list[Event] | None:
    """Of what was given before, and of what is taken back; None for what is to be taken in like anybody's."""
    card = one.card
    if card is None:
        return None
    if entry_of(card.asks) != one.name:
        why = f"its card is of task '{card.asks.task}' of run {card.asks.run}, which gives nothing under this name"
        return [EntryRefused(name=one.name, commit=one.commit, why=why)]
    if card.withdrawn:
        return _taken_back(state, one, card)
    mine = state.submitted.get(one.name)
    known = mine is not None and mine.card is not None and mine.card.asks == card.asks
    return [] if known or _is_over(state, one.name, card.asks) else None


def _taken_back(state: State, one: Submission, card: Card) -> list[Event]:
    """What has ended is told of as it ended; what nobody knows of will never land."""
    task, mine = state.tasks.get(one.name), state.submitted.get(one.name)
    if _is_over(state, one.name, card.asks):
        return []
    if task is None or mine is None or mine.card is None or mine.card.asks != card.asks:
        why = "it was taken back before it stood in line"
        return [EntryRefused(name=one.name, commit=one.commit, why=why, asks=card.asks)]
    may_go = task.phase in _MAY_GO and not task.landing_in_doubt
    return [TaskCancelled(task=task.id)] if may_go else []


def _is_over(state: State, name: str, asks: Asks) -> bool:
    """Whether the run was told the end of it."""
    number, word = state.answered.get(name, (0, "in_line"))
    return asks.number < number or (asks.number == number and word in LAST_WORDS)


def card_of(state: State, one: Submission) -> Card | None:
    """
    The submission's own, or that of the run whose candidate it takes the place of: whoever mends it in its place, the
    run is told what becomes of it.
    """
    mine: EntrySubmitted | None = state.submitted.get(one.name)
    if one.card is not None or mine is None or mine.card is None:
        return one.card
    return None if _is_over(state, one.name, mine.card.asks) else mine.card
