"""
Runs random sessions of small runs and queues, breaks what they stand on, and audits each from outside at its end.

    python benchmarks/fleet/chaos.py [--sessions 300] [--seed 1] [--jobs 1] [--keep]      (Ctrl-C ends it early)

A session's seed decides its world and its faults. `--sessions 1 --seed S` does those of session S again, at the same
points of its progress; the processes themselves are as fast as the machine lets them be.

Worlds: one machine; a fleet of two hosts, often with a third that lacks a tool, has a full disk or a wrong clock; two
runs on one hub; one or two queues, sometimes with a rival for the same branch. Faults: a process of any kind is killed
or stopped for seconds, or dies at a named place in the code; Redis or the hub is away; a disk is full; a clock jumps;
a person pushes to the target; a host vanishes or restarts; junk lies in Redis and in the hub.

What has died is started again after a second, as an init system would do. In the end the bad hosts are stopped, and a
person retries what has not landed. Then the audit asks plain git and the kernel (`chaos_audit.py`).

Two things are not as in nature. A full disk needs the right to mount (root); without it these faults are left out. A
machine's real clock cannot be moved alone, so `time.time` of its Python processes is moved instead.
"""

import argparse
import collections
import ctypes
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests"))

import find_helpers  # noqa: F401  # before any helper
from chaos_audit import audit
from chaos_faults import Fault, await_moment, do, draw_faults, draw_point
from chaos_world import LOOK_S, Kind, World, make_world
from kit import Machine

_LONGEST_S = 240.0
"""Seconds after which a session that has not ended stands still."""
_ROUNDS = 4
"""Times that a person retries what has not landed."""
_CLONE_NEWNS = 0x20000
_CLOCK = """import os, time
_real = time.time
def _moved():
    try:
        with open(os.environ["CHAOS_CLOCK"]) as file:
            return _real() + float(file.read())
    except (KeyError, OSError, ValueError):
        return _real()
time.time = _moved
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    seed: int
    kind: str
    faults: list[str]
    violations: list[str]
    recoveries_s: list[tuple[str, float]]
    seconds: float


def session(seed: int, *, keep: bool) -> Outcome:
    """Play one session to its end and audit it."""
    dice, began = random.Random(seed), time.monotonic()
    kind: Kind = dice.choice(("alone", "alone", "fleet", "fleet", "two-runs", "queue", "queue"))
    ground = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-")).resolve()
    (ground / "junk").write_text("no commit\n")
    world = make_world(kind, ground, dice)
    faults, point = draw_faults(kind, dice), draw_point(dice)
    done, recoveries, violations = [f"dies at {point}"] if point else [], [], []
    try:
        _prepare(world, faults, point)
        world.start()
        for fault in faults:
            if not await_moment(world, fault):
                break
            if do(world, fault):
                done.append(str(fault))
                if (seconds := _recovery_s(world)) is not None:
                    recoveries.append((f"{fault.kind} {fault.role}" if fault.kind == "kill" else fault.kind, seconds))
        violations += _finish(world, began)
        violations += audit(world)
    except Exception as trouble:  # a broken driver is reported like a broken promise
        violations.append(f"the driver: {type(trouble).__name__}: {str(trouble)[-600:]}")
    finally:
        if keep and violations:
            violations += [f"{desk.machine.name}: {desk.current.said()[-600:]}" for desk in world.desks if desk.current]
            violations.append(f"kept in {ground}")
        world.tear_down()
        if not (keep and violations):
            subprocess.run(["rm", "-rf", ground], check=False, capture_output=True)
    bad = [f"bad host: {host.bad}" for host in world.hosts if host.bad]
    seconds = time.monotonic() - began
    return Outcome(
        seed=seed, kind=kind, faults=[*bad, *done], violations=violations, recoveries_s=recoveries, seconds=seconds
    )


def _prepare(world: World, faults: list[Fault], point: str) -> None:
    """Give the machines their small disks, their clocks, and the place at which one process dies."""
    if point:
        for machine in world.machines:
            machine.variables["FORGEPOOL_FAULT"] = f"{point}:{world.ground}/died"
    if any(fault.kind == "disk" for fault in faults) and _own_mounts():
        _mount(world, world.desks[0].machine.folder, "96m")
    if any(fault.kind == "clock" for fault in faults) or any(host.bad == "clock" for host in world.hosts):
        (world.ground / "clockwork").mkdir()
        (world.ground / "clockwork" / "sitecustomize.py").write_text(_CLOCK)
        for machine in world.machines:
            machine.variables |= {
                "PYTHONPATH": f"{world.ground}/clockwork",
                "CHAOS_CLOCK": f"{machine.folder}/clock",
            }
    for host in world.hosts:
        if host.bad == "clock":
            (host.machine.folder / "clock").write_text("1800")
        if host.bad == "full disk" and _own_mounts():
            host.machine.cache.mkdir()
            _mount(world, host.machine.cache, "1m")
            with suppress(OSError), (host.machine.cache / "ballast").open("wb", buffering=0) as file:
                while file.write(bytes(1 << 12)):
                    pass


def _own_mounts() -> bool:
    """Give this process a view of mounts of its own, which ends with it; False without the right to."""
    if os.geteuid() or ctypes.CDLL(None).unshare(_CLONE_NEWNS):
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], check=False).returncode == 0


def _mount(world: World, folder: Path, size: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "chaos", folder], check=True)
    world.small_disks.append(folder)


def _recovery_s(world: World) -> float | None:
    """Return the seconds until the next answer is journaled; None if there was nothing left to answer."""
    began, before = time.monotonic(), world.answers()
    while not world.over() and time.monotonic() < began + _LONGEST_S:
        if world.answers() > before:
            return time.monotonic() - began
        world.wait(LOOK_S)
    return None


def _finish(world: World, began: float) -> list[str]:
    """Let everything come to its end, take bad hosts away, and retry what has not landed."""
    _await_end(world, began)
    for host in world.hosts:
        if host.bad:
            host.stop()
    for _ in range(_ROUNDS):
        if not _retry(world):
            break
        _await_end(world, began)
    stuck = [desk for desk in world.desks if not desk.rival and not world.is_done(desk)]
    told = [
        f"{desk.machine.name} stands still after {time.monotonic() - began:.0f} s: "
        f"{desk.current.said()[-600:] if desk.current else ''}"
        for desk in stuck
    ]
    world.close()
    return told


def _await_end(world: World, began: float) -> None:
    while not world.over() and time.monotonic() < began + _LONGEST_S:
        world.wait(0.2)


def _retry(world: World) -> bool:
    """Ask for another try of each task that should have landed; False if there is none."""
    asked = False
    for desk in world.desks:
        if desk.gate is not None or not desk.over or not (run := desk.run()):
            continue
        missing = [name for name in _unlanded(desk.machine, run) if desk.branch.deeds[name].fate == "lands"]
        for name in missing:
            desk.machine.start("retry", run, name, "--no-resume").ended(within_s=60)
        if missing:
            asked, desk.over = True, False
            desk.start()
    return asked


def _unlanded(machine: Machine, run: str) -> list[str]:
    told = json.loads(machine.start("status", run, "--json").ended(within_s=60).out)
    return [task["task"] for task in told["tasks"] if task["phase"] not in ("landed", "already_there")]


def _apart(seed: int, *, keep: bool) -> Outcome:
    """Play a session in a process of its own."""
    argv = [sys.executable, __file__, "--session", str(seed), *(["--keep"] if keep else [])]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=2 * _LONGEST_S)
        return Outcome(**json.loads(out.splitlines()[-1]))
    except (subprocess.TimeoutExpired, ValueError, IndexError) as trouble:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        said = f"the session's own process: {type(trouble).__name__}"
        return Outcome(seed=seed, kind="?", faults=[], violations=[said], recoveries_s=[], seconds=2 * _LONGEST_S)


def tell(one: Outcome) -> None:
    back = ", ".join(f"{seconds:.1f}" for _, seconds in one.recoveries_s)
    after = f"; answers again after {back} s" if back else ""
    print(f"seed {one.seed} {one.kind}, {one.seconds:.0f} s: {'; '.join(one.faults) or 'no faults'}{after}", flush=True)
    for violation in one.violations:
        print(f"  VIOLATION (--sessions 1 --seed {one.seed}): {violation}", flush=True)


def report(outcomes: list[Outcome]) -> None:
    kinds = collections.Counter(one.kind for one in outcomes)
    print(f"\n{len(outcomes)} sessions ({', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))})")
    print(f"{sum(len(one.faults) for one in outcomes)} faults")
    by_fault = collections.defaultdict(list)
    for name, seconds in (pair for one in outcomes for pair in one.recoveries_s):
        by_fault[name].append(seconds)
    every = [seconds for some in by_fault.values() for seconds in some]
    print(f"{'seconds to the next answer':<28}{'times':>6}{'median':>8}{'worst':>8}")
    for name, some in sorted([*by_fault.items(), *([("all", every)] if every else [])]):
        print(f"{name:<28}{len(some):>6}{statistics.median(some):>8.1f}{max(some):>8.1f}")
    broken = [one for one in outcomes if one.violations]
    print(f"{sum(len(one.violations) for one in broken)} violations in {len(broken)} sessions")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sessions", type=int, default=300)
    options.add_argument("--seed", type=int, default=1, help="the first session's; the others' follow it")
    options.add_argument("--jobs", type=int, default=1, help="sessions at the same time")
    options.add_argument("--keep", action="store_true", help="keep the folders of sessions with a violation")
    options.add_argument("--session", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.session is not None:
        # A shell without jobs starts commands in the background with Ctrl-C ignored, and what they start inherits that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        outcome = session(chosen.session, keep=chosen.keep)
        print(json.dumps({name: getattr(outcome, name) for name in Outcome.__slots__}))
        return 0
    outcomes: list[Outcome] = []
    pool = ThreadPoolExecutor(chosen.jobs)
    seeds = range(chosen.seed, chosen.seed + chosen.sessions)
    try:
        for one in pool.map(lambda seed: _apart(seed, keep=chosen.keep), seeds):
            outcomes.append(one)
            tell(one)
    except KeyboardInterrupt:
        print("no more sessions; those under way are played to their end", flush=True)
        pool.shutdown(cancel_futures=True)
    report(outcomes)
    return 1 if any(one.violations for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
