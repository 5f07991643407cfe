"""The pages of `forgepool serve` for as long as another command runs: `--serve` of `run` and of `demo`."""

import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.sandbox.own_processes import Service, start_service
from forgepool.workers.schema.settings import Settings, missing_extra, whole_environment

Serve = Annotated[bool, typer.Option("--serve", help="Also show it in a browser, as `forgepool serve` does.")]
_BEGINS_WITHIN_S, _LOOK_S = 30.0, 0.05


@contextmanager
def serve_pages(settings: Settings, *, wanted: bool, tell: Callable[[str], None]) -> Iterator[Service | None]:
    """
    Run `forgepool serve` beside the block, where it is wanted, and tell its link. It ends with this process, too.

    Where it has ended before the block, that and its reason are told.

    Raises:
        CannotRun: the optional part is missing, or the server has not begun.
    """
    if not wanted:
        yield None
        return
    if missing := missing_extra("http"):
        raise CannotRun(f"--serve needs an optional part of Forgepool: {missing}")
    # The link is a secret until it is used: the file is this user's alone, and has no name once the link is read.
    with tempfile.NamedTemporaryFile("r+", errors="replace", prefix="forgepool-serve-", delete=False) as output:
        try:
            pages = _start(settings, tell, output)
        finally:
            Path(output.name).unlink()
        try:
            yield pages
        finally:
            if not pages.running():
                tell(f"the pages have ended too early: {_reason(pages, output)}")
            pages.stop(within_s=5)


def wait_for_ctrl_c(pages: Service) -> None:
    """Return at Ctrl-C or SIGTERM, or when the pages have ended."""
    before = [(each, signal.signal(each, signal.default_int_handler)) for each in (signal.SIGINT, signal.SIGTERM)]
    try:
        while pages.running():
            time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        pass
    finally:
        for each, handler in before:
            signal.signal(each, handler)


def _start(settings: Settings, tell: Callable[[str], None], output: IO[str]) -> Service:
    env = whole_environment() | {"FORGEPOOL_HOME": str(settings.home), "FORGEPOOL_CACHE": str(settings.cache)}
    if settings.broker_url is not None:
        env["FORGEPOOL_BROKER_URL"] = settings.broker_url
    # -P: the folder at hand may be a repository, whose modules must not be taken for ours.
    argv = (sys.executable, "-P", "-m", "forgepool.orchestrator.cli", "serve")
    pages = start_service("the pages", argv, env=env, log=Path(output.name), is_beside=True)
    try:
        tell(f"to watch it in a browser, open this link; it works once: {_link(pages, output)}")
    except BaseException:
        pages.stop(within_s=5)
        raise
    return pages


def _link(pages: Service, output: IO[str]) -> str:
    """Return the operator's link."""
    until = time.monotonic() + _BEGINS_WITHIN_S
    while time.monotonic() < until:
        running = pages.running()
        output.seek(0)
        if link := re.search(r"to act:\s+(http\S+)\n", output.read()):
            return link[1]
        if not running:
            raise CannotRun(f"the pages did not start: {_reason(pages, output)}")
        time.sleep(_LOOK_S)
    raise CannotRun(f"the pages did not start within {_BEGINS_WITHIN_S:.0f} s; try again, or leave out --serve")


def _reason(pages: Service, output: IO[str]) -> str:
    """Return the last line that the pages printed, except their links; without one, the signal that ended them."""
    output.seek(0)
    said = [line.strip() for line in output if line.strip() and "/enter?code=" not in line and "Each link" not in line]
    if said:
        return said[-1].removeprefix("forgepool: ")
    # A run reaps every child that has ended; then the signal is unknown, and the status 0.
    number = -pages.process.returncode
    return f"signal {number} ended their process" if number > 0 else "their process is gone, and gave no reason"
