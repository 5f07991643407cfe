"""
What a command is held by: a value that every command carries, so that none is run unconfined by oversight.

How a level is carried out is not here: `bubblewrap` writes bwrap's arguments, `launcher` prepares the process.
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

Level = Literal["bubblewrap", "landlock", "seatbelt", "off"]
"""`bubblewrap` and, on macOS, `seatbelt` are first choices; `landlock` is the fallback of Linux."""

LEVEL_WORDS: Mapping[Level, str] = {
    "bubblewrap": "commands run in bubblewrap",
    "seatbelt": "commands run in macOS' sandbox",
    "landlock": "commands are held by Landlock and seccomp, which is weaker than bubblewrap (see forgepool doctor)",
    "off": "commands run with your own rights, no sandbox holds them",
}
"""For people, as the end of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one command may use up."""

    memory_bytes: int | None = None
    """Of data in each process, and of all of them together where there is a control group."""
    processes: int = 4096
    """Of all that runs under the uid; of one order where there is a control group."""
    file_bytes: int = 8 * 1024**3
    """The longest file it may write."""
    open_files: int = 16_384
    shared_bytes: int = 1024**3
    """In /dev/shm, which is the command's own; only with `bubblewrap`."""


class Outlet(Protocol):
    """Serves, from outside, ports of a command's own loopback."""

    @property
    def ports(self) -> tuple[int, ...]: ...

    def serve(self, listeners: Sequence[socket.socket]) -> None:
        """One listening socket for each port; they are the outlet's from now on, until `release`."""

    def release(self, listeners: Sequence[socket.socket]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The folders are real paths, and exist."""

    level: Level
    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    """Inside what is writable, and read-only all the same; only with `bubblewrap` and `seatbelt`."""
    readable: tuple[Path, ...] = ()
    """Beside what every command may read: programs, libraries, certificates."""
    tools: tuple[Path, ...] = ()
    """Folders of programs, beside those that its PATH leads to."""
    mounted: tuple[tuple[Path, Path], ...] = ()
    """Folders, each with the place inside what is writable at which it is to be seen, read-only; only with
    `bubblewrap`. Where something else has come to stand at the place, that is left as it is."""
    tmp: Path | None = None
    """Is also `/tmp`, only with `bubblewrap`; one of the writable folders."""
    home: Path | None = None
    uid: int | None = None
    """Whom the command runs as where the harness is root; files stay the harness' own on disk."""
    bounds: Bounds = field(default_factory=Bounds)
    groups: tuple[Path, ...] = ()
    """Files `cgroup.procs` of the control groups it joins."""
    outlet: Outlet | None = None
    """The way to the hosts it may reach; without one there are none. Only with `bubblewrap`."""


OPEN = Confinement(level="off")
"""Nothing is held: for programs the person chose to run with their own rights, and where they said `off`."""


def as_json(confined: Confinement) -> dict[str, Any]:
    """For another process of ours. The outlet stays here."""
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
