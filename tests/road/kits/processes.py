"""The processes of a test's machines, found by the folder in their environment or working directory."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepool.workers.sandbox import tree

Role = Literal["orchestrator", "host", "main", "child", "working", "launcher", "redis", "other"]
"""
`child` is a process of Celery's pool, and `working` is the one it has forked for a model's work.

`launcher` is forked from that to start its commands, and `other` is a command.
"""


@dataclass(frozen=True, slots=True)
class Found:
    pid: int
    parent: int
    argv: tuple[str, ...]
    role: Role

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def processes(folder: Path) -> list[Found]:
    """Return the live processes that name the folder in their environment or work in it, without this one."""
    seen = {pid: (parent, argv) for pid, parent, argv in _living(folder)}
    return [Found(pid, parent, argv, _role(pid, seen)) for pid, (parent, argv) in seen.items()]


def in_role(folder: Path, *roles: Role) -> list[Found]:
    return [one for one in processes(folder) if one.role in roles]


def kill_all(folder: Path) -> None:
    """Kill until no process is left, because a dying one may have started another."""
    while left := processes(folder):
        for one in left:
            one.kill()


def _living(folder: Path) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            known = tree.stat(int(entry.name))
            if known is None or known.state in "ZX" or not _names(entry, folder):
                continue
            argv = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            yield int(entry.name), known.parent, tuple(argv)


def _names(entry: Path, folder: Path) -> bool:
    if os.fsencode(f"{folder}/") in (entry / "environ").read_bytes():
        return True
    return (entry / "cwd").readlink().is_relative_to(folder)


def _role(pid: int, seen: dict[int, tuple[int, tuple[str, ...]]]) -> Role:
    parent, argv = seen[pid]
    if Path(argv[0].split(" ")[0]).name == "redis-server":
        return "redis"
    # A worker is forked from its host, and a run's first host from the run, so their command lines are equal.
    roles: tuple[Role, ...] = ("orchestrator", "host", "main", "child", "working", "launcher")
    match argv[1:4]:
        case ("-m", "forgepool.orchestrator.cli", "worker" | "supervisor") | (
            "-m",
            "forgepool.workers.queue.host_main",
            _,
        ):
            roles = roles[1:]
        case ("-m", "forgepool.orchestrator.cli", _):
            pass
        case _:
            return "other"
    above = sum(1 for one in _ancestors(parent, seen) if seen[one][1] == argv)
    return roles[min(above, len(roles) - 1)]


def _ancestors(pid: int, seen: dict[int, tuple[int, tuple[str, ...]]]) -> Iterator[int]:
    while pid in seen:
        yield pid
        pid = seen[pid][0]
