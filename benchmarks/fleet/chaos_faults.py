"""The faults of a chaos session: drawn from its seed alone, and done to the world at a point of its progress."""

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from chaos_world import Desk, Kind, World, living_desks, submit
from kit import Repository
from processes import Found, Role, in_role, kill_all

from forgepool.workers.queue.broker import BrokerAway, RedisTrouble, connect

ROLES: tuple[Role, ...] = ("orchestrator", "host", "main", "child", "working", "launcher", "other")
_POINTS = (
    *(
        f"{kind}.{when}"
        for kind in ("order.sent", "order.answered", "check.sent", "check.answered", "landing.intended")
        for when in ("unjournaled", "journaled")
    ),
    *("landing.answered.unjournaled", "landing.answered.journaled", "landing.before-push", "landing.after-push"),
)
_EVERYWHERE = ("kill", "kill", "kill", "stop", "stop", "redis", "hub", "push", "clock", "junk")
KINDS: dict[Kind, tuple[str, ...]] = {
    "alone": (*_EVERYWHERE, "disk"),
    "fleet": (*_EVERYWHERE, "vanish", "drain"),
    "two-runs": (*_EVERYWHERE, "vanish", "drain"),
    "queue": (*_EVERYWHERE, "submit", "disk"),
}
_PATIENCE_S = 12.0
"""Seconds to wait for progress before the next fault comes in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: str
    role: Role
    after: int
    """Answers after the fault before."""
    delay_s: float
    length_s: float
    chance: float
    """From 0 to 1; chooses one of several victims."""

    def __str__(self) -> str:
        what = f"{self.kind} {self.role}" if self.kind in ("kill", "stop") else self.kind
        return f"{what} after {self.after}+{self.delay_s:.1f}s for {self.length_s:.1f}s"


def draw_faults(kind: Kind, dice: random.Random) -> list[Fault]:
    return [
        Fault(
            kind=dice.choice(KINDS[kind]),
            role=dice.choice(ROLES),
            after=dice.randint(0, 2),
            delay_s=dice.uniform(0.0, 0.8),
            length_s=dice.choice((0.5, 2.0, 6.0)) * dice.uniform(0.7, 1.3),
            chance=dice.random(),
        )
        for _ in range(dice.randint(2, 5))
    ]


def draw_point(dice: random.Random) -> str:
    """Draw a place in the code at which the first process to reach it dies; mostly none."""
    return dice.choice(_POINTS) if dice.random() < 0.3 else ""


def await_moment(world: World, fault: Fault) -> bool:
    """Wait until the fault is due; False if the session is over before."""
    wanted, until = world.answers() + fault.after, time.monotonic() + _PATIENCE_S
    while not world.over() and world.answers() < wanted and time.monotonic() < until:
        world.wait(0.1)
    world.wait(fault.delay_s)
    return not world.over()


def do(world: World, fault: Fault) -> bool:
    """Do it, and undo it after its length; False if there was nothing to do it to."""
    match fault.kind:
        case "kill" | "stop":
            return _signal(world, fault)
        case "redis":
            return _take_redis_away(world, fault)
        case "hub":
            return _take_hub_away(world, fault)
        case "disk":
            return _fill_disk(world, fault)
        case "clock":
            return _move_clock(world, fault)
        case "push":
            return push(world, fault)
        case "submit":
            return _submit(world, fault)
        case "vanish":
            return _vanish(world, fault)
        case "drain":
            return _drain(world, fault)
        case _:
            return _leave_junk(world, fault)


def _signal(world: World, fault: Fault) -> bool:
    found = sorted(in_role(world.ground, fault.role), key=lambda one: one.pid)
    if not found:
        return False
    victim = found[int(fault.chance * len(found))]
    if fault.kind == "kill":
        victim.kill()
        return True
    _send(victim, signal.SIGSTOP)
    world.wait(fault.length_s)
    _send(victim, signal.SIGCONT)
    return True


def _send(victim: Found, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(victim.pid, what)


def _take_redis_away(world: World, fault: Fault) -> bool:
    if world.broker is not None:
        world.broker.kill()
        world.wait(fault.length_s)
        world.broker.start()
        return True
    found = in_role(world.ground, "redis")
    for one in found:
        if fault.chance < 0.5:
            one.kill()
            continue
        _send(one, signal.SIGSTOP)
        world.wait(fault.length_s)
        _send(one, signal.SIGCONT)
    return bool(found)


def _take_hub_away(world: World, fault: Fault) -> bool:
    away = world.hub.path.with_suffix(".away")
    world.hub.path.rename(away)
    world.wait(fault.length_s)
    if world.hub.path.exists():
        # A git that was at work makes folders for the lock of a ref.
        made = [str(path.relative_to(world.hub.path)) for path in world.hub.path.rglob("*") if not path.is_dir()]
        assert all(path.endswith(".lock") for path in made), f"made where the hub was: {made[:10]}"
        shutil.rmtree(world.hub.path)
    away.rename(world.hub.path)
    return True


def _fill_disk(world: World, fault: Fault) -> bool:
    """Fill the small disk of an orchestrator's machine to its last byte."""
    for disk in world.small_disks[:1]:
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass
        world.wait(fault.length_s)
        ballast.unlink()
        return True
    return False


def _move_clock(world: World, fault: Fault) -> bool:
    """Move a machine's clock, and back; see `chaos.py` for what stands in for the clock."""
    machine = world.machines[int(fault.chance * len(world.machines))]
    offset = -90.0 if fault.chance < 0.5 else 1800.0
    (machine.folder / "clock").write_text(str(offset))
    world.wait(fault.length_s)
    (machine.folder / "clock").unlink()
    return True


def push(world: World, fault: Fault) -> bool:
    """A person commits to a target past everybody."""
    branch = world.branches[int(fault.chance * len(world.branches))]
    ref, name = f"refs/heads/{branch.name}", f"people/{len(branch.pushed)}.txt"
    for _ in range(50):
        tip = world.hub.git("for-each-ref", "--format=%(objectname)", ref)
        if not tip:
            return False
        made = _commit(world.hub, tip, name)
        with suppress(AssertionError):
            world.hub.git("update-ref", ref, made, tip)
            branch.pushed.append(made)
            return True
    return False


def _commit(hub: Repository, tip: str, path: str) -> str:
    folder = hub.path.parent / "pushing"
    if not folder.is_dir():
        hub.git("clone", "-q", "--no-checkout", str(hub.path), str(folder))
    clone = Repository(path=folder)
    clone.git("fetch", "-q", "origin", tip)
    clone.git("checkout", "-q", "--detach", tip)
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text(f"{path}\n")
    clone.git("add", "-A")
    clone.git("commit", "-q", "-m", f"Add {path}")
    made = clone.git("rev-parse", "HEAD")
    clone.git("push", "-q", "origin", f"{made}:refs/people/{made}")
    return made


def _submit(world: World, fault: Fault) -> bool:
    desks = [one for one in world.desks if not one.rival]
    desk = desks[int(fault.chance * len(desks))]
    submit(desk, f"{desk.branch.name}-late-{len(desk.branch.deeds)}", "ok")
    return True


def _vanish(world: World, fault: Fault) -> bool:
    """End everything on a host at once, as a loss of power does."""
    host = world.hosts[int(fault.chance * len(world.hosts))]
    host.stopped, host.vanished = True, True
    kill_all(host.machine.folder)
    world.wait(fault.length_s)
    host.stopped = False
    return True


def _drain(world: World, fault: Fault) -> bool:
    """Restart a host the polite way."""
    host = world.hosts[int(fault.chance * len(world.hosts))]
    if host.current is None or not host.current.running():
        return False
    host.current.process.terminate()
    return True


def _leave_junk(world: World, fault: Fault) -> bool:
    """Leave what no reader expects: in the hub, or in a shared Redis."""
    desks: list[Desk] = list(living_desks(world))
    if world.broker is None or fault.chance < 0.3 or not desks:
        return _leave_junk_refs(world, fault)
    run = desks[0].run() or "none"
    client = connect(world.broker.url)
    try:
        match int(fault.chance * 50) % 5:
            case 0:
                client.xadd(f"forgepool:answers:{run}", {"odd": "entry"})
            case 1:
                client.xadd(f"forgepool:answers:{run}", {"m": '{"kind": "work"}'})
            case 2:
                client.set("forgepool:worker:junk:1:orders", "not a worker")
            case 3:
                client.rpush("orders", "not a message")
            case _:
                client.set(f"forgepool:lease:{run}.junk.1", "not a lease")
    except (RedisTrouble, *BrokerAway):
        return False
    finally:
        client.close()
    return True


def _leave_junk_refs(world: World, fault: Fault) -> bool:
    """Leave a ref to a file, one with a name too few, an orphan commit, or a symbolic ref to the target itself."""
    hub, target = world.hub, world.branches[0].name
    names = (
        f"for/{target}/junk",
        f"gates/{target}/x",
        "junk/orders/a/1",
        "for/junk",
        f"for/{target}/orphan",
        "symbolic",
    )
    name = names[int(fault.chance * 60) % len(names)]
    made = hub.git("hash-object", "-w", str(world.ground / "junk"))
    if name == "symbolic":
        hub.git("symbolic-ref", f"refs/forgepool/for/{target}/symbolic", f"refs/heads/{target}")
        return True
    if name.endswith("orphan"):
        made = hub.git("commit-tree", f"{world.branches[0].base}^{{tree}}", "-m", "an orphan")
    with suppress(AssertionError):
        hub.git("update-ref", f"refs/forgepool/{name}", made)
    return True
