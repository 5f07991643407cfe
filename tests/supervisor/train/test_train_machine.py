"""Random events in any order: nothing wrong lands, no entry is blamed for another, and all are decided."""

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from forgepool.supervisor.train.model import (
    Action,
    Cancel,
    Couple,
    Dissolve,
    Ids,
    Land,
    Return,
    Scopes,
    StartTrial,
    TrainEntry,
    TrainPolicy,
    Trial,
    TrialState,
    have_common,
)
from forgepool.supervisor.train.plan import plan
from forgepool.supervisor.train.queue import TrainQueue

chance = st.integers(min_value=0, max_value=99)
policies = st.builds(
    TrainPolicy,
    most=st.integers(1, 4),
    later_passes=st.booleans(),
    hedge_above=st.sampled_from((0.05, 0.35)),
    most_of_one=st.sampled_from((None, 1, 2)),
    most_overtaken=st.sampled_from((1, 16)),
)


scopes = st.none() | st.frozensets(st.sampled_from("xyz"), max_size=2)


class Machine(RuleBasedStateMachine):
    """
    A queue whose truth is hidden from the planner: bad entries, pairs that fail together, and those that do not
    compose.
    """

    def __init__(self) -> None:
        super().__init__()
        self.line = TrainQueue()
        self.policy, self.slots, self.named, self.count = TrainPolicy(), 3, 0.0, 0
        self.bad: set[str] = set()
        self.partners: dict[str, set[str]] = {}
        self.apart: dict[str, set[str]] = {}
        self.tip: list[str] = []
        self.tested: dict[str, list[str]] = {}
        self.decided: set[str] = set()
        self.scopes: dict[str, Scopes] = {}

    @rule(policy=policies, slots=st.integers(1, 6), named=st.sampled_from((0.0, 0.5, 0.9)))
    def choose(self, policy: TrainPolicy, slots: int, named: float) -> None:
        self.policy, self.slots, self.named = policy, slots, named
        self.settle()

    @rule(data=st.data(), luck=chance, ready=st.booleans(), risk=st.sampled_from((0.01, 0.08, 0.4)))
    def arrive(self, data: st.DataObject, luck: int, ready: bool, risk: float) -> None:
        one, known = f"e{self.count}", [f"e{at}" for at in range(self.count)]
        self.count += 1
        if luck < 20:
            self.bad.add(one)
        self.scopes[one] = data.draw(scopes) if luck > 10 else None
        for other in known[-6:]:
            if data.draw(chance) < 12 and have_common(self.scopes[one], self.scopes[other]):
                (self.partners if luck % 2 else self.apart).setdefault(one, set()).add(other)
        needs = data.draw(st.sets(st.sampled_from(list(self.line.entries)), max_size=2)) if self.line.entries else ()
        self.line.enter(
            TrainEntry(
                id=one,
                accepted=self.count,
                klass=data.draw(st.sampled_from(("normal", "normal", "low", "hotfix"))),
                risk=risk,
                submitter="ab"[luck % 2],
                needs=tuple(sorted(needs)),
                ready=ready or luck > 50,
                scopes=self.scopes[one],
            )
        )
        self.settle()

    @rule(at=chance, word=st.sampled_from(("true", "true", "true", "true", "flake", "lost", "timeout", "again")))
    def answer(self, at: int, word: str) -> None:
        running = [trial for trial in self.line.trials.values() if trial.state == "running"]
        if not running:
            return
        trial = running[at % len(running)]
        if word == "lost":
            self.line.forget(trial.id)
        elif word == "again" and trial.decisive:
            self.line.doubt(trial.id)
        elif word == "timeout":
            self.line.answer(trial.id, "timeout")
        else:
            told = self.truth(trial, flakes=word == "flake")
            # Some tests name their owner and others name another entry. Neither may cause a good entry to be returned.
            suspects = tuple(one for one in trial.spec if (one in self.bad) != (at % 5 == 0)) if at % 2 else ()
            self.line.answer(trial.id, told, suspects=suspects if told == "red" else ())
        self.settle()

    @rule(at=chance, held=st.booleans(), ready=st.booleans())
    def have_a_word(self, at: int, held: bool, ready: bool) -> None:
        if self.line.entries:
            entry = list(self.line.entries.values())[at % len(self.line.entries)]
            self.line.enter(changed(entry, held=held, ready=ready))
            self.settle()

    @rule(at=chance)
    def withdraw(self, at: int) -> None:
        if self.line.entries:
            self.leave(list(self.line.entries)[at % len(self.line.entries)])
            self.settle()

    @rule()
    def move(self) -> None:
        self.tip.append(f"foreign{len(self.tip)}")
        self.line.move()
        self.settle()

    @invariant()
    def each_is_in_one_place(self) -> None:
        coupled = [one for car in self.line.cars for one in car]
        waiting = [entry.id for entry in self.line.waiting()]
        assert sorted(coupled + waiting) == sorted(self.line.entries)
        assert not self.decided & set(self.line.entries)

    @invariant()
    def trials_are_of_those_in_line(self) -> None:
        busy = [trial for trial in self.line.trials.values() if trial.state == "running"]
        assert len(busy) <= self.slots
        for trial in self.line.trials.values():
            assert set(trial.spec) <= set(self.line.entries)

    @invariant()
    def what_is_behind_the_tip_is_still_true(self) -> None:
        """The checks of its batch look at the same content as when it was tested."""
        for trial in self.line.trials.values():
            if trial.behind and not trial.stale:
                (tested, now) = (self.tested[trial.id], [*self.tip, *trial.spec])
                assert {one for one in tested if self.touches(trial, one)} == {
                    one for one in now if self.touches(trial, one)
                }

    def touches(self, trial: Trial, one: str) -> bool:
        return one in self.scopes and any(have_common(self.scopes[one], self.scopes[of]) for of in trial.car)

    def teardown(self) -> None:
        """With all answers given and no entry held, all are decided, and the good ones have landed."""
        for entry in list(self.line.entries.values()):
            self.line.enter(changed(entry, held=False, ready=True))
        self.settle()
        for _ in range(500):
            running = [trial for trial in self.line.trials.values() if trial.state == "running"]
            if not running:
                break
            self.line.answer(running[0].id, self.truth(running[0]))
            self.settle()
        assert not self.line.entries

    def settle(self) -> None:
        for _ in range(200):
            actions = self.plan()
            if not actions:
                return
            for action in actions:
                self.do(action)
        raise AssertionError("the plan has no end")

    def plan(self) -> list[Action]:
        return plan(self.line.snapshot(slots=self.slots, policy=self.policy, surprise=0.02, named=self.named))

    def do(self, action: Action) -> None:
        match action:
            case Couple(entries=ids, at=at):
                assert all(self.line.entries[one].ready and not self.line.entries[one].held for one in ids)
                self.line.couple(ids, at)
            case StartTrial():
                self.start(action)
            case Cancel(trial=trial):
                assert self.line.trials[trial].state == "running"
                self.line.forget(trial)
            case Land(trial=trial):
                self.land(self.line.trials[trial])
            case Return(entry=entry, trial=trial):
                self.give_back(entry, self.line.trials[trial])
            case Dissolve(car=car, parts=parts, suspects=suspects):
                assert {one for part in parts for one in part} <= set(car)
                self.line.dissolve(car, parts, suspects)

    def start(self, start: StartTrial) -> None:
        spec = (*start.ahead, *start.car)
        for at, one in enumerate(spec):
            entry = self.line.entries[one]
            assert not entry.held
            assert not (set(entry.needs) & set(self.line.entries)) - set(spec[:at])
        trial = Trial(id=f"t{len(self.tested)}", ahead=start.ahead, car=start.car, decisive=start.decisive)
        assert trial.decisive == (not trial.ahead and len(trial.car) == 1)
        self.tested[trial.id] = [*self.tip, *spec]
        self.line.start(trial)
        clash = next((one for at, one in enumerate(spec) if self.meets(self.apart, one, spec[:at])), "")
        if clash:
            self.line.answer(trial.id, "red", clash=clash)

    def land(self, trial: Trial) -> None:
        assert trial.state == "green"
        assert [*self.tip, *trial.spec] == self.tested[trial.id], "what lands is what was tested, and nothing else"
        for one in trial.spec:
            entry = self.line.entries[one]
            assert entry.ready and not entry.held
            assert one not in self.bad and not self.meets(self.partners, one, self.tip)
            assert not [need for need in entry.needs if need in self.line.entries and need not in self.tip]
            self.tip.append(one)
        self.decided.update(trial.spec)
        self.line.land(trial.spec)

    def give_back(self, one: str, trial: Trial) -> None:
        assert not trial.ahead and trial.car[0] == one
        blamed = one in self.bad or self.meets(self.partners, one, self.tip) or self.meets(self.apart, one, self.tip)
        assert blamed or trial.state == "timeout", "nobody is returned who is good"
        self.leave(one)

    def leave(self, one: str) -> None:
        gone = (one, *self.line.needing([one]))
        self.decided.update(gone)
        self.line.leave(gone)

    def truth(self, trial: Trial, *, flakes: bool = False) -> TrialState:
        """Answer truthfully; a decisive answer has been red twice and does not flake."""
        tested = self.tested[trial.id]
        red = any(one in self.bad or self.meets(self.partners, one, tested[:at]) for at, one in enumerate(tested))
        return "red" if red or (flakes and not trial.decisive) else "green"

    def meets(self, pairs: dict[str, set[str]], one: str, before: list[str] | Ids) -> bool:
        return any(other in pairs.get(one, ()) or one in pairs.get(other, ()) for other in before)


def changed(entry: TrainEntry, *, held: bool, ready: bool) -> TrainEntry:
    from dataclasses import replace

    return replace(entry, held=held, ready=ready)


# Not shrunk, because a failure is replayed by its seed and shrinking takes minutes.
Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, phases=(Phase.explicit, Phase.generate))
TestMachine = Machine.TestCase
