"""
From what commands need to what holds them: the level this host is capable of, a uid, the way out.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from forgepool.workers.sandbox.environment import UNTRACED, command_environment
from forgepool.workers.sandbox.launch.cgroups import open_group
from forgepool.workers.sandbox.launch.readable_paths import toolchain_folders, toolchains
from forgepool.workers.sandbox.layers import NoSandbox, choose_level, prove_level, somebody
from forgepool.workers.sandbox.network.outlet import ProxyOutlet, way_out
from forgepool.workers.sandbox.network.package_access import PackageAccess
from forgepool.workers.sandbox.network.stand_in import Access
from forgepool.workers.sandbox.scratch import make_scratch
from forgepool.workers.schema.confinement import OPEN, Bounds, Confinement, Level
from forgepool.workers.schema.settings import Settings, inherit_environment


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """The folders, the complete environment of a command that is to use them, and what holds it."""

    home: Path
    tmp: Path
    env: dict[str, str]
    confined: Confinement


@contextmanager
def private(extra: Mapping[str, str], shelter: Shelter | None) -> Iterator[Private]:
    """
    `extra` is what the task adds to the environment; see `command_environment` for what it may not. Without a shelter
    nothing is held: for the person's own programs.

    Raises:
        NoSandbox: commands cannot be held here as the settings want it.
    """
    with ExitStack() as held:
        folder = held.enter_context(make_scratch())
        home, tmp = folder / "home", folder / "tmp"
        home.mkdir()
        tmp.mkdir()
        lent = inherit_environment()
        found = toolchains(lent)
        lent |= {name: str(path) for name, path in found.items()}
        confined, more = held.enter_context(hold_sandbox(shelter, home, tmp)) if shelter else (OPEN, {})
        if confined.level != "off":
            confined = replace(confined, tools=toolchain_folders(found))
            lent |= UNTRACED
        env = command_environment(lent, extra, home, tmp) | more
        yield Private(home=home, tmp=tmp, env=env, confined=confined)


@contextmanager
def let_out(own: Private, network: Sequence[str], lent: PackageAccess | None = None) -> Iterator[Private]:
    """
    The same, and commands may reach these hosts, and no others; of packages as this host does, where that is `lent`.

    Raises:
        NoSandbox: they could not be held to these.
    """
    if not network or own.confined.level == "off":
        yield own
        return
    access = lent.access if lent is not None else None
    with open_way_out(network, own.confined.level, access, own.tmp) as (outlet, more):
        if lent is not None:
            lent.write_files(own.home)
            more |= lent.variables
        yield replace(own, env=own.env | more, confined=replace(own.confined, outlet=outlet))
