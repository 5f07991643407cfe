"""
From what commands need to what holds them: the level this host is capable of, a uid, the way out.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.sandbox.launch.cgroups import open_group
from forgepool.workers.sandbox.network.outlet import ProxyOutlet, way_out
from forgepool.workers.sandbox.network.proxy.stand_in import Access
from forgepool.workers.sandbox.order.layers import NoSandbox, choose_level, prove_level, somebody
from forgepool.workers.schema.confinement import OPEN, Bounds, Confinement, Level
from forgepool.workers.schema.settings import Settings


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
    level: Level | None = None
    """To be held by this one, whatever the settings want; for who compares levels."""


@contextmanager
def hold_sandbox(shelter: Shelter, home: Path, tmp: Path) -> Iterator[tuple[Confinement, dict[str, str]]]:
    """
    What holds the commands, and what that adds to their environment.

    Raises:
        NoSandbox: they cannot be held, or not be let out, as it is wanted.
    """
    level = choose_level(shelter.settings.sandbox) if shelter.level is None else prove_level(shelter.level)
    if level == "off":
        yield OPEN, {}
        return
    with ExitStack() as stack:
        outlet, env = stack.enter_context(open_way_out(shelter.network, level))
        bounds = _bounds(shelter.settings)
        confined = Confinement(
            level=level,
            writable=(*shelter.writable, home, tmp),
            protected=shelter.protected,
            readable=shelter.readable,
            tmp=tmp,
            home=home,
            uid=stack.enter_context(somebody()),
            outlet=outlet,
            bounds=bounds,
            groups=stack.enter_context(open_group(bounds)),
        )
        yield confined, env


@contextmanager
def open_way_out(
    network: Sequence[str], level: Level, access: Access | None = None, tmp: Path | None = None
) -> Iterator[tuple[ProxyOutlet | None, dict[str, str]]]:
    """
    The way out to these hosts, and what that adds to the environment.

    Raises:
        NoSandbox: the level could not hold to it.
    """
    if network and level != "bubblewrap":
        named = ", ".join(network)
        raise NoSandbox(f"the network hosts {named} are granted, which only bubblewrap can hold to; install bubblewrap")
    with way_out(network, access, tmp) as found:
        yield found


def _bounds(settings: Settings) -> Bounds:
    memory = settings.command_memory_mb
    return Bounds(
        memory_bytes=None if memory is None else memory * 1024**2,
        processes=settings.command_processes,
        file_bytes=settings.command_file_mb * 1024**2,
    )
