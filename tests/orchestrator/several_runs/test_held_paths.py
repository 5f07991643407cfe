"""A task waits for paths that another run on its target has in flight, but not for ever, and nothing else waits."""

import random
from collections.abc import Sequence

import pytest
from plans import RUN, answered, begun, course, follow, landing, sent, task, verdict

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.locks import hold_back
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    LandingAnswered,
    MessageLost,
    OrderSent,
    PathsAsked,
    PathsQueued,
    RunPaused,
    RunResumed,
    RunStarted,
)
from forgepool.orchestrator.plan.overlap import Globs
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.neighbours.other_runs import describe_run, find_paths_elsewhere
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState

TWO = course(task("a", files=["x"]), task("b", files=["y"]))


def start(of: PlanIndex, state: RunState, *, now: float = 100.0, **elsewhere: Sequence[str]) -> list[str]:
    """Follow all that is decided while other runs have these paths in flight; return the tasks that were started."""
    paths = {run: Globs.of(globs) for run, globs in elsewhere.items()}
    decided: list[Event] = []
    while events := decide(of, state, now=now, order_slots=9, check_slots=0, draining=False, elsewhere=paths):
        follow(state, *events, at=now)
        decided += events
    return [one.task for one in decided if isinstance(one, OrderSent)]


def ask(*paths: str) -> PathsAsked:
    return PathsAsked(task="a", attempt=1, number=1, paths=paths)


def why(of: PlanIndex, state: RunState, name: str) -> tuple[str, str]:
    (found,) = (one for one in standing(of, state, now=state.at, live=True).tasks if one.task == name)
    return found.phase, found.detail


def test_a_task_waits_for_the_paths_that_another_run_has_in_flight_and_starts_once_they_are_free() -> None:
    of = course(task("a", files=["src/a.py"]), task("b", files=["docs/*"]), task("c", "a", files=["src/c.py"]))
    state = begun(of)
    assert start(of, state, other=["src/*.py", "lib"]) == ["b"]
    assert why(of, state, "a") == ("pending", "waits for run other, which is at work on src/*.py")
    assert why(of, state, "c") == ("pending", "needs a")
    assert start(of, state, other=["src/*.py", "lib"]) == [] and start(of, state, other=["src/a.py"]) == []
    assert start(of, state, other=["lib"]) == ["a"]


def test_what_other_runs_hold_is_told_once_for_each_run_and_told_when_it_is_free() -> None:
    of = course(task("a", files=["x"]), task("b", files=["y"]))
    state = begun(of)

    def told(now: float = 100.0, **elsewhere: Sequence[str]) -> list[str | None]:
        paths = {run: Globs.of(globs) for run, globs in elsewhere.items()}
        events = hold_back(of, state, paths)
        follow(state, *events, at=now)
        return [sentence(one, run=RUN) for one in events]

    assert told() == []
    assert told(r2=["**"]) == ["a, b wait for run r2, which is at work on **"]
    assert told(r2=["x", "y"]) == [], "another of its tasks is no news"
    assert told(r2=["x"]) == ["a waits for run r2, which is at work on **"]
    assert hold_back(of, state, None) == [], "where nothing is known of others, nothing is new"
    assert told() == ["no task waits for another run any more"]
    assert told() == []


def test_only_starts_wait_for_another_run_so_that_two_runs_never_wait_for_one_another() -> None:
    """Both have started at once on the same paths. Candidates and questions of either go on beside the other's."""
    state = begun(TWO, sent("a"), sent("b"), ask("z"), answered("b", paths=["y", "extra"]))
    assert start(TWO, state, other=["x", "y", "z", "extra"]) == []
    assert state.tasks["a"].asks[1].verdict == "granted"
    assert state.tasks["b"].phase == "queued" and not state.elsewhere


def test_what_only_waits_holds_nothing_back_elsewhere() -> None:
    """Two runs want each other's paths next: what one tells the other is what it has under way."""
    of = course(task("a", files=["x"]), task("b", files=["y"]))
    first, second = begun(of, sent("a")), RunState.blank(of.tasks)
    follow(second, RunStarted(run="r-2", plan_digest="d", hub="/hub", target="t", tip="c0"), sent("b"))
    for one, other in ((first, second), (second, first)):
        told = find_paths_elsewhere(one, [describe_run(of, other, weight=1, waiting=1)])
        follow(one, *hold_back(of, one, told))
    assert set(first.elsewhere) == {"b"} and set(second.elsewhere) == {"a"}
    follow(first, answered("a"), at=101.0)
    follow(first, *decide(of, first, now=101.0, order_slots=0, draining=False), at=101.0)
    assert first.tasks["a"].phase == "queued", "what is in flight lands, and is in flight no more"


def test_no_task_waits_for_other_runs_for_ever_though_they_take_turns() -> None:
    of = course(task("a", files=["x"]))
    state = begun(of)
    for at in range(100, 1900, 100):
        assert start(of, state, now=float(at), **{f"r{at}": ["x"]}) == []
    assert start(of, state, now=1900.0, again=["x"]) == ["a"]
    assert state.elsewhere == {}
    follow(state, MessageLost(message_id=f"{RUN}.a.1", why="gone"), at=1900.0)
    assert start(of, state, now=2000.0, again=["x"]) == [], "the next attempt waits anew"
    state = begun(of)
    assert start(of, state, now=9000.0, other=["x"]) == []
    assert start(of, state, now=100.0, other=["x"]) == ["a"], "a clock that was set back keeps nothing waiting"


def test_a_pause_without_a_slot_does_not_begin_the_wait_anew() -> None:
    of = course(task("a", files=["x"]))
    state = begun(of)
    assert start(of, state, now=100.0, other=["x"]) == []
    follow(state, *hold_back(of, state, {}), at=1000.0)
    assert start(of, state, now=1001.0, other=["x"]) == []
    assert start(of, state, now=1900.0, other=["x"]) == ["a"]


def test_a_task_waits_for_other_runs_with_the_paths_that_it_will_hold_and_those_that_it_reads() -> None:
    of = course(task("a", files=["x"]), task("b", files=["b"], reads=["lib/*"]), task("c", files=None))
    queued = PathsQueued(task="a", attempt=1, number=1, paths=("y",), why="w")
    told = answered("a", 1, "infrastructure", not_before=1.0, detail="it has to wait")
    state = begun(of, sent("a"), ask("y"), queued, told)
    assert start(of, state, other=["y"]) == ["b", "c"], "of what declares nothing no paths are known"
    assert why(of, state, "a")[1] == "waits for run other, which is at work on y"
    assert start(of, begun(of), other=["lib/a"]) == ["a", "c"]


def test_a_task_that_runs_alone_does_so_within_its_own_run() -> None:
    of = course(task("a", files=None), undeclared="exclusive")
    assert start(of, begun(of), other=["x"]) == ["a"]


@pytest.mark.parametrize("event", [RunPaused(why="interrupted"), RunResumed(tip="c0")])
def test_a_run_that_stops_or_begins_again_forgets_what_others_held(event: Event) -> None:
    of = course(task("a", files=["x"]))
    state = begun(of)
    start(of, state, other=["x"])
    assert state.elsewhere and not follow(state, event).elsewhere


@pytest.mark.parametrize("seed", range(30))
def test_two_runs_on_the_same_paths_both_come_to_their_end(seed: int) -> None:
    """Each sees the other as it was some time ago, and any of their messages may be answered next."""
    chance = random.Random(seed)
    runs = [(of, begun(of)) for of in (many(chance), many(chance))]
    seen: list[dict[str, Globs]] = [{}, {}]
    for _ in range(2000):
        at = chance.randrange(2)
        of, state = runs[at]
        if chance.random() < 0.5:
            other = describe_run(*runs[1 - at], weight=1, waiting=0).model_copy(update={"run": "other"})
            seen[at] = find_paths_elsewhere(state, [other])
        if chance.random() < 0.5:
            slots = chance.randrange(4)
            follow(state, *decide(of, state, now=100.0, order_slots=slots, draining=False, elsewhere=seen[at]))
        elif owed := list(state.outstanding().values()):
            follow(state, answer(state, chance.choice(owed)))
        if all(state.finished for _, state in runs):
            return
    raise AssertionError([[(one.id, one.phase) for one in state.tasks.values()] for _, state in runs])


def many(chance: random.Random) -> PlanIndex:
    names = "abcdefgh"
    return course(*(task(name, files=chance.sample(names, 2), reads=chance.sample(names, 1)) for name in names))


def answer(state: RunState, message: Outstanding) -> Event:
    """Return a good answer to the message."""
    name = message.task
    if message.kind == "order":
        return answered(name, state.tasks[name].attempt, token=message.token)
    if message.kind == "check":
        car = state.train.line.trials[message.message_id].car
        composed = {"request_id": message.message_id, "commits": tuple(f"m-{one}-1" for one in car)}
        return CheckAnswered(task=name, result=verdict(name).model_copy(update=composed))
    return LandingAnswered(task=name, result=landing(name))
