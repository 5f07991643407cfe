"""
What an attempt to escape is: what it does inside, how its effect is seen from outside, which layers stop it.

Each module of attempts is one area. They are read twice: inside, where they are carried out, with nothing but the
standard library; and outside, where the table of them is what the tests go by.
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
`door` is `process.run` itself: an environment built up from nothing, no descriptors, a session, the end of the tree.
bubblewrap's are the `user` namespace, a `root` of what is named, and the namespaces of `pids`, `network`, `ipc`; with
`seccomp`, Landlock's `scope` and resource `limits` they are the first choice. The fallback's are Landlock's `files` and
the stricter `filter`. `uid` is that of commands of a harness that is root.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What an attempt knows of what it is after: all it could have found out, and no secret."""

    name: str
    """The attempt's; also what it tells whoever it reaches."""
    folder: str
    """Everything else is below it."""
    worktree: str
    outside: str
    """A folder of the user's. In `canaries` there is a file for each attempt, which is to stay as it is."""
    home: str
    """The user's."""
    mirror: str
    admin: str
    """Where the worktree's `.git` file leads."""
    hub: str
    other_worktree: str
    other_admin: str
    other_tmp: str
    harness: int
    """A pid; its working folder is `folder`."""
    witness: int
    """The pid of a process with secrets in its environment, command line, memory and in an open file."""
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
    """Of the canary `open_by_handle`: type and hexadecimal digits."""

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
"""Whether an attempt has reached what it was after, as seen from outside; given are its name and what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    name: str
    area: str
    carry_out: Callable[[Stage], object]
    """What it answers is what it says; an `OSError` is a refusal."""
    succeeded: Check
    stopped_by: frozenset[Layer]
    """Each of them alone suffices; where none of them is, it succeeds."""
    perhaps: frozenset[Layer]
    """Stop it with some kernels."""
    needs_root: bool
    """Whoever is not root could not do it without any sandbox either."""
    may_be_idle: str | None
    """Why some hosts stop it without any sandbox: then it proves nothing there."""


ATTEMPTS: dict[str, Attempt] = {}


def attempt(
    *stopped_by: Layer,
    seen: Check,
    perhaps: tuple[Layer, ...] = (),
    needs_root: bool = False,
    may_be_idle: str | None = None,
) -> Callable[[Callable[[Stage], object]], Callable[[Stage], object]]:
    """Puts what is carried out into the table, under its own name."""

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
