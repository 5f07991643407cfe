"""The pages of `forgepool serve` for as long as another command runs: `--serve` of `run` and of `demo`."""

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.sandbox.own_processes import Service, start_service
from forgepool.workers.schema.extras import missing_extra
from forgepool.workers.schema.settings import Settings, whole_environment

Serve = Annotated[bool, typer.Option("--serve", help="Also show it in a browser, as `forgepool serve` does.")]
_BEGINS_WITHIN_S, _LOOK_S = 30.0, 0.05


@contextmanager
def serve_pages(settings: Settings, *, wanted: bool, tell: Callable[[str], None]) -> Iterator[Service | None]:
    """
    Run `forgepool serve` beside the block, where it is wanted, and tell its link. It ends with this process, too.

    Raises:
        CannotRun: the optional part is missing, or the server has not begun.
    """
    if not wanted:
        yield None
        return
    if missing := missing_extra("http"):
        raise CannotRun(f"--serve needs an optional part of Forgepool: {missing}")
    pages = _start(settings, tell)
    try:
        yield pages
    finally:
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


def _start(settings: Settings, tell: Callable[[str], None]) -> Service:
    env = whole_environment() | {"FORGEPOOL_HOME": str(settings.home), "FORGEPOOL_CACHE": str(settings.cache)}
    if settings.broker_url is not None:
        env["FORGEPOOL_BROKER_URL"] = settings.broker_url
    # The link is a secret until it is used: the file is this user's alone, and gone once it is read.
    descriptor, name = tempfile.mkstemp(prefix="forgepool-serve-")
    os.close(descriptor)
    log = Path(name)
    try:
        # -P: the folder at hand may be a repository, whose modules must not be taken for ours.
        argv = (sys.executable, "-P", "-m", "forgepool.orchestrator.cli", "serve")
        pages = start_service("the pages", argv, env=env, log=log, is_beside=True)
        try:
            tell(f"to watch it in a browser, open this link; it works once: {_link(pages, log)}")
        except BaseException:
            pages.stop(within_s=5)
            raise
    finally:
        log.unlink()
    return pages


def _link(pages: Service, log: Path) -> str:
    """Return the operator's link."""
    until = time.monotonic() + _BEGINS_WITHIN_S
    while time.monotonic() < until:
        running, said = pages.running(), log.read_text(errors="replace")
        if link := re.search(r"to act:\s+(http\S+)\n", said):
            return link[1]
        if not running:
            raise CannotRun(f"the pages did not start: {said.strip().removeprefix('forgepool: ') or 'no reason given'}")
        time.sleep(_LOOK_S)
    raise CannotRun(f"the pages did not start within {_BEGINS_WITHIN_S:.0f} s; try again, or leave out --serve")
