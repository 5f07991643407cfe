"""Two models race for one task: what lands, and what is kept of the other."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Machine, Repository, events_of, write_plan
from models_kit import know, planning, writes
from vendors.answers import Say, Seen
from vendors.server import VendorServer

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState

NothingLeft = Callable[[Path, Machine], None]


def _racing(ground: Path) -> Path:
    """Write the plan of one task that two models race for, with a check."""
    task = {"id": "one", "files": ["one.txt"], "agent": {"builtin": {}}}
    attempts = {"ladder": ["model-anthropic", "model-openai-chat"], "race": 2}
    plan = {"name": "raced", "checks": {"right": "test ! -e one.txt || grep -q 'by one' one.txt"}, "review": "none"}
    return write_plan(ground, plan | {"tasks": [task | {"attempts": attempts}]})


class _FirstIsSlow:
    """The first model writes its file and then thinks until it is let go. The second begins its work after that."""

    def __init__(self) -> None:
        self.thinking, self.released = threading.Event(), threading.Event()

    def __call__(self, seen: Seen) -> Say:
        said = writes(seen)
        if planning(seen):
            return said
        if seen.wire != "anthropic":
            self.thinking.wait(20)
        elif seen.results:
            self.thinking.set()
            self.released.wait(20)
        for name, given in said.calls:
            if name == "write_file" and seen.wire == "anthropic":
                given["content"] = "by one, slowly\n"
        return said


def _folded(machine: Machine) -> RunState:
    state = RunState.blank(["one"])
    for one in machine.journal():
        apply(state, one.event, number=one.number, at=one.at)
    return state


@pytest.mark.slow
def test_the_first_of_two_models_lands_and_the_other_is_stopped_with_its_work_kept(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    brain = _FirstIsSlow()
    with VendorServer(brain, models=["m"]) as server:
        know(machine, server)
        ended = machine.run("run", _racing(ground), "--repo", repository.path, "--workers", "2")
        assert not brain.released.is_set() and ended.status == 0, ended.out + ended.err
        brain.released.set()
    assert repository.landed("forgepool/raced") == ["one"]
    assert repository.file("forgepool/raced", "one.txt") == "by one"
    run, journal = machine.the_run(), machine.journal()
    (landed,) = [one for one in journal if isinstance(one.event, e.LandingAnswered)]
    (withdrawn,) = [one for one in journal if isinstance(one.event, e.RacerWithdrawn)]
    (kept,) = [one for one in journal if isinstance(one.event, e.WorkKept)]
    assert 0 <= withdrawn.at - landed.at < 1.0, "the loser is withdrawn within a second of the landing"
    assert 0 <= kept.at - landed.at < 5.0, "its worker hears of it"
    use = _folded(machine).tasks["one"].uses[1]
    assert use.spent is not None and use.spent == kept.event.spent and not use.open
    assert "+by one, slowly" in machine.run("salvage", run, "one", "--attempt", "1", "--patch", "-").out
    report = machine.run("report", run).out
    assert "race of attempts 1 and 2 of 'one': attempt 2 landed; the other: 0." in report, report
    nothing_left(ground, machine)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        *("order.sent.journaled", "message.taken.journaled", "order.answered.unjournaled", "order.answered.journaled"),
        *("entry.queued.journaled", "check.answered.journaled", "landing.intended.journaled", "landing.before-push"),
        *("landing.after-push", "landing.answered.unjournaled", "race.withdrawn.unjournaled"),
        *("race.withdrawn.journaled", "work.kept.unjournaled", "work.kept.journaled", "run.ended.unjournaled"),
    ],
)
def test_a_death_at_any_step_of_a_race_lands_the_task_once_and_reserves_nothing(
    point: str, ground: Path, machine: Machine, repository: Repository
) -> None:
    brain = _FirstIsSlow()
    with VendorServer(brain, models=["m"]) as server:
        know(machine, server)
        machine.variables["FORGEPOOL_FAULT"] = f"{point}:{ground / 'died'}"
        ended = machine.run("run", _racing(ground), "--repo", repository.path, "--workers", "2")
        assert (ground / "died").exists(), ended.out + ended.err
        brain.thinking.set()
        brain.released.set()
        if ended.status != 0:
            ended = machine.run("resume", machine.the_run())
        assert ended.status == 0, ended.out + ended.err
    assert repository.landed("forgepool/raced") == ["one"]
    landings = [one.result.outcome for one in events_of(machine.journal(), e.LandingAnswered)]
    assert landings.count("landed") == 1
    state = _folded(machine)
    assert not state.racers and not state.outstanding() and not any(use.open for use in state.uses())
