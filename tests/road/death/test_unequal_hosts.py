"""Hosts without keys, of another version, with a full disk or drained: the pool still works like one machine."""

import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from disks import fill, small_disk
from kit import Machine, Repository, Started, command, events_of, make_repository, wait_until, write_plan
from models_kit import KEY, know, writes
from vendors.server import VendorServer

from forgepool.orchestrator.journal import events as e
from forgepool.workers.queue import leases
from forgepool.workers.queue.broker import PROTOCOL, Redis

NewMachine = Callable[..., Machine]
_CHECKS = {"readme": "test -f README.md"}


def start_worker(machine: Machine, redis: Redis, *options: str) -> Started:
    started = machine.start("worker", "--concurrency", "2", *options)

    def is_there() -> bool:
        assert started.running(), started.said()
        return machine.name in {one.host for one in leases.present(redis)}

    wait_until(is_there, f"{machine.name} to appear")
    return started


def stop(*workers: Started) -> None:
    for worker in workers:
        worker.process.terminate()
    assert [worker.ended(within_s=60).status for worker in workers] == [0] * len(workers)


def hosts_of(machine: Machine, kind: type[e.OrderAnswered] = e.OrderAnswered) -> Counter[str]:
    return Counter(one.result.host for one in events_of(machine.journal(), kind))


def names(count: int) -> list[str]:
    """Ids of letters alone, which the model of the tests knows."""
    return [f"t-{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(count)]


def plan_of_models(ground: Path, tasks: list[str]) -> Path:
    told: list[dict[str, Any]] = [
        {"id": one, "files": [f"{one}.txt"], "acceptance": [f"grep -q {one} {one}.txt"], "agent": {"builtin": {}}}
        for one in tasks
    ]
    return write_plan(ground, {"name": "hosts", "checks": _CHECKS, "review": "none", "tasks": told})


@pytest.mark.soak
@pytest.mark.slow
def test_a_host_without_keys_parks_no_task_of_a_host_that_has_them(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    """It answers at once, and so would always be the free one."""
    keyless, good, desk = (new_machine(name, broker=broker) for name in ("keyless", "good", "desk"))
    tasks = names(40)
    with VendorServer(writes, models=["m"]) as server:
        for machine in (keyless, good):
            know(machine, server)
        del keyless.variables[KEY]
        workers = [start_worker(keyless, redis), start_worker(good, redis)]
        ended = desk.run("run", plan_of_models(ground, tasks), "--repo", hub.path.as_uri(), within_s=400)
    assert ended.status == 0, ended.out + ended.err
    assert sorted(hub.landed("forgepool/hosts")) == tasks
    assert not list(events_of(desk.journal(), e.TaskParked))
    assert hosts_of(desk) == {"good": 40}
    stop(*workers)


@pytest.mark.slow
def test_a_green_entry_lands_while_orders_fill_every_slot(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    """One host, begun as people begin one. Its orders outlast the test: what lands has waited for none of them."""
    only, desk = (new_machine(name, broker=broker) for name in ("only", "desk"))
    worker = start_worker(only, redis)
    long = {f"long-{at}": command("sleep 600; echo 1 > x") for at in range(2)}
    tasks = [
        {"id": "quick", "files": ["quick.txt"], "agent": command("echo 1 > quick.txt"), "priority": 1},
        *({"id": one, "files": [f"{one}.txt"], "agent": agent} for one, agent in long.items()),
    ]
    plan = write_plan(ground, {"name": "hosts", "checks": _CHECKS, "tasks": tasks})
    under_way = desk.start("run", plan, "--repo", hub.path.as_uri())
    for one in long:
        desk.wait_for("message.taken", task=one)
    landed = desk.wait_for("landing.answered", task="quick")
    checked = desk.wait_for("check.answered", task="quick")
    print(f"landed {landed.at - checked.at:.2f} s after its check")
    assert hub.landed("forgepool/hosts") == ["quick"]
    assert under_way.running()
    under_way.kill()
    worker.process.terminate()
    worker.process.terminate()


@pytest.mark.slow
def test_a_host_of_another_version_loses_no_order_and_one_that_comes_later_does_not_listen(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    newer, *good, desk, late = (new_machine(name, broker=broker) for name in ("newer", "a", "b", "c", "desk", "late"))
    for machine in (newer, late):
        be_of_protocol(machine, PROTOCOL + 1)
    workers = [start_worker(machine, redis) for machine in (newer, *good)]
    under_way = desk.start("run", plan_of_commands(ground, 12, "sleep 0.2"), "--repo", hub.path.as_uri())
    told = desk.wait_for("host.mismatched")
    refused = late.run("worker", "--concurrency", "1")
    assert refused.status == 3 and refused.err.count("\n") == 1, refused
    assert "late reads protocol 2: install the runs' version of Forgepool here" in refused.err
    ended = under_way.ended()
    assert ended.status == 0, ended.out + ended.err
    assert "newer has a newer version of Forgepool" in ended.out + ended.err
    recorded = desk.journal()
    assert told.at - recorded[0].at < 5
    assert len(list(events_of(recorded, e.OrderSent))) == 12, "none was lost and sent again"
    assert not hosts_of(desk)["newer"]
    assert not [one for one in events_of(recorded, e.MessageTaken) if one.host == "newer"]
    stop(*workers)


def be_of_protocol(machine: Machine, protocol: int) -> None:
    """From now on the machine's processes are of a version that reads other messages."""
    folder = machine.folder / "other-version"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import forgepool.workers.queue.broker as b\nb.PROTOCOL = {protocol}\n")
    machine.variables["PYTHONPATH"] = str(folder)


def plan_of_commands(ground: Path, tasks: int, script: str) -> Path:
    told = [{"id": f"t{n}", "files": [f"f{n}"], "agent": command(f"{script}; echo 1 > f{n}")} for n in range(tasks)]
    return write_plan(ground, {"name": "hosts", "checks": _CHECKS, "defaults": {"attempts": 1}, "tasks": told})


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.soak
def test_hosts_that_are_restarted_one_after_the_other_cost_no_attempt(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    *machines, desk = (new_machine(name, broker=broker) for name in ("a", "b", "c", "desk"))
    workers = [start_worker(machine, redis) for machine in machines]
    under_way = desk.start("run", plan_of_commands(ground, 30, "sleep 1"), "--repo", hub.path.as_uri())
    for at, machine in enumerate(machines):
        desk.wait_for("order.answered", count=2 * at + 2)
        stop(workers[at])
        workers[at] = start_worker(machine, redis)
    ended = under_way.ended(within_s=240)
    assert ended.status == 0, ended.out + ended.err
    recorded = desk.journal()
    assert not list(events_of(recorded, e.TaskReturned)) and not list(events_of(recorded, e.TaskFailed))
    assert len(hub.landed("forgepool/hosts")) == 30
    stop(*workers)


@pytest.mark.soak
@pytest.mark.slow
def test_a_drained_host_takes_nothing_new_until_it_is_readmitted(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    a, b, desk = (new_machine(name, broker=broker) for name in ("a", "b", "desk"))
    workers = [start_worker(machine, redis) for machine in (a, b)]
    under_way = desk.start("run", plan_of_commands(ground, 300, "sleep 0.5"), "--repo", hub.path.as_uri())
    wait_until(lambda: hosts_of(desk)["a"], "an answer of a")
    assert desk.run("hosts", "drain", "a").status == 0
    wait_until(lambda: state_of(desk, "a") == ("drained", 0), "a to have finished")
    count = len(desk.journal())
    desk.wait_for("order.answered", count=sum(hosts_of(desk).values()) + 4)
    taken = [one.event for one in desk.journal()[count:] if isinstance(one.event, e.MessageTaken)]
    assert {one.host for one in taken} == {"b"}
    assert desk.run("hosts", "readmit", "a").status == 0
    wait_until(lambda: {one.host for one in events_of(desk.journal()[count:], e.MessageTaken)} == {"a", "b"}, "a again")
    under_way.kill()
    assert not list(events_of(desk.journal(), e.TaskReturned | e.TaskFailed | e.MessageLost))
    stop(*workers)


def state_of(desk: Machine, host: str) -> tuple[str, int]:
    (found,) = (one for one in desk.run("hosts", "--json").answer if one["host"] == host)
    return found["state"], found["held"]


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs takes root")
def test_a_host_with_a_full_disk_is_suspended_after_three_failures_and_comes_back_when_there_is_room(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    *machines, desk = (new_machine(name, broker=broker) for name in ("full", "b", "c", "d", "desk"))
    with small_disk(machines[0].folder / "cache", "24m") as disk:
        workers = [start_worker(machine, redis) for machine in machines]
        filler = fill(disk)
        under_way = desk.start("run", plan_of_commands(ground, 200, "sleep 1"), "--repo", hub.path.as_uri())
        desk.wait_for("host.suspended")
        filler.unlink()
        desk.wait_for("host.readmitted", within_s=150)
        under_way.kill()
        recorded = desk.journal()
        suspended = next(one.number for one in recorded if one.event.kind == "host.suspended")
        answers = [one.result for one in events_of(recorded[:suspended], e.OrderAnswered)]
        bad = [one.host for one in answers if one.outcome == "infrastructure"]
        assert bad and set(bad) == {"full"} and len(bad) <= 3
        for worker in workers:
            worker.process.terminate()
            worker.process.terminate()
        for worker in workers:
            worker.process.wait()


def lead_astray(machine: Machine, hub: Repository, ground: Path) -> Repository:
    """Let the machine's processes see another repository at the hub's path, with a branch of the same name."""
    other = make_repository(ground / "other", {"README.md": "another\n"})
    other.git("branch", "forgepool/hosts")
    bare = Repository(path=ground / "other.git")
    other.git("clone", "-q", "--bare", str(other.path), str(bare.path))
    mount = f'mount --bind {bare.path} {hub.path} && exec "$@"'
    if subprocess.run(["unshare", "-m", "sh", "-c", mount, "sh", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    machine.before = ("unshare", "-m", "sh", "-c", mount, "sh")
    return bare


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_a_host_that_sees_another_repository_at_the_hubs_path_is_named_and_suspended(
    ground: Path, new_machine: NewMachine, hub: Repository, broker: str, redis: Redis
) -> None:
    """Also where the commits that the work begins with have come to it before."""
    astray, good, desk = (new_machine(name, broker=broker) for name in ("astray", "good", "desk"))
    worker = start_worker(astray, redis)
    assert desk.run("run", plan_of_commands(ground, 1, "true"), "--repo", hub.path.as_uri()).status == 0
    stop(worker)
    other = lead_astray(astray, hub, ground)
    before, (first,) = other.refs("refs"), desk.runs()
    workers = [start_worker(machine, redis) for machine in (astray, good)]
    ended = desk.run("run", plan_of_commands(ground, 12, "sleep 0.3"), "--repo", hub.path.as_uri())
    assert ended.status == 0, ended.out + ended.err
    (run,) = {*desk.runs()} - {first}
    recorded = desk.journal(run)
    assert Counter(hub.landed("forgepool/hosts")) == Counter(f"t{n}" for n in range(12))
    assert {one.host for one in events_of(recorded, e.HostSuspended)} == {"astray"}
    assert f"host astray has another repository at {hub.path.as_uri()}, without refs/forgepool/{run}/" in ended.out
    assert not list(events_of(recorded, e.TaskReturned | e.TaskFailed | e.GateHalted))
    checks = [one.result for one in events_of(recorded, e.CheckAnswered | e.WaveAnswered)]
    assert {one.verdict for one in checks if one.host == "good"} == {"green"}
    assert other.refs("refs") == before, "nothing was written to it"
    stop(*workers)
