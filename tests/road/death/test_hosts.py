"""Hosts that share only a Redis on TCP and a hub's URL run one plan together."""

import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, Repository, Started, command, events_of, wait_until, write_plan
from processes import kill_all

from forgepool.orchestrator.journal import events as e
from forgepool.workers.queue import leases
from forgepool.workers.queue.broker import Redis
from forgepool.workers.sandbox.layers import choose_level

NewMachine = Callable[..., Machine]
NothingLeft = Callable[[Path, Machine], None]
_BRANCH = "forgepool/hosts"
_CHECK = "test -f README.md"
_KEY = secrets.token_hex(32)


def _worker(machine: Machine, redis: Redis) -> Started:
    """Start a host that takes two messages of any kind at once."""
    started = machine.start("worker", "--concurrency", "2")
    wait_until(lambda: machine.name in {one.host for one in leases.present(redis)}, f"{machine.name} to appear")
    return started


def _plan(ground: Path, tasks: int, script: str) -> Path:
    told: list[dict[str, Any]] = [
        {"id": f"t{n}", "files": [f"f{n}.txt"], "agent": command(f"{script}; echo {n} > f{n}.txt")}
        for n in range(tasks)
    ]
    return write_plan(ground, {"name": "hosts", "checks": {"readme": _CHECK}, "tasks": told})


def _assert_landed(hub: Repository, tasks: int, ground: Path) -> None:
    assert sorted(hub.landed(_BRANCH)) == sorted(f"t{n}" for n in range(tasks))
    assert [hub.file(_BRANCH, f"f{n}.txt") for n in range(tasks)] == [str(n) for n in range(tasks)]
    assert hub.is_green(_BRANCH, [_CHECK], ground)


def _stop(*workers: Started) -> None:
    for worker in workers:
        worker.process.terminate()
    assert [worker.ended(within_s=30).status for worker in workers] == [0] * len(workers)


def _assert_no_lease(redis: Redis) -> None:
    assert [key for key in redis.scan_iter(match="forgepool:*") if "lease" in key or "worker" in key] == []


@pytest.mark.slow
def test_two_hosts_run_one_plan_together(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis, nothing_left: NothingLeft
) -> None:
    east, west, desk = (new_machine(name, broker=broker) for name in ("east", "west", "desk"))
    workers = [_worker(east, redis), _worker(west, redis)]
    plan = _plan(ground, 10, "sleep 0.3")
    ended = desk.run("run", plan, "--repo", hub.path.as_uri())
    assert ended.status == 0, ended.out + ended.err
    _assert_landed(hub, 10, ground)

    by_host = Counter(one.result.host for one in events_of(desk.journal(), e.OrderAnswered))
    assert set(by_host) == {"east", "west"} and by_host.total() == 10
    report = desk.run("report").out
    assert f"- east: {by_host['east']} orders" in report
    assert f"- west: {by_host['west']} orders" in report
    assert not (desk.cache / "checkouts").exists(), "the orchestrator's host did no work"
    (order, *_) = desk.run("logs", desk.the_run(), "t0").out.splitlines()
    at = next(machine for machine in (east, west) if f"on host {machine.name}, " in order)
    assert order.endswith(f", in {at.home}/runs/{desk.the_run()}/logs/orders/t0/1")
    assert (at.home / order.partition(f"{at.home}/")[2] / "agent.log").is_file()
    _stop(*workers)
    _assert_no_lease(redis)
    for machine in (east, west):
        nothing_left(machine.folder, machine)


@pytest.mark.slow
def test_a_host_without_the_fleets_key_does_nothing_and_keeps_nothing(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    """It answers at once, so it is always free. Its commands look for the key of the host that has it."""
    east, west, desk = (new_machine(name, broker=broker) for name in ("east", "west", "desk"))
    for machine in (west, desk):
        machine.variables["FORGEPOOL_FLEET_KEY"] = _KEY
    workers = [_worker(east, redis), _worker(west, redis)]
    look = f"! env | grep {_KEY[:20]}"
    if choose_level("auto") != "off":
        look += f" && ! cat /proc/[0-9]*/environ 2>/dev/null | grep -a {_KEY[:20]}"
    ended = desk.run("run", _plan(ground, 6, look), "--repo", hub.path.as_uri())
    assert ended.status == 0, ended.out + ended.err
    _assert_landed(hub, 6, ground)
    assert {one.result.host for one in events_of(desk.journal(), e.OrderAnswered)} == {"west"}
    assert list(events_of(desk.journal(), e.MessageLost)) == []
    (told,) = events_of(desk.journal(), e.MessagesRefused)
    assert told.host == "east"
    assert f"host east: a message is refused: {told.why}" in ended.out + ended.err
    assert west.run("worker", "--check").status == 0
    _stop(*workers)
    gone = west.run("worker", "--check")
    said = "forgepool: no worker of host 'west' answers; start one there with `forgepool worker`\n"
    assert (gone.status, gone.out, gone.err) == (1, "", said)
    files = [path for path in ground.rglob("*") if path.is_file()]
    assert [path for path in files if _KEY.encode() in path.read_bytes()] == [], "in no log, journal or answer"


def test_a_run_without_the_fleets_key_among_hosts_that_have_it_is_told_so_of_itself(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    east, desk = (new_machine(name, broker=broker) for name in ("east", "desk"))
    east.variables["FORGEPOOL_FLEET_KEY"] = _KEY
    worker = _worker(east, redis)
    under_way = desk.start("run", _plan(ground, 1, "true"), "--repo", hub.path.as_uri())
    said = (
        "host east: a message is refused: it is signed, and host desk has no key; set FORGEPOOL_FLEET_KEY to the same"
    )
    wait_until(lambda: said in under_way.said(), "the refusal")
    under_way.kill()
    _stop(worker)


def test_celery_s_tools_see_the_workers_that_let_them(
    new_machine: NewMachine, broker: str, redis: Redis, ground: Path
) -> None:
    east, west = (new_machine(name, broker=broker) for name in ("east", "west"))
    west.variables["FORGEPOOL_CELERY_EVENTS"] = "1"
    workers = [_worker(east, redis), _worker(west, redis)]
    asking = [sys.executable, "-m", "celery", "-A", "forgepool.workers.queue.broker", "-b", broker]

    def answer() -> str:
        asked = subprocess.run([*asking, "inspect", "ping", "--timeout", "5"], capture_output=True, text=True)
        return asked.stdout if "pong" in asked.stdout else ""

    said = wait_until(answer, "an answer to celery's ping")
    assert "@west: OK" in said and "@east" not in said
    _stop(*workers)


@pytest.mark.slow
@pytest.mark.soak
def test_a_host_that_vanishes_costs_only_time(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis, nothing_left: NothingLeft
) -> None:
    east, west, desk = (new_machine(name, broker=broker) for name in ("east", "west", "desk"))
    workers = [_worker(east, redis), _worker(west, redis)]
    under_way = desk.start("run", _plan(ground, 10, "sleep 1"), "--repo", hub.path.as_uri())
    wait_until(lambda: _holds(desk, "east"), "an order in east's hands")
    kill_all(east.folder)
    killed_at = time.time()
    ended = under_way.ended()
    assert ended.status == 0, ended.out + ended.err
    _assert_landed(hub, 10, ground)

    recorded = desk.journal()
    lost = {one.message_id for one in events_of(recorded, e.MessageLost)}
    assert lost, "what east had in hand was lost"
    late = [
        one.event.result.host for one in recorded if isinstance(one.event, e.OrderAnswered) and one.at > killed_at + 1
    ]
    assert set(late) == {"west"}
    assert not list(events_of(recorded, e.TaskReturned)), "nobody is blamed"
    workers[0].process.wait()
    _stop(workers[1])
    _assert_no_lease(redis)
    nothing_left(west.folder, west)


def _holds(desk: Machine, host: str) -> bool:
    """Return whether the host has taken an order and not answered it."""
    recorded = desk.journal()
    taken = {one.message_id for one in events_of(recorded, e.MessageTaken) if one.host == host}
    answered = {one.result.order_id for one in events_of(recorded, e.OrderAnswered)}
    return bool({one for one in taken if ".check-" not in one and ".land-" not in one} - answered)


@pytest.mark.soak
@pytest.mark.slow
def test_a_killed_orchestrator_finds_its_orders_live_or_finished(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    """Kill the orchestrator and resume it later. It takes in finished orders, and waits for live ones."""
    east, desk = (new_machine(name, broker=broker) for name in ("east", "desk"))
    # Its tasks use files outside their folder, which no sandbox would let them do.
    east.variables["FORGEPOOL_SANDBOX"] = "off"
    worker = _worker(east, redis)
    gate = ground / "gate"
    held = f'test "$FORGEPOOL_TASK" != t1 || until test -e {gate}; do sleep 0.05; done; echo x >> {ground}/done'
    under_way = desk.start("run", _plan(ground, 3, f"sleep 1; {held}-$FORGEPOOL_TASK"), "--repo", hub.path.as_uri())
    desk.wait_for("message.taken", task="t0")
    desk.wait_for("message.taken", task="t1")
    under_way.kill()
    run = desk.the_run()
    wait_until(lambda: _published(hub, run, "t0"), "the work of t0, with nobody to tell")
    assert not list(events_of(desk.journal(), e.OrderAnswered))
    assert leases.holders(redis, [f"{run}.t1.1"]), "t1 lives on"

    resumed = desk.start("resume", run)
    desk.wait_for("order.answered", task="t0")
    gate.touch()
    ended = resumed.ended()
    assert ended.status == 0, ended.out + ended.err
    _assert_landed(hub, 3, ground)
    assert Counter(one.task for one in events_of(desk.journal(), e.OrderSent)) == {"t0": 1, "t1": 1, "t2": 1}
    assert [(ground / f"done-t{n}").read_text() for n in range(3)] == ["x\n"] * 3, "nothing was done twice"
    _stop(worker)
    _assert_no_lease(redis)


@pytest.mark.soak
@pytest.mark.slow
def test_a_run_with_shared_workers_leaves_them_only_where_a_person_says_so(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str
) -> None:
    desk = new_machine("desk", broker=broker)
    under_way = desk.start("run", _plan(ground, 1, "true"), "--repo", hub.path.as_uri())
    desk.wait_for("wave.sent")
    under_way.kill()
    run, desk.broker = desk.the_run(), None
    refused = desk.run("resume", run)
    shown = "redis://" + broker.partition("@")[2]
    said = (
        f"forgepool: the workers of run {run} are at {shown}; resume it with `--broker URL` (or set "
        "FORGEPOOL_BROKER_URL), or on this machine alone with `--broker none`\n"
    )
    assert (refused.status, refused.out, refused.err) == (2, "", said)
    ended = desk.run("resume", run, "--broker", "none", "--workers", "1")
    assert ended.status == 0, ended.out + ended.err
    _assert_landed(hub, 1, ground)
    password = broker.partition("@")[0].rpartition(":")[2].encode()
    assert not [path for path in desk.home.rglob("*") if path.is_file() and password in path.read_bytes()]


def _published(hub: Repository, run: str, task: str) -> bool:
    return bool(hub.refs(f"refs/forgepool/{run}/orders/{task}"))


SCRIPT = """
turns:
  - calls: [{tool: write_file, path: f.txt, content: "by the first host\\n"}]
  - attempt: 1
    pause_s: 600
    calls: [{tool: write_file, path: f.txt, content: "never said\\n"}]
  - attempt: 2
    calls: [{tool: bash, command: "cat f.txt && echo by the second >> f.txt"}]
  - calls: [{tool: finish, summary: "written by two"}]
"""


@pytest.mark.slow
@pytest.mark.soak
def test_a_conversation_goes_on_when_its_host_vanishes(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    """Another host gets the files and the conversation from the hub. At the end the run's own machine has all of it."""
    east, west, desk = (new_machine(name, broker=broker) for name in ("east", "west", "desk"))
    vanishing = _worker(east, redis)
    (ground / "script.yaml").write_text(SCRIPT)
    task = {"id": "t0", "files": ["f.txt"], "agent": {"scripted": "script.yaml"}}
    plan = write_plan(ground, {"name": "hosts", "checks": {"readme": _CHECK}, "review": "none", "tasks": [task]})
    under_way = desk.start("run", plan, "--repo", hub.path.as_uri())
    run = desk.the_run()
    kept = f"refs/forgepool/{run}/progress/t0/1"
    wait_until(lambda: hub.refs(kept) and "f.txt" in hub.git("ls-tree", "-r", "--name-only", kept), "the first turn")
    kill_all(east.folder)
    vanishing.process.wait()
    worker = _worker(west, redis)
    ended = under_way.ended()
    assert ended.status == 0, ended.out + ended.err
    assert hub.file(_BRANCH, "f.txt").split("\n") == ["by the first host", "by the second"]
    told = desk.run("transcript", run, "t0")
    assert told.status == 0, told.err
    assert "OK: wrote 18 bytes to f.txt" in told.out and "by the second" in told.out
    assert not hub.refs("refs/forgepool"), "what is landed is nobody's any more"
    _stop(worker)
    _assert_no_lease(redis)
