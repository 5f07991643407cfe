"""
What one order's or one check's commands have for themselves: a home, a tmp, an environment that names them, and the
sandbox around them. Gone with the block.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from forgepool.workers.sandbox.launch.readable_paths import toolchain_folders, toolchains
from forgepool.workers.sandbox.network.package_access import PackageAccess
from forgepool.workers.sandbox.order.environment import UNTRACED, command_environment
from forgepool.workers.sandbox.order.sandbox_profile import Shelter, hold_sandbox, open_way_out
from forgepool.workers.sandbox.processes.scratch import make_scratch
from forgepool.workers.schema.confinement import OPEN, Confinement
from forgepool.workers.schema.settings import inherit_environment


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
