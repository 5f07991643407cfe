"""Kill any process at any moment: every task lands once, the target passes, and no process is left behind."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, Repository, Started, command, events_of, wait_until, write_plan
from processes import Role, in_role

from forgepool.orchestrator.journal.events import TaskReturned

NothingLeft = Callable[[Path, Machine], None]
Task = dict[str, Any]

_CHECK = 'sleep 0.05; test -z "$(sort out/shared.txt 2>/dev/null | uniq -d)"'
_VICTIMS: Sequence[Role] = ("child", "main", "host", "redis", "orchestrator")
_SEEDS = [int(seed) for seed in os.environ.get("ROAD_SEEDS", "1").split(",")]


def _tasks(dice: random.Random) -> list[Task]:
    """
    Thirty tasks: ten alone, eight on one file, two chains of five, and two without declared files behind the chains.
    """

    def told(script: str) -> dict[str, str]:
        return command(f"sleep {dice.uniform(0.05, 0.4):.2f}; mkdir -p out; {script}")

    alone: list[Task] = [
        {"id": f"alone-{n}", "files": [f"out/alone-{n}.txt"], "agent": told(f"echo {n} > out/alone-{n}.txt")}
        for n in range(10)
    ]
    shared: list[Task] = [
        {"id": f"shared-{n}", "files": ["out/shared.txt"], "agent": told(f"echo {n} >> out/shared.txt")}
        for n in range(8)
    ]
    chained: list[Task] = [
        {
            "id": f"{chain}-{n}",
            "needs": [f"{chain}-{n - 1}"] if n else [],
            "files": [f"out/{chain}.txt"],
            "agent": told(f"echo {n} >> out/{chain}.txt"),
        }
        for chain in ("red", "blue")
        for n in range(5)
    ]
    after: list[Task] = [
        {"id": f"after-{one}", "needs": [f"{one}-4"], "agent": told(f"tac out/{one}.txt > out/after-{one}.txt")}
        for one in ("red", "blue")
    ]
    return [*alone, *shared, *chained, *after]


def _kill_one(machine: Machine, orchestrator: Started, dice: random.Random) -> Role | None:
    """
    Kill one live process and return its role; return None if there is none. The role is drawn first, because some have
    many more processes.
    """
    there = {role: found for role in _VICTIMS if (found := in_role(machine.folder, role))}
    if not there:
        return None
    role = dice.choice(list(there))
    if role == "orchestrator":
        orchestrator.kill()
    else:
        dice.choice(there[role]).kill()
    return role


def _survive(machine: Machine, first: Started, dice: random.Random, *, kills: int) -> Counter[Role | None]:
    """
    Kill at random moments and resume, until the kills are used up and the run has ended.

    One kill in four may also hit the start of the run; the others wait until a task is worked on.
    """
    run = machine.the_run()
    under_way, killed = first, Counter[Role | None]()
    deadline = time.monotonic() + 110
    while killed.total() < kills and under_way.running():
        if dice.random() > 0.25:
            _at_work(machine, under_way)
        time.sleep(dice.uniform(0.1, 1.0))
        killed[_kill_one(machine, under_way, dice)] += 1
        if not under_way.running() and under_way.process.returncode < 0:
            under_way = machine.start("resume", run)
    ended = under_way.ended(within_s=deadline - time.monotonic())
    assert ended.status == 0, ended.out + ended.err
    return killed


def _at_work(machine: Machine, under_way: Started) -> None:
    def is_so() -> bool:
        return not under_way.running() or any("sleep" in one.argv for one in in_role(machine.folder, "other"))

    wait_until(is_so, "somebody at work")


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", _SEEDS)
def test_thirty_tasks_land_once_whoever_is_killed(
    seed: int, ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    dice = random.Random(seed)
    tasks = _tasks(dice)
    plan = write_plan(ground, {"name": "chaos", "checks": {"once": _CHECK}, "tasks": tasks})
    first = machine.start("run", plan, "--repo", repository.path, "--workers", "3")
    killed = _survive(machine, first, dice, kills=10)
    print(f"seed {seed}: killed {dict(killed)}")

    branch = "forgepool/chaos"
    assert sorted(repository.landed(branch)) == sorted(task["id"] for task in tasks)
    assert repository.is_green(branch, [_CHECK], ground)
    for n in range(10):
        assert repository.file(branch, f"out/alone-{n}.txt") == str(n)
    assert sorted(repository.file(branch, "out/shared.txt").split()) == sorted(map(str, range(8)))
    for chain in ("red", "blue"):
        assert repository.file(branch, f"out/{chain}.txt").split() == list("01234")
        assert repository.file(branch, f"out/after-{chain}.txt").split() == list("43210")
    assert not list(events_of(machine.journal(), TaskReturned)), "a kill is nobody's failure"
    nothing_left(ground, machine)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["host", *(pytest.param(one, marks=pytest.mark.soak) for one in ("child", "main"))])
def test_a_killed_process_delays_its_task_by_less_than_fifteen_seconds(
    victim: Role, ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    """The task has one attempt, and the kill does not use it up."""
    # It notes outside its folder that it has begun, which no sandbox would let it do.
    machine.variables["FORGEPOOL_SANDBOX"] = "off"
    began = ground / "begun"
    slow_once = f"echo a >> {began}; test $(wc -l < {began}) -gt 1 || sleep 60; echo done > a.txt"
    under_way = _run_one(ground, machine, repository, slow_once)
    machine.wait_for("message.taken", task="one")
    wait_until(began.exists, "the command")
    victims = in_role(machine.folder, victim)
    killed_at = time.time()
    for one in victims:
        one.kill()
    ended = under_way.ended(within_s=60)
    assert ended.status == 0, ended.out + ended.err
    again = machine.wait_for("message.taken", task="one", count=2).at
    print(f"{victim}: {again - killed_at:.2f} s")
    assert again - killed_at < 15
    assert repository.landed("forgepool/swift") == ["one"]
    nothing_left(ground, machine)


@pytest.mark.slow
def test_the_loss_of_redis_costs_running_work_nothing(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    under_way = _run_one(ground, machine, repository, "echo begun; sleep 4; echo done > a.txt")
    machine.wait_for("message.taken", task="one")
    wait_until(lambda: list(_begun(machine)), "the command")
    (redis,) = in_role(machine.folder, "redis")
    redis.kill()
    ended = under_way.ended(within_s=60)
    assert ended.status == 0, ended.out + ended.err
    kinds = Counter(one.event.kind for one in machine.journal())
    assert (kinds["part.restarted"], kinds["order.sent"], kinds["message.lost"]) == (1, 1, 0)
    assert list(_begun(machine)) == ["begun\n"]
    assert repository.landed("forgepool/swift") == ["one"]
    nothing_left(ground, machine)


def _begun(machine: Machine) -> Iterator[str]:
    """Return what the task's command has printed, one text for each start."""
    return (text for log in machine.home.rglob("agent.log") if (text := log.read_text()))


def _run_one(ground: Path, machine: Machine, repository: Repository, script: str) -> Started:
    tasks = [{"id": "one", "files": ["a.txt"], "attempts": 1, "agent": command(script)}]
    plan = write_plan(ground, {"name": "swift", "checks": "none", "tasks": tasks})
    return machine.start("run", plan, "--repo", repository.path, "--workers", "1")
