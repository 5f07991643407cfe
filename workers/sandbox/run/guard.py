"""
The process that stands over one background command: it runs the command as any other is run, and says how it ended.

A sub-reaper of its own, it has everything the command started below itself, whatever that does to get away. It ends
the command when it is told to (SIGTERM), and when the process that started it is gone.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any

from forgepool.workers.sandbox.bare import HOUSE, START
from forgepool.workers.sandbox.network.linked import LinkedOutlet
from forgepool.workers.sandbox.run.process import Command, Ended, run
from forgepool.workers.schema.confinement import Confinement, as_json, from_json

_START = f"{START}from forgepool.workers.sandbox.run.guard import main; main()"


@dataclass(frozen=True, slots=True)
class Watched:
    """What a guard is told of its command, by a file without a name: a command line can be read by anybody."""

    parent: int
    argv: Sequence[str]
    cwd: str
    log: str
    log_file: int
    timeout_s: float
    keep_bytes: int
    pass_fds: Sequence[int]
    env: Mapping[str, str]
    confined: Mapping[str, Any]
    link: int | None
    """Where its way out is served."""
    ports: Sequence[int]


def guard_argv(told: int) -> tuple[str, ...]:
    """The program that runs a command in a process of its own: an interpreter with nothing but its own library."""
    return (sys.executable, "-I", "-S", "-c", _START, HOUSE, str(told))


def tell(command: Command, log_file: int, link: int | None) -> FileIO:
    """What a guard is told of the command, as an open file."""
    watched = Watched(
        parent=os.getpid(),
        argv=command.argv,
        cwd=str(command.cwd),
        log=str(command.log),
        log_file=log_file,
        timeout_s=command.timeout_s,
        keep_bytes=command.keep_bytes,
        pass_fds=command.pass_fds,
        env=command.env,
        confined=as_json(command.confined),
        link=link,
        ports=command.confined.outlet.ports if command.confined.outlet else (),
    )
    file = FileIO(os.memfd_create("guard"), "r+b")
    file.write(json.dumps(asdict(watched)).encode())
    file.seek(0)
    return file


def read_end(said: bytes, command: Command) -> Ended | None:
    """What a guard wrote at its end; None when it was killed before."""
    try:
        told = json.loads(said)
        return Ended(**told, log=command.log)
    except (ValueError, TypeError):
        return None


def main() -> None:
    """Runs the command it is told of and writes how it ended to standard output."""
    with FileIO(int(sys.argv[2]), "rb") as file:
        watched = Watched(**json.loads(file.read()))
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    ended = run(_command(watched), stop=lambda: bool(told) or os.getppid() != watched.parent)
    facts = {name: value for name, value in asdict(ended).items() if name != "log"}
    os.write(1, json.dumps(facts).encode())


def _confined(watched: Watched) -> Confinement:
    outlet = None if watched.link is None else LinkedOutlet(socket.socket(fileno=watched.link), watched.ports)
    return replace(from_json(watched.confined), outlet=outlet)


def _command(watched: Watched) -> Command:
    return Command(
        argv=tuple(watched.argv),
        cwd=Path(watched.cwd),
        env=watched.env,
        confined=_confined(watched),
        log=Path(watched.log),
        log_file=watched.log_file,
        timeout_s=watched.timeout_s,
        keep_bytes=watched.keep_bytes,
        pass_fds=tuple(watched.pass_fds),
    )
