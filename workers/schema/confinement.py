"""
The limits a command runs under. Every command carries one, so that none runs unconfined by mistake.

`workers.sandbox` enforces them.
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

Level = Literal["bubblewrap", "landlock", "seatbelt", "off"]
"""
The sandbox that holds commands. Linux falls back to `landlock` where `bubblewrap` is missing; macOS uses `seatbelt`.
"""

LEVEL_WORDS: Mapping[Level, str] = {
    "bubblewrap": "commands run in bubblewrap",
    "seatbelt": "commands run in macOS' sandbox",
    "landlock": "commands are held by Landlock and seccomp, which is weaker than bubblewrap (see forgepool doctor)",
    "off": "commands run with your own rights, no sandbox holds them",
}
"""Descriptions for people, each fit to end a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The resources one command may use."""

    memory_bytes: int | None = None
    """Data of each process, and of all processes together where a control group counts them."""
    processes: int = 4096
    """Processes of the user id, or of the order where a control group counts them."""
    file_bytes: int = 8 * 1024**3
    """The length of the longest file it may write."""
    disk_bytes: int = 32 * 1024**3
    """The size of all files together that its order's commands make."""
    open_files: int = 16_384
    shared_bytes: int = 1024**3
    """Size of the command's own /dev/shm; only with `bubblewrap`."""


class Outlet(Protocol):
    """A server outside the sandbox behind ports of a command's own loopback."""

    @property
    def ports(self) -> tuple[int, ...]: ...

    def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Take one listening socket for each port and own it until `release`."""

    def release(self, listeners: Sequence[socket.socket]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The limits of one command. All folders exist and are real paths."""

    level: Level
    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    """Read-only folders inside writable ones; only with `bubblewrap` and `seatbelt`."""
    readable: tuple[Path, ...] = ()
    """Folders it may read in addition to programs, libraries and certificates."""
    tools: tuple[Path, ...] = ()
    """Folders of programs in addition to those on its PATH."""
    mounted: tuple[tuple[Path, Path], ...] = ()
    """
    Folders, each with the writable place where it appears read-only; only with `bubblewrap`. A place that holds
    something else by then stays as it is.
    """
    tmp: Path | None = None
    """The writable folder that appears as `/tmp`; only with `bubblewrap`."""
    home: Path | None = None
    uid: int | None = None
    """The user id of the command where the harness is root. Files still belong to the harness on disk."""
    bounds: Bounds = field(default_factory=Bounds)
    groups: tuple[Path, ...] = ()
    """The `cgroup.procs` files of the control groups it joins."""
    outlet: Outlet | None = None
    """The way to the hosts it may reach; None is no network. Only with `bubblewrap`."""


OPEN = Confinement(level="off")
"""No limits: for programs that a person chose to run with their own rights, and for the setting `off`."""


def as_json(confined: Confinement) -> dict[str, Any]:
    """Return the limits for another process of Forgepool, without the outlet."""
    fields = asdict(replace(confined, outlet=None))
    return {name: _texts(value) for name, value in fields.items()}


def from_json(fields: Mapping[str, Any]) -> Confinement:
    return Confinement(
        level=fields["level"],
        writable=tuple(map(Path, fields["writable"])),
        protected=tuple(map(Path, fields["protected"])),
        readable=tuple(map(Path, fields["readable"])),
        tools=tuple(map(Path, fields["tools"])),
        mounted=tuple((Path(source), Path(place)) for source, place in fields["mounted"]),
        tmp=Path(fields["tmp"]) if fields["tmp"] else None,
        home=Path(fields["home"]) if fields["home"] else None,
        uid=fields["uid"],
        bounds=Bounds(**fields["bounds"]),
        groups=tuple(map(Path, fields["groups"])),
    )


def _texts(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_texts(each) for each in value]
    return str(value) if isinstance(value, Path) else value
