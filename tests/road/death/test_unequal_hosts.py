"""Hosts without keys, of another version, with a full disk or drained: the pool still works like one machine."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, Repository, Started, command, events_of, wait_until, write_plan
from models_kit import KEY, know, writes
from vendors.server import VendorServer

from forgepool.orchestrator.journal import events as e
from forgepool.workers.queue import leases
from forgepool.workers.queue.broker import Redis

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
