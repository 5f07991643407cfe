"""What a gate makes of what a run gives it, or wants back: pure."""

from forgepool.orchestrator.decisions.queue.submissions import Submission, entry_of
from forgepool.orchestrator.journal.events import EntryRefused, EntrySubmitted, Event, TaskCancelled
from forgepool.orchestrator.journal.queue_events import LAST_WORDS, Asks, Card, Word
from forgepool.orchestrator.state.run import RunState

_MAY_GO = ("queued", "testing", "reviewing", "reviewed", "needs_human")


def of_run(state: RunState, one: Submission) -> list[Event] | None:
    """Of what was given before, and of what is taken back; None for what is to be taken in like anybody's."""
    card, asks = one.card, one.asks if one.card is None else one.card.asks
    if asks is None:
        return None
    if entry_of(asks) != one.name:
        why = f"its card is of task '{asks.task}' of run {asks.run}, which gives nothing under this name"
        return [EntryRefused(name=one.name, commit=one.commit, why=why)]
    withdrawn = card is not None and card.withdrawn
    if (wrong := _out_of_turn(state, one.name, asks, readable=card is not None)) is not None:
        word: Word = "withdrawn" if withdrawn else "refused"
        said = one.wrong or wrong
        return [EntryRefused(name=one.name, commit=one.commit, why=said, asks=asks, out_of_turn=True, word=word)]
    if card is not None and withdrawn:
        return _taken_back(state, one, card)
    mine = state.submitted.get(one.name)
    known = mine is not None and mine.card is not None and mine.card.asks == asks
    return [] if known or _is_over(state, one.name, asks) else None


def _out_of_turn(state: RunState, name: str, asks: Asks, *, readable: bool) -> str | None:
    """
    Why the number cannot be; None where it is that of the last giving, or the next. Of a name that this gate knows
    nothing of any may be the first, for another may have been kept before: of a card that can be read.

    Whoever may push can write any number on a card: one that does not follow changes nothing, and each is answered.
    """
    last = _last_number(state, name)
    if last == 0:
        return None if readable else "it is the first that is seen of it"
    if asks.number in (last, last + 1):
        return None
    if asks.number < last:
        return f"a later giving of it was taken in: number {last}, and this is {asks.number}"
    return f"it is number {asks.number} of the givings of it, and the last that came here is {last}"


def _last_number(state: RunState, name: str) -> int:
    """Of the givings that came in turn; 0 where none has."""
    entry, refused = state.submitted.get(name), state.refused.get(name)
    given = entry.card.asks.number if entry is not None and entry.card is not None else 0
    turned_away = refused.asks.number if refused is not None and refused.asks is not None else 0
    return max(given, turned_away, state.answered.get(name, (0, "in_line"))[0])


def _taken_back(state: RunState, one: Submission, card: Card) -> list[Event]:
    """What has ended is told of as it ended; what nobody knows of will never land."""
    task, mine = state.tasks.get(one.name), state.submitted.get(one.name)
    if _is_over(state, one.name, card.asks):
        return []
    if task is None or mine is None or mine.card is None or mine.card.asks != card.asks:
        why = "it was taken back before it stood in line"
        return [EntryRefused(name=one.name, commit=one.commit, why=why, asks=card.asks, word="withdrawn")]
    may_go = task.phase in _MAY_GO and not task.landing_in_doubt
    return [TaskCancelled(task=task.id)] if may_go else []


def _is_over(state: RunState, name: str, asks: Asks) -> bool:
    """Whether the run was told the end of it."""
    number, word = state.answered.get(name, (0, "in_line"))
    return asks.number < number or (asks.number == number and word in LAST_WORDS)


def card_of(state: RunState, one: Submission) -> Card | None:
    """
    The submission's own, or that of the run whose candidate it takes the place of: whoever mends it in its place, the
    run is told what becomes of it.
    """
    mine: EntrySubmitted | None = state.submitted.get(one.name)
    if one.card is not None or mine is None or mine.card is None:
        return one.card
    return None if _is_over(state, one.name, mine.card.asks) else mine.card
