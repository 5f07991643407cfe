"""
The process that stands over one background command: it runs the command as any other is run, and says how it ended.

A sub-reaper of its own, it has everything the command started below itself, whatever that does to get away. It ends
the command when it is told to (SIGTERM), and when the process that started it is gone.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from workers.sandbox.kin import MARK
from workers.sandbox.process import Command, Ended, run

_START = "import sys; sys.path.append(sys.argv[1]); from workers.sandbox.guard import main; main()"


@dataclass(frozen=True, slots=True)
class Watched:
    """What a guard is told of its command; the environment is its own."""

    parent: int
    argv: Sequence[str]
    cwd: str
    log: str
    log_file: int
    timeout_s: float
    keep_bytes: int
    pass_fds: Sequence[int]


def guard_argv(command: Command, log_file: int) -> tuple[str, ...]:
    """The program that runs a command in a process of its own: an interpreter with nothing but its own library."""
    watched = Watched(
        parent=os.getpid(),
        argv=command.argv,
        cwd=str(command.cwd),
        log=str(command.log),
        log_file=log_file,
        timeout_s=command.timeout_s,
        keep_bytes=command.keep_bytes,
        pass_fds=command.pass_fds,
    )
    above = Path(__file__).resolve().parents[2]
    return (sys.executable, "-I", "-S", "-c", _START, str(above), json.dumps(asdict(watched)))


def read_end(said: bytes, command: Command) -> Ended | None:
    """What a guard wrote at its end; None when it was killed before."""
    try:
        told = json.loads(said)
        return Ended(**told, log=command.log)
    except (ValueError, TypeError):
        return None


def main() -> None:
    """Runs the command of `sys.argv` and writes how it ended to standard output."""
    watched = Watched(**json.loads(sys.argv[2]))
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    ended = run(_command(watched), stop=lambda: bool(told) or os.getppid() != watched.parent)
    facts = {name: value for name, value in asdict(ended).items() if name != "log"}
    os.write(1, json.dumps(facts).encode())


def _command(watched: Watched) -> Command:
    return Command(
        argv=tuple(watched.argv),
        cwd=Path(watched.cwd),
        env={name: value for name, value in os.environ.items() if name != MARK},
        log=Path(watched.log),
        log_file=watched.log_file,
        timeout_s=watched.timeout_s,
        keep_bytes=watched.keep_bytes,
        pass_fds=tuple(watched.pass_fds),
    )
