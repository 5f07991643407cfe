"""
A merge queue whose checks answer when the test says so. Entries are single letters, and a trial of `c` behind `a` and
`b` is written `ab|c`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count

from forgepool.supervisor.train.model import (
    Action,
    Cancel,
    Couple,
    Dissolve,
    EntryClass,
    Ids,
    Land,
    Return,
    StartTrial,
    TrainEntry,
    TrainPolicy,
    Trial,
    TrialState,
)
from forgepool.supervisor.train.plan import plan
from forgepool.supervisor.train.queue import TrainQueue


@dataclass(slots=True, kw_only=True)
class Held:
    slots: int = 8
    policy: TrainPolicy = field(default_factory=TrainPolicy)
    surprise: float = 0.02
    named: float = 0.0
    line: TrainQueue = field(default_factory=TrainQueue)
    moves: list[str] = field(default_factory=list)
    """Entries that landed, one text for each move of the target."""
    returned: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    dissolved: list[str] = field(default_factory=list)
    stops_late: bool = False
    """A cancelled trial keeps its slot until `stopped` is called."""
    _ids: Iterable[int] = field(default_factory=lambda: count(1))

    def enter(
        self,
        ids: str,
        *,
        klass: EntryClass = "normal",
        risk: float = 0.01,
        submitter: str = "",
        needs: str = "",
        ready: bool = True,
        scopes: str | None = None,
        plans: bool = True,
    ) -> None:
        for one in ids:
            self.line.enter(
                TrainEntry(
                    id=one,
                    accepted=len(self.line.entries) + len("".join(self.moves)) + len(self.returned),
                    klass=klass,
                    risk=risk,
                    submitter=submitter,
                    needs=tuple(needs),
                    ready=ready,
                    scopes=None if scopes is None else frozenset(scopes),
                )
            )
        if plans:
            self.settle()

    def change(self, one: str, **to: object) -> None:
        self.line.enter(replace(self.line.entries[one], **to))  # type: ignore[arg-type]  # named by the test
        self.settle()

    def settle(self) -> None:
        for _ in range(1000):
            actions = self.plan()
            if not actions:
                return
            for action in actions:
                self.do(action)
        raise AssertionError("the plan has no end")

    def plan(self) -> list[Action]:
        return plan(self.line.snapshot(slots=self.slots, policy=self.policy, surprise=self.surprise, named=self.named))

    def do(self, action: Action) -> None:
        line = self.line
        match action:
            case Couple(entries=ids, at=at):
                line.couple(ids, at)
            case StartTrial(ahead=ahead, car=car, decisive=decisive):
                line.start(Trial(id=f"t{next(iter(self._ids))}", ahead=ahead, car=car, decisive=decisive))
                self.started.append(written(ahead, car))
            case Cancel(trial=trial):
                self.cancelled.append(written(line.trials[trial].ahead, line.trials[trial].car))
                if self.stops_late:
                    line.stop(trial)
                else:
                    line.forget(trial)
            case Land(trial=trial):
                spec = line.trials[trial].spec
                self.moves.append("".join(spec))
                line.land(spec)
            case Return(entry=entry):
                self.returned.append(entry)
                line.leave([entry])
            case Dissolve(car=car, parts=parts, suspects=suspects):
                self.dissolved.append("".join(car))
                line.dissolve(car, parts, suspects)

    def answer(self, *specs: str, state: TrialState = "green", clash: str = "", suspects: str = "") -> None:
        """Answer the trials of these specs, all before the next plan."""
        for spec in specs:
            self.line.answer(self.trial(spec).id, state, clash=clash, suspects=tuple(suspects))
        self.settle()

    def green(self, *specs: str) -> None:
        self.answer(*specs)

    def red(self, *specs: str, clash: str = "", suspects: str = "") -> None:
        self.answer(*specs, state="red", clash=clash, suspects=suspects)

    def doubt(self, spec: str) -> None:
        """Report that the first run of this trial failed and that it runs again."""
        self.line.doubt(self.trial(spec).id)
        self.settle()

    def withdraw(self, ids: str) -> None:
        self.line.leave(ids)
        self.settle()

    def stopped(self) -> None:
        for trial in list(self.line.trials.values()):
            if trial.state == "stopping":
                self.line.forget(trial.id)
        self.settle()

    def trial(self, spec: str) -> Trial:
        found = [one for one in self.line.trials.values() if written(one.ahead, one.car) == spec]
        going = [one for one in found if one.state == "running"]
        assert going, f"{spec} is not on trial; {self.running}"
        return going[0]

    @property
    def running(self) -> list[str]:
        return sorted(written(one.ahead, one.car) for one in self.line.trials.values() if one.state == "running")

    @property
    def cars(self) -> list[str]:
        return ["".join(car) for car in self.line.cars]


def written(ahead: Ids, car: Ids) -> str:
    return f"{''.join(ahead)}|{''.join(car)}"
