"""The merge train itself, on the yard's clock: its own line, its own plan."""

from dataclasses import dataclass, field

from forgepool.orchestrator.simulate.queue.yard import Numbers, Run, Yard
from forgepool.supervisor.train.model import (
    Action,
    Cancel,
    Couple,
    Dissolve,
    Ids,
    Land,
    Return,
    Snapshot,
    StartTrial,
    TrainEntry,
    Trial,
)
from forgepool.supervisor.train.model import TrainPolicy as TrainPolicy
from forgepool.supervisor.train.plan import plan
from forgepool.supervisor.train.queue import TrainQueue
from forgepool.supervisor.train.surprise import is_unexpected, surprise_rate


@dataclass(slots=True, kw_only=True)
class SimulatedTrain:
    yard: Yard
    policy: TrainPolicy = field(default_factory=TrainPolicy)
    line: TrainQueue = field(default_factory=TrainQueue)
    running: dict[str, Run] = field(default_factory=dict)
    surprises: list[bool] = field(default_factory=list)

    def decide(self, arrived: Numbers, ended: list[Run]) -> None:
        for number in arrived:
            change = self.yard.world.changes[number]
            scopes = frozenset(map(str, change.modules)) if self.yard.world.terms.scopes else None
            self.line.enter(TrainEntry(id=str(number), accepted=number, risk=change.risk, scopes=scopes))
        for trial, run in self.running.items():
            if run.failing:
                self.line.doubt(trial)
        for run in ended:
            trial = next(key for key, one in self.running.items() if one is run)
            del self.running[trial]
            self.line.answer(trial, "green" if run.green else "red")
        while actions := plan(self._seen()):
            for action in actions:
                self._do(action)

    def _seen(self) -> Snapshot:
        return self.line.snapshot(
            slots=self.yard.world.terms.workers, policy=self.policy, surprise=surprise_rate(self.surprises)
        )

    def _do(self, action: Action) -> None:
        match action:
            case Couple(entries=ids, at=at):
                self.line.couple(ids, at)
            case StartTrial():
                self._start(action)
            case Cancel(trial=trial):
                self.line.forget(trial)
            case Land(trial=trial):
                self._land(self.line.trials[trial].spec)
            case Return(entry=entry):
                self._decided((entry,), returned=True)
                self.yard.give_back(int(entry))
                self.line.leave([entry])
            case Dissolve(car=car, parts=parts):
                self.line.dissolve(car, parts)
        for trial in [key for key in self.running if key not in self.line.trials]:
            self.yard.cancel(self.running.pop(trial))

    def _start(self, start: StartTrial) -> None:
        run = self.yard.start(_numbers((*start.ahead, *start.car)), _numbers(start.car), again=start.decisive)
        trial = Trial(id=str(len(self.yard.runs)), ahead=start.ahead, car=start.car, decisive=start.decisive)
        self.running[trial.id] = run
        self.line.start(trial)

    def _land(self, ids: Ids) -> None:
        self._decided(ids, returned=False)
        self.yard.land(_numbers(ids))
        self.line.land(ids)

    def _decided(self, ids: Ids, *, returned: bool) -> None:
        self.surprises.extend(is_unexpected(self.line.entries[one], returned=returned) for one in ids)


def _numbers(ids: Ids) -> Numbers:
    return tuple(int(one) for one in ids)
