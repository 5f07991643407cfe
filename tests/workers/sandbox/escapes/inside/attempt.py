"""
The parts of an escape attempt: its action inside, the check of its effect from outside, and the layers that stop it.

Each module of attempts is one area, and is read twice. Inside, the attempts are carried out with only the standard
library. Outside, the tests use their table.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from surroundings import World

# fmt: off
Layer = Literal[
    "door", "user", "root", "pids", "network", "ipc", "seccomp", "scope", "limits", "files", "filter", "keeper", "uid",
]
# fmt: on
"""
`door` is `process.run` itself: a new environment, no inherited descriptors, a session, and the end of the whole tree.

bubblewrap's layers are the `user` namespace, a `root` with only the named files, and the namespaces `pids`, `network`
and `ipc`. The first choice adds `seccomp`, Landlock's `scope` and resource `limits`.

The fallback's layers are Landlock's `files` and the stricter `filter`. `uid` belongs to commands of a harness that is
root.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The targets as an attempt knows them: all that it could have found out, and no secret."""

    name: str
    """The attempt's name, which it also says to any listener it reaches."""
    folder: str
    """Folder that contains everything else."""
    worktree: str
    outside: str
    """A folder of the user. Its `canaries` has a file for each attempt, which must not change."""
    home: str
    """The user's home."""
    mirror: str
    admin: str
    """Folder that the worktree's `.git` file points to."""
    hub: str
    other_worktree: str
    other_admin: str
    other_tmp: str
    harness: int
    """The pid of the harness, whose working folder is `folder`."""
    witness: int
    """The pid of a process with secrets in its environment, command line, memory and an open file."""
    witness_address: int
    witness_file: int
    """The number of its descriptor for a file without a name."""
    victims: dict[str, int]
    """Pids, each for one attempt to harm."""
    canary_descriptors: dict[str, int]
    ports: dict[str, int]
    sockets: dict[str, str]
    terminals: dict[str, str]
    segment: int
    """The id of a System V shared memory segment."""
    shared: str
    """The name of a file in /dev/shm and in /tmp, and of a message queue."""
    key: int
    """The serial number of a key in the user's keyring."""
    handle: tuple[int, str]
    """Type and hexadecimal digits of the file handle of the canary `open_by_handle`."""

    @property
    def canary(self) -> str:
        return f"{self.outside}/canaries/{self.name}"

    def inside(self, name: str) -> str:
        return f"{self.worktree}/{self.name}.{name}"

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))


def read_stage(path: str) -> Stage:
    fields: dict[str, Any] = json.loads(Path(path).read_text())
    return Stage(**fields)


Check = Callable[["World", str, Any], bool]
"""A check from outside whether an attempt has succeeded, given its name and what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    name: str
    area: str
    carry_out: Callable[[Stage], object]
    """Returns what the attempt says; an `OSError` is a refusal."""
    succeeded: Check
    stopped_by: frozenset[Layer]
    """Layers that stop it, each of them alone. Without any of them it succeeds."""
    perhaps: frozenset[Layer]
    """Layers that stop it on some kernels."""
    needs_root: bool
    """True if only root could do it without a sandbox."""
    may_be_idle: str | None
    """The reason why some hosts stop it without any sandbox, so that it proves nothing there."""


ATTEMPTS: dict[str, Attempt] = {}


def attempt(
    *stopped_by: Layer,
    seen: Check,
    perhaps: tuple[Layer, ...] = (),
    needs_root: bool = False,
    may_be_idle: str | None = None,
) -> Callable[[Callable[[Stage], object]], Callable[[Stage], object]]:
    """Put the function into the table under its own name."""

    def put(carry_out: Callable[[Stage], object]) -> Callable[[Stage], object]:
        name = carry_out.__name__
        assert name not in ATTEMPTS, name
        ATTEMPTS[name] = Attempt(
            name=name,
            area=carry_out.__module__,
            carry_out=carry_out,
            succeeded=seen,
            stopped_by=frozenset(stopped_by),
            perhaps=frozenset(perhaps),
            needs_root=needs_root,
            may_be_idle=may_be_idle,
        )
        return carry_out

    return put
