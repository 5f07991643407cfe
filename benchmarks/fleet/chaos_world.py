"""The worlds of chaos sessions: a hub, machines, hosts, and orchestrators that are started again after a death."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from chaos_tasks import CHECKS, SCRIPT, Deed, Fate, make_tasks
from gate_kit import CHECK, GateOf, make_gate
from kit import Machine, Repository, Started, make_repository, write_plan
from processes import kill_all
from servers import RedisServer

from forgepool.orchestrator.launch.embedded import redis_binary
from forgepool.orchestrator.state.task import TERMINAL
from forgepool.workers.schema.settings import Settings

Kind = Literal["alone", "fleet", "two-runs", "queue"]
LOOK_S = 0.05
MOST_STARTS = 25
"""Starts of one orchestrator; a session with more stands still."""
SUPERVISED_S = 1.0
"""Seconds after which a dead host or orchestrator is started again, as an init system would."""


@dataclass(slots=True, kw_only=True)
class Branch:
    """A target: where it began, its checks, what is to land on it, and the commits that people have pushed."""

    name: str
    base: str
    checks: tuple[str, ...]
    deeds: dict[str, Deed]
    pushed: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Desk:
    """An orchestrator: `run`, resumed when it has died, or `queue serve`."""

    machine: Machine
    argv: tuple[str, ...]
    branch: Branch
    gate: GateOf | None = None
    rival: bool = False
    """It serves a branch that another queue serves already; it may refuse, and is not started again."""
    over: bool = False
    ended_at: float = 0.0
    starting: bool = False
    """It was started again and then ended before it came to clean up, which it does before it makes its own folder."""
    current: Started | None = None
    complaints: list[str] = field(default_factory=list)

    def run(self) -> str:
        """Return the newest run that has journaled something; empty without one."""
        folder = self.machine.home / "runs"
        known = [one for one in self.machine.runs() if count_events(folder / one)]
        return max(known, key=lambda one: (folder / one).stat().st_ctime, default="")

    def start(self) -> None:
        run = self.run()
        words = ("resume", run) if run and self.gate is None else self.argv
        self.current, self.ended_at = self.machine.start(*words), 0.0

    @property
    def waits_for_start(self) -> bool:
        """It has died, and was to be started again a second later, or was only starting at the end."""
        return self.starting or bool(self.ended_at and self.current and self.current.process.returncode not in (0, 1))

    def keep_going(self, *, hub_is_there: bool) -> None:
        """Start it again after a death or an interruption; note an exit status that is not right."""
        if self.over or self.current is None or self.current.running():
            return
        status = self.current.process.returncode
        if not self.ended_at:
            self.ended_at = time.monotonic()
            if self.rival or (self.gate is None and status in (0, 1)):
                self.over = True
                return
            # Signals, the hub or Redis being away, and a full disk are reasons to stop; a usage error is none.
            # To begin where no hub is, is one: it may be back when this is seen.
            said = self.current.err.read_text()[-300:].strip()
            if status == 2 and hub_is_there and (self.run() or "there is no such folder" not in said):
                self.complaints.append(f"status 2: {said}")
        if time.monotonic() - self.ended_at > SUPERVISED_S:
            if len(self.machine.started) > MOST_STARTS:
                self.complaints.append(f"started {MOST_STARTS} times: {self.current.err.read_text()[-300:].strip()}")
                self.over = True
                return
            self.start()

    def settled(self) -> set[str]:
        """Return the entries of the queue that have an end here."""
        tasks = self.gate.state().tasks if self.gate is not None else {}
        return {name for name in self.branch.deeds if name in tasks and tasks[name].phase in TERMINAL}


@dataclass(slots=True, kw_only=True)
class Host:
    """A `forgepool worker`, started again when it has ended."""

    machine: Machine
    bad: str = ""
    """The fault of this host; empty if it has none."""
    current: Started | None = None
    stopped: bool = False
    vanished: bool = False
    """It was ended at once, with everything on it, and could not clean up."""

    def keep_going(self) -> None:
        if not self.stopped and (self.current is None or not self.current.running()):
            self.current = self.machine.start("worker", "--concurrency", "2")

    def stop(self) -> None:
        self.stopped = True
        if self.current is not None and self.current.running():
            self.current.process.terminate()


@dataclass(slots=True, kw_only=True)
class World:
    kind: Kind
    ground: Path
    dice: random.Random
    hub: Repository
    branches: list[Branch] = field(default_factory=list)
    desks: list[Desk] = field(default_factory=list)
    hosts: list[Host] = field(default_factory=list)
    broker: RedisServer | None = None
    small_disks: list[Path] = field(default_factory=list)
    """Folders on a disk that is small, so that it can be filled."""

    @property
    def machines(self) -> list[Machine]:
        return [*(one.machine for one in self.desks), *(one.machine for one in self.hosts)]

    def start(self) -> None:
        for host in self.hosts:
            host.keep_going()
        for desk in self.desks:
            desk.start()

    def keep_going(self) -> None:
        there = self.hub.path.is_dir()
        for desk in self.desks:
            desk.keep_going(hub_is_there=there)
        for host in self.hosts:
            host.keep_going()

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.keep_going()
            time.sleep(LOOK_S)

    def over(self) -> bool:
        return all(self.is_done(desk) for desk in self.desks if not desk.rival)

    def is_done(self, desk: Desk) -> bool:
        """Tell whether it has ended, or all entries of its queue have an end, here or at a rival that took them."""
        if desk.over or desk.gate is None:
            return desk.over
        beside = [one.settled() for one in self.desks if one.branch is desk.branch and one.gate is not None]
        return set().union(*beside) == set(desk.branch.deeds)

    def answers(self) -> int:
        """Count the answers in all journals: the session's progress."""
        return sum(count_events(one.parent, "answered") for one in self.ground.glob("*/home/runs/*/journal.db"))

    def close(self) -> None:
        """Stop queues and hosts as a person would, and wait for them."""
        for desk in self.desks:
            desk.over = True
            if desk.gate is not None and desk.current is not None and desk.current.running():
                desk.starting = len(desk.machine.started) > 1 and not any(
                    map(is_held, desk.machine.tmp.glob("fpool-*"))
                )
                desk.current.process.send_signal(signal.SIGINT)
        ends = [desk.current for desk in self.desks if desk.current is not None]
        _wait_for(ends, 60.0)
        for host in self.hosts:
            host.stop()
        _wait_for([host.current for host in self.hosts if host.current is not None], 60.0)

    def tear_down(self) -> None:
        for host in self.hosts:
            host.stopped = True
        for desk in self.desks:
            desk.over = True
        kill_all(self.ground)
        for machine in self.machines:
            for started in machine.started:
                started.process.wait()
        if self.broker is not None:
            self.broker.kill()
            shutil.rmtree(self.broker.folder, ignore_errors=True)
        for disk in self.small_disks:
            subprocess.run(["umount", "-l", disk], check=False, capture_output=True)


def is_held(path: Path) -> bool:
    """Tell whether a process holds the lock of the file or folder."""
    return bool(subprocess.run(["flock", "--nonblock", path, "true"], check=False).returncode)


def _wait_for(ends: list[Started], seconds: float) -> None:
    until = time.monotonic() + seconds
    for one in ends:
        with suppress(subprocess.TimeoutExpired):
            one.process.wait(timeout=max(0.1, until - time.monotonic()))


def count_events(run_folder: Path, kind: str = "") -> int:
    """Count the events of a journal, or those whose kind ends so; 0 while it cannot be read."""
    pattern = f'%"kind":"%.{kind}"%' if kind else "%"
    try:
        connection = sqlite3.connect(f"file:{run_folder / 'journal.db'}?mode=ro", uri=True)
        try:
            return int(connection.execute("SELECT count(*) FROM events WHERE body LIKE ?", (pattern,)).fetchone()[0])
        finally:
            connection.close()
    except sqlite3.Error:
        return 0


def make_world(kind: Kind, ground: Path, dice: random.Random) -> World:
    return {"alone": _alone, "fleet": _fleet, "two-runs": _two_runs, "queue": _queue}[kind](ground, dice)


def _alone(ground: Path, dice: random.Random) -> World:
    world = _runs_world("alone", ground, dice)
    _add_run(world, "chaos", dice, tool=False, workers=dice.randint(1, 3))
    if dice.random() < 0.5:
        world.desks[0].machine.variables["FORGEPOOL_SANDBOX"] = "off"
    return world


def _fleet(ground: Path, dice: random.Random) -> World:
    world = _runs_world("fleet", ground, dice)
    _share_redis(world)
    bad = dice.choice(["", "", "no tool", "clock", "full disk"])
    _add_run(world, "chaos", dice, tool=bad == "no tool")
    for number in range(2):
        _add_host(world, f"host{number}")
    if bad:
        _add_host(world, "odd", bad=bad)
    return world


def _two_runs(ground: Path, dice: random.Random) -> World:
    """Make two runs that share hosts and a hub, and mostly the target."""
    world = _runs_world("two-runs", ground, dice)
    _share_redis(world)
    shared = dice.random() < 0.7
    for name in ("east", "west"):
        _add_run(world, name, dice, tool=False, target="forgepool/both" if shared else f"forgepool/{name}")
    for number in range(dice.randint(1, 2)):
        _add_host(world, f"host{number}")
    return world


def _queue(ground: Path, dice: random.Random) -> World:
    """Make one queue, or two for two branches of one hub; sometimes a second one for a branch that has one."""
    machine = _machine(ground, "here", None)
    gate = make_gate(ground, machine, "hub")
    world = World(kind="queue", ground=ground, dice=dice, hub=gate.hub)
    _add_gate(world, gate, dice)
    if dice.random() < 0.3:
        gate.hub.git("branch", "release", "main")
        other = _machine(ground, "there", None)
        other.variables |= machine.variables
        _add_gate(world, GateOf(machine=other, hub=gate.hub, go=gate.go, target="release"), dice)
    if dice.random() < 0.3:
        rival = _machine(ground, "rival", None)
        rival.variables |= machine.variables
        twin = GateOf(machine=rival, hub=gate.hub, go=gate.go)
        argv = world.desks[0].argv
        world.desks.append(Desk(machine=rival, argv=argv, branch=world.branches[0], gate=twin, rival=True))
    return world


def _runs_world(kind: Kind, ground: Path, dice: random.Random) -> World:
    make_repository(ground / "person", {"README.md": "read me\n"}).git(
        "clone", "-q", "--bare", str(ground / "person"), str(ground / "hub.git")
    )
    (ground / "bin").mkdir()
    (ground / "bin" / "frob").write_text("#!/bin/sh\nexit 0\n")
    (ground / "bin" / "frob").chmod(0o755)
    (ground / "script.yaml").write_text(SCRIPT)
    return World(kind=kind, ground=ground, dice=dice, hub=Repository(path=ground / "hub.git"))


def _share_redis(world: World) -> None:
    world.broker = RedisServer(Path(tempfile.mkdtemp(prefix="chaos-redis-")), redis_binary(Settings()))


def _machine(ground: Path, name: str, broker: str | None, *, bare_path: bool = False) -> Machine:
    machine = Machine(folder=ground / name, name=name, broker=broker)
    machine.folder.mkdir()
    machine.variables["FORGEPOOL_LEASE_TTL_S"] = "4"
    if not bare_path:
        machine.variables["PATH"] = f"{ground}/bin{os.pathsep}{os.environ['PATH']}"
    return machine


def _add_host(world: World, name: str, *, bad: str = "") -> None:
    assert world.broker is not None
    machine = _machine(world.ground, name, world.broker.url, bare_path=bad == "no tool")
    machine.variables["FORGEPOOL_SANDBOX"] = "off"
    world.hosts.append(Host(machine=machine, bad=bad))


def _add_run(world: World, name: str, dice: random.Random, *, tool: bool, workers: int = 0, target: str = "") -> None:
    target = target or f"forgepool/{name}"
    deeds, tasks = make_tasks(dice, name, tool=tool)
    checks = (*CHECKS, "frob") if tool else CHECKS
    told = {f"c{number}": check for number, check in enumerate(checks)}
    plan = {"name": name, "target": target, "checks": told, "review": "none", "tasks": tasks}
    path = write_plan(world.ground, plan)
    branch = next((one for one in world.branches if one.name == target), None)
    if branch is None:
        base = world.hub.git("rev-parse", "main")
        world.branches.append(branch := Branch(name=target, base=base, checks=checks, deeds={}))
    branch.deeds |= deeds
    machine = _machine(world.ground, name, world.broker.url if world.broker else None)
    more = ("--workers", str(workers)) if workers else ()
    argv = ("run", str(path), "--repo", world.hub.path.as_uri(), *more)
    world.desks.append(Desk(machine=machine, argv=argv, branch=branch))


def _add_gate(world: World, gate: GateOf, dice: random.Random) -> None:
    (world.ground / "check.sh").write_text(CHECK)
    branch = Branch(name=gate.target, base=gate.tip(), checks=(f"sh {gate.go}/check.sh {gate.go}",), deeds={})
    world.branches.append(branch)
    argv = ("queue", "serve", "--repo", str(gate.hub.path), "--target", gate.target, "--trials", "2")
    desk = Desk(machine=gate.machine, argv=argv, branch=branch, gate=gate)
    world.desks.append(desk)
    words = [*["ok"] * dice.randint(2, 4), "bad", "flaky"][: dice.randint(4, 6)]
    for number, word in enumerate(words):
        submit(desk, f"{gate.target}-{number}", word)


def submit(desk: Desk, name: str, word: str) -> None:
    """Push a branch to the queue."""
    assert desk.gate is not None
    desk.gate.push(name, word, base=desk.branch.base)
    fate: Fate = "never" if word == "bad" else "lands"
    desk.branch.deeds[name] = Deed(name=name, paths=(f"e/{name}",), fate=fate, content=f"{word}\n")


def living_desks(world: World) -> Iterator[Desk]:
    return (one for one in world.desks if one.current is not None and one.current.running())
