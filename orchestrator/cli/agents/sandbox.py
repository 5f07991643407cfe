"""`forgepool sandbox exec`: runs a command as agents run theirs, for a person to try."""

import math
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from forgepool.orchestrator.cli.app import add_group
from forgepool.orchestrator.cli.output.say import complain, hush, say_json
from forgepool.orchestrator.cli.run.run import settings_with
from forgepool.workers.sandbox.network.hosts import BadHost
from forgepool.workers.sandbox.run.process import Command, Ended, run
from forgepool.workers.sandbox.sandbox_profile import Private, Shelter, private
from forgepool.workers.sandbox.scratch import make_scratch
from forgepool.workers.schema.confinement import LEVEL_WORDS
from forgepool.worktrees.errors import UserError
from forgepool.worktrees.hub.hub import NotOurs, git_folders

_NOT_CONFINED, _NO_PROGRAM, _SIGNALLED = 3, 127, 128
AskedLevel = Literal["auto", "require", "landlock", "off"]


def register(app: typer.Typer) -> None:
    sandbox = add_group(app, "sandbox", "The sandbox of agents' and checks' commands.")
    sandbox.command("exec", context_settings={"allow_interspersed_args": False})(execute)


def execute(
    argv: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The program and its arguments.")],
    network: Annotated[list[str] | None, typer.Option(metavar="HOST", help="A host it may reach; repeatable.")] = None,
    write: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A further folder it may change; repeatable.")
    ] = None,
    level: Annotated[
        AskedLevel | None,
        typer.Option(help="auto: the best available. require: bubblewrap, or refuse. landlock: Landlock. off: none."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print how it ended as JSON, and its output on standard error.")
    ] = False,
) -> int:
    """
    Run a command confined like an agent's: it may change this folder except .git, and little else.

    Its input is empty. The exit status is its own; 128 and more if a signal ended it, 127 if there is no such program,
    3 if it cannot be confined.
    """
    here = _place(Path.cwd())
    try:
        protected, readable = git_folders(here)
    except NotOurs as wrong:
        raise UserError(str(wrong)) from wrong
    shelter = Shelter(
        settings=settings_with(None, None if level == "landlock" else level),
        level="landlock" if level == "landlock" else None,
        writable=(here, *(_place(each) for each in write or ())),
        protected=protected,
        readable=readable,
        network=tuple(network or ()),
    )
    try:
        with private({}, shelter) as own:
            if own.confined.level in ("landlock", "off"):
                complain(LEVEL_WORDS[own.confined.level], 0)
            return _run(tuple(argv), here, own, as_json=as_json)
    except BadHost as wrong:
        raise UserError(f"--network {wrong}") from wrong


def _run(argv: tuple[str, ...], here: Path, own: Private, *, as_json: bool) -> int:
    if shutil.which(argv[0], path=own.env["PATH"]) is None:
        return complain(f"there is no program '{argv[0]}' on PATH; correct the name, or give its path", _NO_PROGRAM)
    with make_scratch() as folder, _asked_to_end() as asked:
        stream = sys.stderr.buffer if as_json else sys.stdout.buffer

        def hear(piece: bytes) -> None:
            try:
                stream.write(piece)
                stream.flush()
            except BrokenPipeError:
                hush()
                asked.append(signal.SIGPIPE)

        command = Command(
            argv=argv,
            cwd=here,
            env=own.env,
            log=folder / "log",
            timeout_s=math.inf,
            confined=own.confined,
            keep_bytes=0,
        )
        ended = run(command, hear=hear, stop=lambda: bool(asked))
    status = _status(ended, asked)
    if as_json:
        say_json({"level": own.confined.level, "how": ended.how, "status": status, "seconds": round(ended.seconds, 3)})
    return complain(ended.tail, status) if ended.how == "not_started" else status


def _status(ended: Ended, asked: list[int]) -> int:
    if ended.how == "not_started":
        return _NOT_CONFINED
    if asked:
        return _SIGNALLED + asked[0]
    if ended.status is None:
        return _SIGNALLED + signal.SIGKILL
    return ended.status if ended.status >= 0 else _SIGNALLED - ended.status


@contextmanager
def _asked_to_end() -> Iterator[list[int]]:
    """Collect the signals that ask this process to end; the command is ended then."""
    asked: list[int] = []
    usual = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.signal(number, lambda number, frame: asked.append(number))) for number in usual]
    try:
        yield asked
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _place(folder: Path) -> Path:
    """Resolve the folder, and refuse one that contains the person's home."""
    real = Path(os.path.realpath(folder))
    if not real.is_dir():
        raise UserError(f"{folder} is not a folder; name an existing one")
    if Path(os.path.realpath(Path.home())).is_relative_to(real):
        raise UserError(f"{real} contains your home, which must stay closed to commands; choose a project's folder")
    return real
