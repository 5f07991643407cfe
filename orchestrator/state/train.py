"""
The train as the events so far have left it: the line, what is out for its trials, and the landing under way.

Entries are named by their tasks' ids. What of an entry is known elsewhere (its plan, its review) is not kept here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.train.model import Action, Ids, Snapshot, TrainEntry, Trial, TrialState
from forgepool.supervisor.train.plan import plan
from forgepool.supervisor.train.queue import TrainQueue

Decorated = tuple[TrainEntry, Mapping[str, object], TrainEntry]
"""An entry of the line, what was known of it, and the entry with that."""

_RED = ("red", "findings", "conflict")
_REMEMBERED = 60
"""Outcomes that are counted: of entries, whether each was returned; of red cars, whether their tests named suspects."""
_SLOW = ("timeout", "idle")


@dataclass(slots=True, kw_only=True)
class OwedTrial:
    """A trial's message, as long as it is owed, and its answer, as long as that may be of use."""

    message: Outstanding | None
    base: str
    """The tip on which it is, or would now be, composed."""
    ahead: Ids = ()
    """Entries ahead of it there; of a trial that was left behind by the tip, some may have landed since."""
    holder: str = ""
    result: CheckResult | None = None


@dataclass(slots=True, kw_only=True)
class LandingState:
    """The landing under way."""

    message: Outstanding
    intent: e.LandingIntended
    holder: str = ""


@dataclass(slots=True, kw_only=True)
class TrainState:
    line: TrainQueue = field(default_factory=TrainQueue)
    out: dict[str, OwedTrial] = field(default_factory=dict)
    """By message id of the trial."""
    landing: LandingState | None = None
    outcomes: tuple[bool, ...] = ()
    """For the entries decided last, the latest last: whether each was returned."""
    apart: set[str] = field(default_factory=set)
    """Entries that change the gate itself: no entry is tested behind them."""
    named: tuple[bool, ...] = ()
    """For the cars that were red last, the latest last: whether their tests told the suspects."""
    refused: dict[str, str] = field(default_factory=dict)
    """Entries that the hub refused, with its words: each waits for a person, and no other entry waits for it."""
    refusals_in_a_row: Ids = ()
    """The refused entries since the last one that the hub took."""
    given_another_chance: set[str] = field(default_factory=set)
    """They were in such a row, and the gate was opened again: what the hub says of them now, it says of no others."""
    doubted: set[str] = field(default_factory=set)
    """Entries of a landing of several that the hub did not take: each lands by itself, which shows whose it was."""
    decorated: dict[str, "Decorated"] = field(default_factory=dict, repr=False, compare=False)
    """By entry, how it was decorated last."""
    planned: tuple[Snapshot, list[Action]] | None = field(default=None, repr=False, compare=False)
    """The line that was planned last, and its plan."""

    def plan(self, seen: Snapshot) -> list[Action]:
        """Return the plan of the line; most events change nothing in it, and then the last plan is still the one."""
        if self.planned is None or self.planned[0] != seen:
            self.planned = seen, plan(seen)
        return self.planned[1]

    def messages(self) -> tuple[Outstanding, ...]:
        """Return the messages whose answers are due."""
        owed = [one.message for one in self.out.values() if one.message is not None]
        return (*owed, self.landing.message) if self.landing is not None else tuple(owed)

    def holder(self, message: Outstanding) -> str:
        if self.landing is not None and self.landing.message == message:
            return self.landing.holder
        return next((one.holder for one in self.out.values() if one.message == message), "")

    def take_message(self, message: Outstanding, holder: str) -> None:
        if self.landing is not None and self.landing.message == message:
            self.landing.holder = holder
            return
        for one in self.out.values():
            if one.message == message:
                one.holder = holder

    def enter(self, task: str, accepted: int) -> None:
        self.line.enter(TrainEntry(id=task, accepted=accepted))

    def note(self, *, returned: bool) -> None:
        self.outcomes = (*self.outcomes, returned)[-_REMEMBERED:]

    def note_red_car(self, *, named: bool) -> None:
        self.named = (*self.named, named)[-_REMEMBERED:]

    def leave(self, task: str) -> None:
        if task in self.line.entries:
            self.line.leave([task])
            self.apart.discard(task)
            self.doubted.discard(task)
            self.given_another_chance.discard(task)
            self.let_go(task)
            self._forget_lost()

    def send_trial(self, event: e.CheckSent) -> None:
        """A car that is not one yet becomes one; an entry that is tried alone, before it may share a car, does not."""
        car, waiting = event.car or (event.task,), {one.id for one in self.line.waiting()}
        strangers = [one for one in (*event.ahead, *car) if one not in self.line.entries]
        if strangers:
            raise IllegalStep(f"'{strangers[0]}' stands in no line")
        if event.at is not None:
            if not set(car) <= waiting:
                raise IllegalStep(f"{' and '.join(car)} cannot be coupled: one of them has a car")
            self.line.couple(car, event.at)
        for one in car:
            scopes = event.scopes.get(one)
            found = None if scopes is None else frozenset(scopes)
            self.line.enter(replace(self.line.entries[one], scopes=found))
        self.line.start(Trial(id=event.message_id, ahead=event.ahead, car=car, decisive=event.decisive))
        message = Outstanding(
            message_id=event.message_id,
            token=event.token,
            kind="check",
            task=event.task,
            issued_at=event.issued_at,
        )
        self.out[event.message_id] = OwedTrial(message=message, base=event.base, ahead=event.ahead)

    def take_answer(self, result: CheckResult) -> None:
        """An answer that says nothing of the entries ends the trial as if it had not been."""
        out = self.out.get(result.request_id)
        if out is None or out.message is None:
            raise IllegalStep(f"no check is waited for under {result.request_id}")
        out.message, out.holder, out.result = None, "", result
        state = trial_state(result)
        if state is None:
            self.forget(result.request_id)
        else:
            clash = result.about if result.verdict in ("conflict", "findings") else ""
            self.line.answer(result.request_id, state, clash=clash, suspects=result.suspects)
            self._forget_lost()

    def forget(self, message_id: str) -> None:
        self.line.forget(message_id)
        self._forget_lost()

    def dissolve(self, car: Ids, parts: Iterable[Ids], suspects: Ids = ()) -> None:
        self.line.dissolve(car, list(parts), suspects)
        self._forget_lost()

    def uncouple(self, task: str) -> None:
        """
        Take an entry out of its batch and back into the queue, where it waits for an approval. Its result alone is
        kept.
        """
        alone = {key: one for key, one in self.line.trials.items() if one.spec == (task,)}
        entry = self.line.entries[task]
        self.line.leave([task])
        self.line.enter(entry)
        self.line.trials |= alone
        self._forget_lost()

    def intend(self, event: e.LandingIntended, entries: Ids) -> None:
        if self.landing is not None:
            raise IllegalStep(f"{event.commit[:12]} may not land while another landing is under way")
        message = Outstanding(
            message_id=event.message_id,
            token=event.token,
            kind="landing",
            task=event.task,
            issued_at=event.issued_at,
        )
        self.landing = LandingState(message=message, intent=event.model_copy(update={"entries": entries}))

    def not_taken(self, ids: Ids, words: str) -> None:
        """By the hub."""
        if len(ids) == 1:
            self.refused[ids[0]] = words
            if not self.given_another_chance.issuperset(ids):
                self.refusals_in_a_row = (*self.refusals_in_a_row, *ids)
            return
        self.doubted.update(ids)
        for car in [one for one in self.line.cars if len(one) > 1 and set(one) & set(ids)]:
            self.dissolve(car, [(one,) for one in car])

    def let_go(self, task: str) -> None:
        """Forget the hub's words about it."""
        self.refused.pop(task, None)
        self.refusals_in_a_row = tuple(one for one in self.refusals_in_a_row if one != task)

    def reopen(self) -> None:
        """Let refused entries in again: the hub refused one after the other, which may have been no entry's fault."""
        row = self.refusals_in_a_row
        if len(row) > 1:
            self.given_another_chance.update(row)
            for one in row:
                self.let_go(one)

    def land_entries(self, ids: Ids, tip: str) -> None:
        """Trials that began with these go on from there."""
        self.refusals_in_a_row = ()
        self.line.land(ids)
        self.doubted.difference_update(ids)
        self.given_another_chance.difference_update(ids)
        for key, one in self.out.items():
            trial = self.line.trials.get(key)
            if trial is not None and not trial.stale and not trial.behind:
                one.base, one.ahead = tip, trial.ahead
        self._forget_lost()

    def note_moved_tip(self) -> None:
        """The tip is another, or may be: nothing that was tried on the old one can land."""
        self.line.move()
        self._forget_lost()

    def _forget_lost(self) -> None:
        self.out = {key: one for key, one in self.out.items() if key in self.line.trials}


def trial_state(result: CheckResult) -> TrialState | None:
    """Return what an answer says of the entries; None where it says nothing of them."""
    if result.verdict == "green":
        return "green"
    if result.verdict not in _RED:
        return None
    timed_out = bool(result.failures) and all(one.how in _SLOW for one in result.failures)
    return "timeout" if timed_out else "red"


def decorate_line(
    line: TrainQueue, known: Mapping[str, Mapping[str, object]], last: dict[str, Decorated]
) -> TrainQueue:
    """
    Return the line with what is known elsewhere of its entries; the original stays as it is.

    `last` has the entries as they were decorated last, and is brought up to date: most have not changed since.
    """
    for key, entry in line.entries.items():
        before, told = last.get(key), known.get(key, {})
        if before is None or before[0] is not entry or before[1] != told:
            last[key] = entry, told, replace(entry, **told)  # type: ignore[arg-type]
    for gone in last.keys() - line.entries.keys():
        del last[gone]
    entries = {key: last[key][2] for key in line.entries}
    return TrainQueue(entries=entries, cars=list(line.cars), trials=dict(line.trials))
