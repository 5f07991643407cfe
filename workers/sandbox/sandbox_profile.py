"""Turns what commands need into their confinement: level, uid, private folders, environment and network."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from forgepool.workers.sandbox import OWN_PREFIX
from forgepool.workers.sandbox.launch.cgroups import open_group
from forgepool.workers.sandbox.launch.readable_paths import toolchain_folders, toolchains
from forgepool.workers.sandbox.layers import NoSandbox, choose_level, lease_command_uid, prove_level
from forgepool.workers.sandbox.network.outlet import ProxyOutlet, open_outlet
from forgepool.workers.sandbox.network.package_access import PackageAccess
from forgepool.workers.sandbox.network.stand_in import Access
from forgepool.workers.sandbox.scratch import make_scratch
from forgepool.workers.schema.confinement import OPEN, Bounds, Confinement, Level
from forgepool.workers.schema.settings import Settings, inherit_environment

_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SAME_EVERYWHERE = {
    # A command behaves as on a person's machine without a terminal: no colours, no questions, no pager.
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "PYTHONDONTWRITEBYTECODE": "1",
    # An agent may call git itself: without any user's configuration, and with a name to commit under.
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    # As by `git -c`, which stands above files and above a GIT_CONFIG_COUNT of the command's own: git enters no bare
    # repository that it merely finds, and runs no program that a repository's own settings name for looking at files.
    "GIT_CONFIG_PARAMETERS": "'safe.bareRepository=explicit' 'core.fsmonitor=false'",
    "GIT_AUTHOR_NAME": "Forgepool agent",
    "GIT_AUTHOR_EMAIL": "agent@forgepool.invalid",
    "GIT_COMMITTER_NAME": "Forgepool agent",
    "GIT_COMMITTER_EMAIL": "agent@forgepool.invalid",
}

UNTRACED = {"ASAN_OPTIONS": "detect_leaks=0"}
"""The leak search stops the process to look at it, which a sandbox refuses: every such test would fail."""


def command_environment(base: Mapping[str, str], extra: Mapping[str, str], home: Path, tmp: Path) -> dict[str, str]:
    """
    Return the complete environment of a command.

    `base` is what the host lends (`settings.inherit_environment()`, an allow-list), `extra` what the task adds. A
    complete environment given as `base` stays unchanged. The folders are named here, not made.

    Raises:
        ValueError: `extra` sets one of Forgepool's own variables.
    """
    for name in extra:
        if name.startswith(OWN_PREFIX):
            raise ValueError(f"env: {name} is Forgepool's own; use a name that does not start with {OWN_PREFIX}")
    lent = {name: value for name, value in base.items() if name != "CI"}
    return {"PATH": _USUAL_PATH, "LANG": "C.UTF-8"} | lent | _SAME_EVERYWHERE | _folders(home, tmp) | dict(extra)


def _folders(home: Path, tmp: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "TMPDIR": str(tmp),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "XDG_RUNTIME_DIR": str(tmp),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelter:
    """
    The paths and hosts that the commands of one order or check need, apart from a home and a tmp. Real paths that
    exist.
    """

    settings: Settings
    writable: tuple[Path, ...]
    protected: tuple[Path, ...] = ()
    """Paths inside `writable` that must not change."""
    readable: tuple[Path, ...] = ()
    network: tuple[str, ...] = ()
    """The hosts they may reach; see `hosts`."""
    level: Level | None = None
    """Forces a level regardless of the settings, to compare levels."""


@contextmanager
def hold_sandbox(shelter: Shelter, home: Path, tmp: Path) -> Iterator[tuple[Confinement, dict[str, str]]]:
    """
    Yield the confinement and the variables it adds to the environment.

    Raises:
        NoSandbox: the wanted level, or the wanted network, cannot be had here.
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
            uid=stack.enter_context(lease_command_uid()),
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
    Yield the outlet to these hosts and the variables it adds to the environment.

    Raises:
        NoSandbox: the level cannot limit a command to these hosts.
    """
    if network and level != "bubblewrap":
        named = ", ".join(network)
        raise NoSandbox(f"the network hosts {named} are granted, which only bubblewrap can hold to; install bubblewrap")
    with open_outlet(network, access, tmp) as found:
        yield found


def _bounds(settings: Settings) -> Bounds:
    memory = settings.command_memory_mb
    return Bounds(
        memory_bytes=None if memory is None else memory * 1024**2,
        processes=settings.command_processes,
        file_bytes=settings.command_file_mb * 1024**2,
        disk_bytes=settings.command_disk_mb * 1024**2,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """Private folders, the complete environment of a command that uses them, and its confinement."""

    home: Path
    tmp: Path
    env: dict[str, str]
    confined: Confinement


@contextmanager
def private(extra: Mapping[str, str], shelter: Shelter | None) -> Iterator[Private]:
    """
    Make private folders and a confinement for the length of the block.

    `extra` is the task's part of the environment; `command_environment` says what it may not set. Without a shelter
    nothing is confined: this is for the user's own programs.

    Raises:
        NoSandbox: commands cannot be confined here as the settings want.
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
    Yield the same with network access to these hosts only, and to packages as this host has it when `lent`.

    Raises:
        NoSandbox: commands could not be limited to these hosts.
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
