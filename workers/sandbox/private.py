"""A home and a tmp for one order's or one check's commands alone, gone with it, and the environment that names them."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workers.sandbox.environment import command_environment
from workers.settings import inherited_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """The folders, and the complete environment of a command that is to use them."""

    home: Path
    tmp: Path
    env: dict[str, str]


@contextmanager
def private(extra: Mapping[str, str]) -> Iterator[Private]:
    """`extra` is what the task adds to the environment; see `command_environment` for what it may not."""
    folder = Path(tempfile.mkdtemp(prefix="private-"))
    try:
        home, tmp = folder / "home", folder / "tmp"
        home.mkdir()
        tmp.mkdir()
        yield Private(home=home, tmp=tmp, env=command_environment(inherited_environment(), extra, home, tmp))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
