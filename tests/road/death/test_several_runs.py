"""Runs that share a Redis, hosts and a hub share the slots by weight, and wait for each other's paths in flight."""

import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from kit import Machine, Repository, Started, command, events_of, wait_until, write_plan

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.workers.queue import leases
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.run_presence import list_runs

NewMachine = Callable[..., Machine]
_TARGET = "forgepool/shared"
_KEY = secrets.token_hex(32)


def start_worker(machine: Machine, redis: Redis) -> Started:
    """Start a host that takes four orders at once."""
    started = machine.start("worker", "--concurrency", "4")
    wait_until(lambda: machine.name in {one.host for one in leases.present(redis)}, f"{machine.name} to appear")
    return started


def plan(ground: Path, name: str, tasks: Mapping[str, str], *, target: str = _TARGET) -> Path:
    """Write a plan of tasks that each write the file given, after a script."""
    told = [
        {"id": task, "files": [script.rpartition(" ")[2]], "agent": command(script)} for task, script in tasks.items()
    ]
    checks = {"readme": "test -f README.md"}
    return write_plan(ground, {"name": name, "target": target, "checks": checks, "tasks": told})


def start(desk: Machine, plan: Path, hub: Repository, *options: str) -> Started:
    return desk.start("run", plan, "--repo", hub.path.as_uri(), *options)


def until_go(ground: Path) -> str:
    """Return a script that waits for the test's file, and a little longer."""
    return f"until test -e {ground}/go; do sleep 0.1; done; sleep 0.3"


def has_looked(redis: Redis, run: str, *, since: float) -> bool:
    """Tell whether the run has announced itself a second later: runs look at the others twice a second."""
    return any(one.run == run and one.at > since + 1.0 for one in list_runs(redis))


def most_out(recorded: list[Recorded], *, after: float = 0.0, before: float = float("inf")) -> int:
    """Return the largest number of orders that a run had out when it sent one in this time."""
    out, most = 0, 0
    for one in recorded:
        out += isinstance(one.event, e.OrderSent) - isinstance(one.event, e.OrderAnswered)
        if isinstance(one.event, e.OrderSent) and after < one.at < before:
            most = max(most, out)
    return most


@pytest.mark.soak
@pytest.mark.slow
def test_two_runs_share_the_slots_by_weight_and_the_one_that_is_left_has_all_of_them(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    host, a, b = (new_machine(name, broker=broker) for name in ("host", "a", "b"))
    host.variables["FORGEPOOL_SANDBOX"] = "off"  # its commands look for a file of the test
    worker = start_worker(host, redis)
    many = {f"t{at}": f"{until_go(ground)}; echo 1 > f{at}" for at in range(28)}
    plans = [plan(ground, name, many, target=f"forgepool/{name}") for name in ("a", "b")]
    first = start(a, plans[0], hub, "--weight", "3")
    a.wait_for("message.taken", count=4)
    second = start(b, plans[1], hub)
    b.wait_for("order.sent")
    there = time.time()
    wait_until(lambda: has_looked(redis, a.the_run(), since=there), "a to have seen b")
    go = time.time()
    (ground / "go").touch()
    for one in (first, second):
        ended = one.ended(within_s=240)
        assert ended.status == 0, ended.out + ended.err
    of_a, of_b = a.journal(), b.journal()
    last = max(one.at for one in of_a if isinstance(one.event, e.OrderSent))
    assert most_out(of_a, before=go) == 4, "alone it had all slots"
    assert most_out(of_a, after=go) == 3
    assert most_out(of_b, before=last) == 1
    assert most_out(of_b, after=last) == 4, "it has what the other no longer wants"
    taken = [run for _, run in sorted((one.at, run) for run, one in took(of_a, "a") + took(of_b, "b"))]
    both = taken[taken.index("b") : len(taken) - taken[::-1].index("a")]
    print(f"while both had work: {both.count('a')} orders of a, {both.count('b')} of b")
    assert 0.15 < both.count("b") / len(both) < 0.35
    for name in ("a", "b"):
        assert sorted(hub.landed(f"forgepool/{name}")) == sorted(many)
    for machine in (a, b):
        assert not list(events_of(machine.journal(), e.TaskReturned)), "no attempt was charged"
        assert not list(events_of(machine.journal(), e.MessageLost))
    worker.process.terminate()
    assert worker.ended(within_s=60).status == 0
    assert redis.keys("forgepool:run*") == []


def took(recorded: list[Recorded], run: str) -> list[tuple[str, Recorded]]:
    """Return the events in which a worker has taken one of the run's orders."""
    orders = {one.message_id for one in events_of(recorded, e.OrderSent)}
    return [(run, one) for one in recorded if isinstance(one.event, e.MessageTaken) and one.event.message_id in orders]


@pytest.mark.slow
def test_a_task_waits_until_the_other_run_has_landed_what_it_has_in_flight_on_its_paths(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    host, a, b = (new_machine(name, broker=broker) for name in ("host", "a", "b"))
    for machine in (host, a, b):
        machine.variables["FORGEPOOL_FLEET_KEY"] = _KEY
    host.variables["FORGEPOOL_SANDBOX"] = "off"  # its commands look for a file of the test
    worker = start_worker(host, redis)
    first = start(a, plan(ground, "a", {"slow": f"{until_go(ground)}; echo 1 > x.txt"}), hub)
    a.wait_for("message.taken", task="slow")
    second = start(b, plan(ground, "b", {"waits": "echo 2 >> x.txt", "free": "echo 3 > y.txt"}), hub)
    held = b.wait_for("tasks.held").event
    assert isinstance(held, e.TasksHeld) and held.tasks == {"waits": (a.the_run(), "x.txt")}
    b.wait_for("landing.answered", task="free")
    standing = {one["task"]: one for one in b.run("status", "--json").answer["tasks"]}
    assert standing["waits"]["detail"] == f"waits for run {a.the_run()}, which is at work on x.txt"
    (ground / "go").touch()
    for one in (first, second):
        ended = one.ended()
        assert ended.status == 0, ended.out + ended.err
    assert f"waits waits for run {a.the_run()}, which is at work on x.txt" in second.out.read_text()
    landed = next(one.at for one in a.journal() if isinstance(one.event, e.LandingAnswered))
    (sent,) = (one.at for one in b.journal() if isinstance(one.event, e.OrderSent) and one.event.task == "waits")
    assert sent > landed, "once, on what has landed"
    assert hub.file(_TARGET, "x.txt") == "1\n2"
    assert sorted(hub.landed(_TARGET)) == ["free", "slow", "waits"]
    assert not list(events_of(b.journal(), e.TaskReturned))
    worker.process.terminate()
    assert worker.ended(within_s=60).status == 0


@pytest.mark.soak
@pytest.mark.slow
def test_a_run_that_is_killed_holds_nothing_any_more(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    host, a, b = (new_machine(name, broker=broker) for name in ("host", "a", "b"))
    worker = start_worker(host, redis)
    first = start(a, plan(ground, "a", {"slow": "sleep 600; echo 1 > x.txt"}), hub, "--weight", "1000")
    a.wait_for("message.taken", task="slow")
    second = start(b, plan(ground, "b", {"waits": "echo 2 > x.txt"}), hub)
    b.wait_for("tasks.held")
    first.kill()
    ended = second.ended(within_s=60)
    assert ended.status == 0, ended.out + ended.err
    assert hub.landed(_TARGET) == ["waits"]
    assert redis.keys("forgepool:run*") == []
    for options, weight in (((), 1000), (("--weight", "2"), 2)):
        again = a.start("resume", a.the_run(), *options)
        wait_until(lambda: list_runs(redis), "the run to come back")
        assert [(one.run, one.weight) for one in list_runs(redis)] == [(a.the_run(), weight)]
        again.process.terminate()
        again.ended()
    worker.kill()
