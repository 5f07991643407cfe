"""
A policy rule as it is matched, with its patterns for paths and hosts.

`document` reads rules and `layers` decides among them.
"""

import os
import re
import stat
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

from forgepool.workers.policy.command import CommandPattern
from forgepool.workers.sandbox.network.hosts import BadHost, host_name, split_port
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.policy_rules import Decision
from forgepool.workers.tools.files.listing import Glob, glob_pattern

UNKNOWN = "<unknown>"
"""The pattern for paths that only the shell will know."""
_WILD = re.compile(r"[*?\[{]")
_MOST_LOOKED_AT = 20_000
"""Files of the worktree looked at in search of another name of one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """A resolved path. Names in the worktree are relative to it (`.` is the worktree), others are absolute."""

    shown: str
    names: tuple[str, ...]
    """The path it leads to, then the path as written where that differs; empty where it cannot be known."""
    whole: bool = False
    """It stands for everything below it as well."""

    @property
    def is_known(self) -> bool:
        return bool(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """A path that leads nowhere that can be judged."""

    shown: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPattern:
    """A rule's glob. A plain name covers what lies below it as well."""

    text: str
    rank: tuple[int, int]
    """Literal paths rank above globs, then longer literal text above shorter."""
    _exact: tuple[Glob, ...] = field(default=(), repr=False)
    _folded: tuple[Glob, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, text: str, home: Path) -> Self:
        """
        Raises:
            ValueError: it is no glob; with the rest of a sentence.
        """
        if text == UNKNOWN:
            return cls(text=text, rank=(0, 0))
        if not text.strip() or "\0" in text or "\\" in text:
            raise ValueError("must be a glob over paths such as src/** or **/*.config.js, with / between folders")
        if ".." in text.split("/"):
            raise ValueError(f"must not hold '..', is '{text[:60]}'; write it from the repository's root, or from /")
        whole = _expanded(text, home)
        globs = tuple(glob_pattern(way) for way in _ways(whole))
        folded = tuple(glob_pattern(way) for way in _ways(fold(whole)))
        literal = len(_WILD.sub("", whole.replace("**/", "").replace("/**", "")))
        return cls(text=text, rank=(0 if _WILD.search(whole) else 1, literal), _exact=globs, _folded=folded)

    def permits(self, place: ResolvedPath) -> bool:
        """Report whether the pattern covers the place that the path leads to."""
        return place.is_known and _fits(self._exact, place.names[0])

    def restrains(self, place: ResolvedPath) -> bool:
        """
        Report whether the pattern covers the path as resolved or as written, or anything below that is meant as well.
        """
        return any(_fits(self._folded, fold(name)) or (place.whole and self._lies_below(name)) for name in place.names)

    def _lies_below(self, name: str) -> bool:
        head = fold(_WILD.split(self.text, maxsplit=1)[0].removeprefix("./"))
        if name == ".":
            return bool(head) and not head.startswith(("/", "~"))
        return head.startswith(f"{fold(name).rstrip('/')}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The worktree that paths are judged in, and the folders that `~` and `/tmp` stand for."""

    root: Path
    """The resolved path of the worktree."""
    home: Path
    tmp: Path | None = None
    """The folder that commands see as `/tmp`; None where that is not known."""

    def place(
        self, text: str, *, folder: Path | None = None, writes: bool = False, follow: bool = True, whole: bool = False
    ) -> ResolvedPath | Unresolved:
        """
        Resolve a path relative to `folder`, by default the worktree.

        `follow` is False for an action on a link itself. `whole` includes everything below the path.
        """
        if not text or "\0" in text:
            return Unresolved(shown=text, why="it is empty, or holds a NUL")
        written = os.path.join(folder or self.root, text)  # noqa: PTH118 - pathlib would take a final slash away
        try:
            real = Path(written).resolve() if follow else Path(written).parent.resolve() / Path(written).name
            if follow and writes and (why := self._also_elsewhere(real)) is not None:
                return Unresolved(shown=text, why=why)
        except (OSError, RuntimeError, ValueError) as trouble:
            return Unresolved(shown=text, why=getattr(trouble, "strerror", None) or "its links lead in a circle")
        names = (self._name(str(real)), self._name(os.path.normpath(written)))
        return ResolvedPath(shown=text, names=tuple(dict.fromkeys(names)), whole=whole)

    def _name(self, path: str) -> str:
        path = f"/{path.lstrip('/')}"  # normpath keeps two slashes
        root = str(self.root)
        if path == root:
            return "."
        return path[len(root) + 1 :] if path.startswith(f"{root}/") else path

    def _also_elsewhere(self, real: Path) -> str | None:
        """Return why a file with several names must not be written: a name may lie outside the worktree."""
        try:
            found = real.lstat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode) or found.st_nlink == 1 or not real.is_relative_to(self.root):
            return None
        inside = _names_of(self.root, (found.st_dev, found.st_ino))
        return None if inside >= found.st_nlink else "the file has another name outside the worktree; copy it first"


def unknown(shown: str) -> ResolvedPath:
    """Return a path that only the shell will know."""
    return ResolvedPath(shown=shown, names=())


@lru_cache(maxsize=65536)
def fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _expanded(text: str, home: Path) -> str:
    if text == "~" or text.startswith("~/"):
        return f"{home}{text[1:]}"
    return text.removeprefix("./") or "."


def _ways(text: str) -> list[str]:
    """Return the globs for a pattern: itself, what lies below it, and the folder it names."""
    plain = text.rstrip("/") or "/"
    if text.endswith("/"):
        return [plain, f"{plain.rstrip('/')}/**"]
    if plain.endswith("/**"):
        return [plain, plain.removesuffix("/**") or "/"]
    return [plain] if _WILD.search(plain.rpartition("/")[2]) else [plain, f"{plain}/**"]


def _fits(globs: tuple[Glob, ...], name: str) -> bool:
    """Report whether a glob matches: relative globs match paths inside the worktree, absolute ones those outside."""
    return any(glob.matches(name) for glob in globs if glob.ways[0][:1] == ("/",) or not name.startswith("/"))


def _names_of(root: Path, identity: tuple[int, int]) -> int:
    """Count the names of a file in the worktree, as far as the search goes."""
    found = looked = 0
    waiting = [str(root)]
    while waiting and looked < _MOST_LOOKED_AT:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                looked += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found += (status.st_dev, status.st_ino) == identity
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPattern:
    """A host (`packages.example.org`), the hosts below one (`*.example.org`) or all (`*`), with or without a port."""

    text: str
    name: str
    """The normalised name without `*.`; empty for every host."""
    below: bool
    port: int | None

    @classmethod
    def of(cls, text: str) -> Self:
        """
        Raises:
            ValueError: it is no host; with the rest of a sentence.
        """
        if text == "*":
            return cls(text=text, name="", below=True, port=None)
        try:
            host, port = split_port(text)
            below = host.startswith("*.")
            return cls(text=text, name=host_name(host[2:] if below else host), below=below, port=port)
        except BadHost as bad:
            raise ValueError(f"must be a host such as packages.example.org or *.example.org: {bad}") from bad

    @property
    def rank(self) -> tuple[int, int, int]:
        """Return how specific it is: exact above glob, longer above shorter, with a port above without."""
        return (0 if self.below else 1, len(self.name), 0 if self.port is None else 1)

    def covers(self, other: "HostPattern") -> bool:
        """Report whether this pattern includes every host of the other."""
        return self._covers_name(other) and self.port in (None, other.port)

    def meets(self, other: "HostPattern") -> bool:
        """Report whether both patterns include some host."""
        ports = self.port is None or other.port is None or self.port == other.port
        return ports and (self._covers_name(other) or other._covers_name(self))

    def _covers_name(self, other: "HostPattern") -> bool:
        if not self.below:
            return not other.below and self.name == other.name
        if not self.name:
            return True
        return other.name.endswith(f".{self.name}") or (other.below and other.name == self.name)


LayerName = Literal["built-in", "person", "repository", "plan", "phase"]

STRICTNESS: dict[Decision, int] = {"allow": 0, "audit": 1, "prompt": 2, "deny": 3}
SHELLS = frozenset({"bash", "bash_background", "confirm_red_phase"})
"""Tools that run shell commands. Rules for `bash` cover all of them."""
WRITERS = frozenset({"write_file", "edit_file", "apply_patch", "rename_symbol"})
READERS = frozenset({"read_file", "grep", "glob", "find_symbol", "find_references", "diagnostics"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """
    A rule. None matches anything; an empty value matches nothing.

    A rule with paths is about files only. With commands as well, it is about the files that such commands name.
    """

    layer: LayerName
    id: str
    """The name used in reports: the layer, then the rule's name or its file and line."""
    decision: Decision
    reason: str = ""
    phase: PhaseName | None = None
    tools: tuple[str, ...] | None = None
    """Names of tools, or globs over names."""
    paths: tuple[PathPattern, ...] | None = None
    commands: tuple[CommandPattern, ...] | None = None
    hosts: tuple[HostPattern, ...] | None = None
    variables: tuple[str, ...] | None = None
    """Globs over names of variables that a command sets."""

    @property
    def restrains(self) -> bool:
        return self.decision in ("prompt", "deny")

    @property
    def subject(self) -> Literal["tools", "commands", "files", "hosts", "variables"]:
        """Return the kind of thing it is about. A rule about tools alone covers all they do."""
        if self.hosts is not None:
            return "hosts"
        if self.variables is not None:
            return "variables"
        if self.paths is not None:
            return "files"
        return "tools" if self.commands is None else "commands"


def strictest(first: Decision, second: Decision) -> Decision:
    return first if STRICTNESS[first] >= STRICTNESS[second] else second
