"""
One target's line: who waits, the cars, the trials. What the run loop, the gate and the simulator keep between plans.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from forgepool.supervisor.train.model import (
    Ids,
    Snapshot,
    TrainEntry,
    TrainPolicy,
    Trial,
    TrialState,
    have_common,
    scopes_of,
)


@dataclass(slots=True, kw_only=True)
class TrainQueue:
    """Entries by id, in the order in which they came or came back; cars in the order in which they are to land."""

    entries: dict[str, TrainEntry] = field(default_factory=dict)
    cars: list[Ids] = field(default_factory=list)
    trials: dict[str, Trial] = field(default_factory=dict)

    def enter(self, entry: TrainEntry) -> None:
        """One that stands in line already keeps its place, and becomes what it is now."""
        self.entries[entry.id] = entry

    def leave(self, gone: Iterable[str]) -> None:
        """Returned, withdrawn or cancelled: with it go all trials in which it was; the rest of its car stays a car."""
        out = set(gone)
        for one in out:
            self.entries.pop(one, None)
        self.cars = [left for car in self.cars if (left := tuple(one for one in car if one not in out))]
        self.trials = {key: trial for key, trial in self.trials.items() if not out & set(trial.spec)}

    def couple(self, ids: Ids, at: int) -> None:
        """
        Form a batch. Entries of the same or a lower class that were accepted before these and come later are overtaken.
        """
        newest = max(self.entries[one].accepted for one in ids)
        rank = min(RANK[self.entries[one].klass] for one in ids)
        behind = {one for car in self.cars[at:] for one in car}
        ahead = {one for car in self.cars[:at] for one in car} | set(ids)
        self.cars.insert(at, ids)
        for entry in list(self.entries.values()):
            passed = entry.accepted < newest and RANK[entry.klass] >= rank and entry.id not in ahead
            if passed and (entry.id in behind or (entry.ready and not entry.held)):
                self.entries[entry.id] = replace(entry, overtaken=entry.overtaken + 1)

    def dissolve(self, car: Ids, parts: Sequence[Ids], suspects: Ids = ()) -> None:
        """
        Split a batch: its entries become batches of their own, or the given parts, behind all others; its trials are of
        no use.

        Where the parts leave an entry out, it waits again, and the rest keeps its place: nothing was red, or that entry
        is a suspect. One that is a suspect for the second time goes alone for good.
        """
        at = self.cars.index(car)
        self.cars.remove(car)
        self.trials = {key: trial for key, trial in self.trials.items() if not set(car) & set(trial.spec)}
        for one in suspects:
            self.entries[one] = replace(self.entries[one], suspect=True, single=self.entries[one].suspect)
        if sum(len(part) for part in parts) < len(car):
            self.cars[at:at] = parts
            return
        for one in car:
            self.entries[one] = replace(self.entries[one], single=True)
        self.cars.extend(parts)

    def start(self, trial: Trial) -> None:
        self.trials[trial.id] = trial

    def answer(self, trial_id: str, state: TrialState, *, clash: str = "", suspects: Ids = ()) -> None:
        """Record an answer. For a trial that is of no use any more it changes nothing."""
        if trial_id not in self.trials:
            return
        trial = replace(self.trials[trial_id], state=state, clash=clash, suspects=suspects)
        self.trials[trial_id] = trial
        if state == "green" and not trial.ahead and len(trial.car) == 1:
            self.vet(trial.car[0])
            if trial.stale:
                self.forget(trial_id)

    def doubt(self, trial_id: str) -> None:
        """Its first run was red, and it is run again."""
        if trial_id in self.trials:
            self.trials[trial_id] = replace(self.trials[trial_id], failing=True)

    def stop(self, trial_id: str) -> None:
        """Cancelled; it holds its slot until it is forgotten."""
        if trial_id in self.trials:
            self.trials[trial_id] = replace(self.trials[trial_id], state="stopping")

    def vet(self, entry_id: str) -> None:
        self.entries[entry_id] = replace(self.entries[entry_id], vetted=True)

    def forget(self, trial_id: str) -> None:
        """Forget a trial that was cancelled, or lost without an entry's fault."""
        self.trials.pop(trial_id, None)

    def land(self, ids: Ids) -> None:
        """
        The tip is what was tested as this spec; trials that began with it go on from there.

        Others to which it makes no difference, by their scopes, go on behind the tip. Of the rest the decisive ones, of
        one entry alone, go on as stale; others are of no use.
        """
        going_on = {}
        for key, trial in self.trials.items():
            left = tuple(one for one in trial.ahead if one not in ids)
            if trial.ahead[: len(ids)] == ids:
                going_on[key] = replace(trial, ahead=left)
            elif not trial.stale and self._is_elsewhere(trial, ids):
                going_on[key] = replace(trial, ahead=left, behind=True)
            elif trial.decisive and trial.state != "green" and trial.car[0] not in ids:
                going_on[key] = replace(trial, stale=True)
        self.leave(ids)
        self.trials = going_on

    def _is_elsewhere(self, trial: Trial, ids: Ids) -> bool:
        """
        Tell whether the landing does not affect the batch, or was assumed to land, behind the same entries as now.
        """
        if set(ids) & set(trial.car):
            return False
        car = scopes_of(self.entries[one] for one in trial.car)
        for at, one in enumerate(ids):
            scopes = self.entries[one].scopes
            if one not in trial.ahead:
                if have_common(scopes, car):
                    return False
                continue
            before = set(trial.ahead[: trial.ahead.index(one)]) - set(ids[:at])
            if any(have_common(self.entries[other].scopes, scopes) for other in before):
                return False
        return True

    def move(self) -> None:
        """Note a foreign move of the tip: nothing that was tested on the old one can land."""
        self.trials.clear()

    def waiting(self) -> list[TrainEntry]:
        coupled = {one for car in self.cars for one in car}
        return [entry for entry in self.entries.values() if entry.id not in coupled]

    def needing(self, ids: Iterable[str]) -> Ids:
        """Return the other entries that cannot land without one of these, in the order of their arrival."""
        lost, found = set(ids), dict[str, None]()
        while more := [one.id for one in self.entries.values() if one.id not in lost and lost & set(one.needs)]:
            found |= dict.fromkeys(more)
            lost.update(more)
        return tuple(one for one in self.entries if one in found)

    def snapshot(self, *, slots: int, policy: TrainPolicy, surprise: float, named: float = 0.0) -> Snapshot:
        return Snapshot(
            waiting=tuple(self.waiting()),
            cars=tuple(tuple(self.entries[one] for one in car) for car in self.cars),
            trials=tuple(self.trials.values()),
            slots=slots,
            policy=policy,
            surprise=surprise,
            named=named,
        )


RANK = {"hotfix": 0, "normal": 1, "low": 2}
"""The ranks of the classes: the lower goes first."""
