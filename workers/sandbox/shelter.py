"""
From what commands need to what holds them: the level this host is capable of, a uid, the way out.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from workers.sandbox.confinement import OPEN, Bounds, Confinement
from workers.sandbox.layers import NoSandbox, chosen, somebody
from workers.sandbox.outlet import way_out
from workers.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelter:
    """What one order's or one check's commands need beside a home and a tmp. Real paths that exist."""

    settings: Settings
    writable: tuple[Path, ...]
    protected: tuple[Path, ...] = ()
    """Inside what is writable, and not to be changed."""
    readable: tuple[Path, ...] = ()
    network: tuple[str, ...] = ()
    """Hosts they may reach; see `hosts`."""


@contextmanager
def sheltered(shelter: Shelter, home: Path, tmp: Path) -> Iterator[tuple[Confinement, dict[str, str]]]:
    """
    What holds the commands, and what that adds to their environment.

    Raises:
        NoSandbox: they cannot be held, or not be let out, as it is wanted.
    """
    level = chosen(shelter.settings.sandbox)
    if level == "off":
        yield OPEN, {}
        return
    if shelter.network and level != "bubblewrap":
        named = ", ".join(shelter.network)
        raise NoSandbox(f"the network hosts {named} are granted, which only bubblewrap can hold to; install bubblewrap")
    with ExitStack() as stack:
        outlet, env = stack.enter_context(way_out(shelter.network))
        confined = Confinement(
            level=level,
            writable=(*shelter.writable, home, tmp),
            protected=shelter.protected,
            readable=shelter.readable,
            tmp=tmp,
            home=home,
            uid=stack.enter_context(somebody()),
            outlet=outlet,
            bounds=_bounds(shelter.settings),
        )
        yield confined, env


def _bounds(settings: Settings) -> Bounds:
    memory = settings.command_memory_mb
    return Bounds(
        memory_bytes=None if memory is None else memory * 1024**2,
        processes=settings.command_processes,
        file_bytes=settings.command_file_mb * 1024**2,
    )
