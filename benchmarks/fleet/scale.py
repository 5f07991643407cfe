"""
Computes what saturates first when many hosts work for one hub: measured costs, then the real decisions at that size.

    python benchmarks/fleet/scale.py [--hosts 50] [--slots 1000] [--attempt 600] [--turn 10] [--check 60] [--quick]

It measures on this machine, with real git and a real Redis: the CPU that the hub's side of a push and of a fetch takes,
by the number of refs; how many pushes a task needs (with strace); Redis' CPU for a lease, a look at all leases, a look
at the workers and a task's messages; the orchestrator's CPU for a task and for a look; the seconds that a landing holds
the target. The first table has these costs.

The second table holds them against the load of `--slots` attempts at once, of `--attempt` seconds each. For each part
it says how busy it is, and at how many slots one core of it, one target or one gigabit a second is full.

The third plays plans on a virtual clock by the real decisions (`forgepool simulate`), with the measured landing: how
much of the slots' work lands in time, by the checks that run at once, and what a landed task costs the orchestrator.
"""

import argparse
import collections
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.extend((str(Path(__file__).parents[1] / "queue"), str(Path(__file__).parents[1])))

from landing import branches, git, landed
from loop import measure as measure_loop
from loop import plan_of, private_redis
from road import _program, measure

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.simulate.run import play
from forgepool.orchestrator.simulate.world import PlanTerms
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.queue import leases, replies
from forgepool.workers.queue.broker import Redis, connect
from forgepool.workers.queue.replies import MessageStarted
from forgepool.workers.schema.orders import WorkResult
from forgepool.workers.schema.settings import Settings

_DOOR = """#!{python}
import os, sys
pid = os.fork()
if not pid:
    os.execvp("git", ["git", "{service}", *sys.argv[1:]])
_, status, use = os.wait4(pid, 0)
with open("{log}", "a") as log:
    log.write(f"{{use.ru_utime + use.ru_stime}}\\n")
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""Stands before a service of the hub, and notes the CPU that the hub's side takes."""
_RENEWALS_PER_S = 4 / Settings().lease_ttl_s
_LOOKS_PER_S = 2.0
_PRESENCE_PER_S = 1.0
_FETCHES = 3
"""For a task at most: its order, its check and its landing, each on a host that does not have the commits yet."""
_BAD = 0.08
_GIGABIT = 125_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """CPU seconds of one of each, if nothing else is said."""

    push_s: float
    fetch_s: float
    advertised: float
    """Bytes of refs that a push is told, for each ref in the hub."""
    push_per_ref_s: float
    pushes: float
    """Pushes for a task, without those of progress."""
    renew_s: float
    look_s: float
    """Redis' part, for each lease."""
    presence_s: float
    """A look at the workers of all hosts, with a day's keys in Redis."""
    messages_s: float
    """Redis' part for the order, check and landing of a task."""
    task_s: float
    """The orchestrator's part for a landed task."""
    look_orchestrator_s: float
    """The orchestrator's part, for each lease."""
    landing_s: float
    """Seconds that a landing of one entry holds the target."""
    landing_of_eight_s: float


def measure_hub(folder: Path, refs: int, rounds: int) -> tuple[float, float, int]:
    """Return the hub's CPU seconds for a push and a fetch, and the bytes a push is told, with that many refs."""
    hub, work = folder / "hub.git", folder / "work"
    folder.mkdir()
    git(folder, "init", "-q", "--bare", "-b", "main", str(hub))
    git(folder, "clone", "-q", str(hub), str(work))
    identity = ("-c", "user.name=B", "-c", "user.email=b@localhost")
    for number in range(500):
        (work / f"f{number}.txt").write_text(f"{number}\n" * 20)
    git(work, "add", "-A")
    git(work, *identity, "commit", "-q", "-m", "base")
    git(work, "push", "-q", "origin", "HEAD:refs/heads/main")
    tip = git(work, "rev-parse", "HEAD")
    if refs:
        lines = (f"{tip} refs/forgepool/run/orders/t{number:06}/1\n" for number in range(refs))
        (hub / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \n" + "".join(lines))
    doors = {service: _door(folder, service) for service in ("receive-pack", "upload-pack")}
    mirror = folder / "mirror.git"
    git(folder, "clone", "-q", "--bare", "--single-branch", hub.as_uri(), str(mirror))
    for number in range(rounds):
        (work / f"f{number}.txt").write_text("changed\n")
        git(work, *identity, "commit", "-q", "-a", "-m", f"{number}")
        ref = f"refs/forgepool/run/x/{number}"
        git(work, "push", "-q", f"--receive-pack={doors['receive-pack']}", hub.as_uri(), f"HEAD:{ref}")
        git(mirror, "fetch", "-q", f"--upload-pack={doors['upload-pack']}", hub.as_uri(), f"{ref}:refs/have/{number}")
    told = subprocess.run(["git", "receive-pack", "--advertise-refs", str(hub)], capture_output=True, check=True).stdout
    push_s, fetch_s = (_middle(folder / f"{service}.log") for service in doors)
    return push_s, fetch_s, len(told)


def _door(folder: Path, service: str) -> Path:
    door = folder / f"{service}.py"
    door.write_text(_DOOR.format(python=sys.executable, service=service, log=folder / f"{service}.log"))
    door.chmod(0o755)
    return door


def _middle(log: Path) -> float:
    return statistics.median(float(line) for line in log.read_text().split())


def count_pushes(folder: Path) -> float:
    """Return the pushes that a task needs, by strace over runs of two sizes on a hub behind a URL."""
    few, some = (_calls(folder / f"run{tasks}", tasks) for tasks in (4, 16))
    return (some["git-receive-pack"] - few["git-receive-pack"]) / 12


def _calls(folder: Path, tasks: int) -> collections.Counter[str]:
    folder.mkdir(parents=True)
    hub, work = folder / "hub.git", folder / "work"
    git(folder, "init", "-q", "-b", "main", str(work))
    (work / "README.md").write_text("read me\n")
    git(work, "add", "-A")
    git(work, "-c", "user.name=B", "-c", "user.email=b@localhost", "commit", "-q", "-m", "base")
    git(folder, "clone", "-q", "--bare", str(work), str(hub))
    # A hub with a hook is pushed to, even if it is on this disk.
    (hub / "hooks" / "post-receive").write_text("#!/bin/sh\n")
    (hub / "hooks" / "post-receive").chmod(0o755)
    lines = [f"  - {{id: t{n}, files: [t{n}.txt], agent: {{command: 'echo {n} > t{n}.txt'}}}}" for n in range(tasks)]
    plan = folder / "plan.yaml"
    plan.write_text("\n".join(["version: 1", "name: calls", "checks: none", "tasks:", *lines]) + "\n")
    trace = folder / "trace"
    strace = ("strace", "-f", "-qq", "--seccomp-bpf", "-s", "200", "-e", "trace=execve", "-e", "status=successful")
    run = (sys.executable, "-m", "forgepool.orchestrator.cli", "run", str(plan), "--repo", hub.as_uri(), "--json")
    measure([*strace, "-o", str(trace), *run], folder)
    names = (_program(line) for line in trace.read_text(errors="replace").splitlines())
    return collections.Counter(name.replace("git ", "git-") for name in names if name)


def measure_redis(client: Redis, hosts: int, slots: int, keys: int) -> dict[str, float]:
    """Return Redis' CPU seconds for each kind of call, and the orchestrator's for a look at all leases."""
    held = [leases.claim(client, f"r.t{n}.1", token="t", host="h", ttl_s=600.0) for n in range(slots)]
    names = [f"r.t{n}.1" for n in range(slots)]
    for host in range(hosts):
        present = leases.Present(host=f"h{host}", pid=1, queues=("orders", "checks"), concurrency=20, since=0.0)
        leases.announce(client, present)
    with client.pipeline(transaction=False) as many:
        for number in range(keys):
            many.set(f"forgepool:done:{number}", "1")
        many.execute()
    began = time.process_time()
    for _ in range(20):
        leases.holders(client, names)
    look_orchestrator_s = (time.process_time() - began) / 20 / slots
    result = WorkResult(order_id="r.t1.1", token="t", outcome="candidate", commit="c" * 40, host="h")
    return {
        "renew": _redis_s(client, lambda: [one.renew() for one in held if isinstance(one, leases.Lease)]) / slots,
        "look": _redis_s(client, lambda: leases.holders(client, names)) / slots,
        "presence": _redis_s(client, lambda: leases.present(client)),
        "messages": 3 * _redis_s(client, lambda: _message(client, result)),
        "look_orchestrator": look_orchestrator_s,
    }


def _message(client: Redis, result: WorkResult) -> None:
    """Make the calls of one message: sent and taken, its lease, its start and answer, and their reading."""
    client.lpush("some", result.encode() * 2)
    client.brpop(["some"], timeout=1)
    lease = leases.claim(client, f"m.{time.monotonic_ns()}", token="t", host="h", ttl_s=8.0)
    replies.tell(client, "r", MessageStarted(message_id="m", token="t", host="h", pid=1))
    replies.answer(client, "r", f"m.{time.monotonic_ns()}", result)
    if isinstance(lease, leases.Lease):
        lease.release()
    client.xread({"forgepool:answers:r": "$"}, count=1000, block=1)


def _redis_s(client: Redis, call: Callable[[], object], *, times: int = 20) -> float:
    before = _cpu(client)
    for _ in range(times):
        call()
    return (_cpu(client) - before) / times


def _cpu(client: Redis) -> float:
    told = client.info("cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


def measure_landing(folder: Path, entries: int, rounds: int) -> float:
    """Return the seconds that a landing holds the target: the middle of some, in a repository of 5,000 files."""
    hub, work = folder / "hub.git", folder / "work"
    folder.mkdir()
    git(folder, "init", "-q", "--bare", "-b", "main", str(hub))
    git(folder, "clone", "-q", str(hub), str(work))
    for number in range(5000):
        path = work / f"d{number % 100}" / f"f{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n")
    git(work, "checkout", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, "-c", "user.name=B", "-c", "user.email=b@localhost", "commit", "-q", "-m", "base")
    git(work, "push", "-q", "origin", "main")
    settings = Settings(home=folder / "home", cache=folder / "cache", host="here", sandbox="off")
    took = []
    for number in range(rounds):
        names = [f"b{entries}-{number}-{one}" for one in range(entries)]
        branches(work, names)
        took.append(landed(hub, settings, names))
    return statistics.median(took)


def measure_all(hosts: int, slots: int, refs: int, *, quick: bool) -> Costs:
    rounds = 5 if quick else 15
    with tempfile.TemporaryDirectory(prefix="forgepool-scale-") as made:
        folder = Path(made)
        push_s, fetch_s, bytes_few = measure_hub(folder / "few", 0, rounds)
        push_many_s, _, bytes_many = measure_hub(folder / "many", refs, rounds)
        pushes = count_pushes(folder / "calls")
        (folder / "redis").mkdir()
        with private_redis(folder / "redis") as url:
            client = connect(url)
            redis = measure_redis(client, hosts, slots, 10_000 if quick else 100_000)
            client.close()
        landing_s = measure_landing(folder / "landing1", 1, rounds)
        landing_of_eight_s = measure_landing(folder / "landing8", 8, 3)
    return Costs(
        push_s=push_s,
        fetch_s=fetch_s,
        advertised=(bytes_many - bytes_few) / refs,
        push_per_ref_s=max(0.0, (push_many_s - push_s) / refs),
        pushes=pushes,
        renew_s=redis["renew"],
        look_s=redis["look"],
        presence_s=redis["presence"],
        messages_s=redis["messages"],
        task_s=measure_loop(300 if quick else 1000, 8, 2, outside=False).cpu_ms / 1000,
        look_orchestrator_s=redis["look_orchestrator"],
        landing_s=landing_s,
        landing_of_eight_s=landing_of_eight_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The work: seconds of an attempt, of a model's turn and of a check, and refs in the hub for each slot."""

    attempt_s: float
    turn_s: float
    check_s: float
    refs_per_slot: float = 3.0


def shares(costs: Costs, load: Load, slots: int) -> Iterator[tuple[str, float]]:
    """Yield each part and how much of one core, one target or one gigabit a second it uses."""
    tasks = slots / load.attempt_s
    refs = slots * load.refs_per_slot
    push_s = costs.push_s + costs.push_per_ref_s * refs
    base = tasks * (costs.pushes * push_s + _FETCHES * costs.fetch_s)
    for every, name in ((load.turn_s, "turn"), (30.0, "30 s")):
        progress = slots / every
        yield f"hub, a core: progress pushed each {name}", base + progress * push_s
        told = (tasks * costs.pushes + progress) * costs.advertised * refs
        yield f"hub, 1 Gbit/s of refs told: progress each {name}", told / _GIGABIT
    yield "hub, a core: without progress", base
    renewals = slots * _RENEWALS_PER_S * costs.renew_s
    looks = _LOOKS_PER_S * slots * costs.look_s + _PRESENCE_PER_S * costs.presence_s
    yield "Redis, its one core", renewals + looks + tasks * costs.messages_s
    orchestrator = tasks * costs.task_s + _LOOKS_PER_S * slots * costs.look_orchestrator_s
    yield "orchestrator, its one core, decisions as for 8 slots", orchestrator
    yield "target: landings one by one", tasks * (1 - _BAD) * costs.landing_s
    yield "target: landings of eight entries", tasks * (1 - _BAD) / 8 * costs.landing_of_eight_s


def full_at(costs: Costs, load: Load, name: str) -> int:
    """Return the number of slots at which the part is full; shares may grow faster than the slots."""
    low, high = 1, 10_000_000
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if dict(shares(costs, load, middle))[name] >= 1 else (middle + 1, high)
    return low


class _Enough(Exception):
    """The part of the run that is looked at is over."""


def play_some(slots: int, trials: int, load: Load, landing_s: float) -> tuple[float, float]:
    """
    Return the landed tasks over those that the slots could do, and the CPU seconds of decisions and clock for each.

    It looks from the landing of half as many tasks as there are slots to that of as many again.
    """
    dice = random.Random(1)
    plan = plan_of(slots * 3)
    work = {task.id: (load.attempt_s * dice.uniform(0.5, 1.5),) for task in plan.tasks}
    terms = PlanTerms(
        workers=slots, trials=trials, work_s=work, check_s=(load.check_s,), landing_s=(landing_s,), bad=_BAD
    )
    marks: list[tuple[int, float, float]] = []

    def watch(state: RunState, now: float) -> None:
        count = len(state.in_phase("landed"))
        if count >= (slots * 3 // 2 if marks else slots // 2):
            marks.append((count, now, time.process_time()))
            if len(marks) == 2:
                raise _Enough

    with suppress(_Enough):
        play(PlanIndex(plan, {}), terms, 1, watch=watch)
    (count, began, cpu), (until, ended, cpu_end) = marks
    rate = (until - count) / (ended - began)
    return rate / (slots / load.attempt_s * (1 - _BAD)), (cpu_end - cpu) / (until - count)


def print_costs(costs: Costs) -> None:
    print(f"{'cost of one':<58}{'ms':>10}")
    for name, seconds in (
        ("push of a commit, the hub's side, few refs", costs.push_s),
        ("the same, more for 1,000 refs in the hub", costs.push_per_ref_s * 1000),
        ("fetch of a commit, the hub's side", costs.fetch_s),
        ("renewal of a lease, Redis", costs.renew_s),
        ("look at 1,000 leases, Redis", costs.look_s * 1000),
        ("look at 1,000 leases, orchestrator", costs.look_orchestrator_s * 1000),
        ("look at the workers present, with a day's keys, Redis", costs.presence_s),
        ("order, check and landing of a task, Redis", costs.messages_s),
        ("a landed task, orchestrator, 8 slots", costs.task_s),
        ("landing of one entry, 5,000 files (wall)", costs.landing_s),
        ("landing of eight entries (wall)", costs.landing_of_eight_s),
    ):
        print(f"{name:<58}{seconds * 1000:>10.3f}")
    print(f"{'bytes that a push is told for each ref in the hub':<58}{costs.advertised:>10.0f}")
    print(f"{'pushes for a task, without progress':<58}{costs.pushes:>10.1f}", flush=True)


def print_shares(costs: Costs, load: Load, slots: int) -> None:
    print(f"\n{'part':<58}{'busy at ' + format(slots, ','):>15}{'full at slots':>15}")
    rows = [(full_at(costs, load, name), name, share) for name, share in shares(costs, load, slots)]
    for full, name, share in sorted(rows):
        print(f"{name:<58}{share:>15.1%}{full:>15,}", flush=True)


def print_plays(costs: Costs, load: Load, slots: int, *, quick: bool) -> None:
    print(
        f"\n{'slots':>6}{'checks at once':>16}{'landed of what slots can do':>30}{'decisions+clock, ms CPU/task':>30}"
    )
    for some in (slots // 10,) if quick else (slots // 20, slots // 5, slots):
        for share in (0.05, 0.1, 0.2):
            trials = max(1, round(some * share))
            landed_share, cpu_s = play_some(some, trials, load, costs.landing_s)
            print(f"{some:>6,}{trials:>16}{landed_share:>30.0%}{cpu_s * 1000:>30.1f}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hosts", type=int, default=50)
    options.add_argument("--slots", type=int, default=1000)
    options.add_argument("--attempt", type=float, default=600.0, help="seconds")
    options.add_argument("--turn", type=float, default=10.0, help="seconds")
    options.add_argument("--check", type=float, default=60.0, help="seconds")
    options.add_argument("--quick", action="store_true", help="fewer rounds, and plays of a tenth of the slots alone")
    chosen = options.parse_args()
    costs = measure_all(chosen.hosts, chosen.slots, 3 * chosen.slots, quick=chosen.quick)
    load = Load(attempt_s=chosen.attempt, turn_s=chosen.turn, check_s=chosen.check)
    print_costs(costs)
    print_shares(costs, load, chosen.slots)
    print_plays(costs, load, chosen.slots, quick=chosen.quick)


if __name__ == "__main__":
    main()
