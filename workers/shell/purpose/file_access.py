"""What an exchange leaves behind: which lines of which files were shown, which files were written."""

import ast
import fnmatch
import posixpath
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Action = Literal["read", "write", "search", "test", "build", "run", "end"]
"""
Of an exchange: what it is for. A shell command that does several counts as the first of write, test, build, search,
read that any part of it does; `run` is what is none of them; `end` ends a conversation or concerns it. Compilers, type
checkers and linters build. What cuts or filters another's output has no part of its own in it, and tests whose output
is kept in a file are tests, though the file is among the writes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    path: str
    """Normalised; below the worktree where it lies there. `cat src/*.py` is a read of a pattern."""
    first: int | None = None
    last: int | None = None
    """Lines, from 1; None where all of the file, or what is not known, was asked for."""
    part: bool = False
    """Not the file as it stands: lines that are not known (its end, those that match), or changed on the way."""

    @property
    def whole(self) -> bool:
        return self.first is None and self.last is None and not self.part


How = Literal["create", "edit", "delete", "move", "shell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    path: str
    """
    As of `Read`. A folder stands for all below it, and `.` for all files, where a command names no more (`git stash`);
    `*` and `?` are patterns. `touches` reads it so.
    """
    how: How
    """`create` writes all of a file's text, new or not; `shell` is whatever a command did to it."""
    characters: int | None = None
    """Of the text that was written, as far as it is known."""


def touches(write: Write, path: str) -> bool:
    """Whether the file at that path may be another after it."""
    if write.path in (path, ".") or path.startswith(f"{write.path}/"):
        return True
    return any(mark in write.path for mark in "*?[") and fnmatch.fnmatchcase(path, write.path)


def normal_path(path: str, root: str = "") -> str:
    """One spelling for one file: `./a//b/../c.py` and `<root>/a/c.py` are `a/c.py`. Links are not followed."""
    plain = posixpath.normpath(path.strip()) if path.strip() else ""
    inside = f"{root.rstrip('/')}/"
    return plain.removeprefix(inside) if root else plain


_LONGEST = 40_000
_CHANGING = frozenset("wax+")
_WRITERS = frozenset(["write_text", "write_bytes", "touch"])
_REMOVERS = frozenset(["remove", "unlink", "rmtree"])
_MOVERS = frozenset(["move", "rename", "replace"])
_COPIERS = frozenset(["copy", "copyfile", "copy2", "copytree"])
_OPENED = re.compile(r"""open\(\s*[rbfu]?(['"])([^'"\n]+)\1\s*,\s*(?:mode\s*=\s*)?(['"])[rwabxt+]*[wax+][rwabxt+]*\3""")
_GIT_FILES = re.compile(r"^(?:\+\+\+|---) (?:[ab]/)?([^\t\n]+)", re.MULTILINE)
_OWN_FILES = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_OWN_HOW: Mapping[str, How] = {"Add": "create", "Update": "edit", "Delete": "delete", "": "move"}


def python_writes(text: str) -> tuple[Write, ...]:
    """Files that a script opens to write, removes or moves, by names that stand in it or in its plain assignments."""
    if not re.search(r"open|write_|touch|remove|unlink|rmtree|shutil|rename", text):
        return ()
    if len(text) > _LONGEST:
        return _opened(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _opened(text)
    names: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        for name, value in _bound(node):
            names.setdefault(name, set()).update(_paths(value, names))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return tuple(dict.fromkeys(write for call in calls for write in _written(call, names)))


def patch_writes(text: str) -> tuple[Write, ...]:
    """Files that a patch names: one of git's and of `diff -u`, or one between `*** Begin Patch` and its end."""
    own = [Write(path=(path or moved).strip(), how=_OWN_HOW[verb]) for verb, path, moved in _OWN_FILES.findall(text)]
    if own:
        return tuple(dict.fromkeys(own))
    found = (path.strip() for path in _GIT_FILES.findall(text))
    return tuple(dict.fromkeys(Write(path=path, how="shell") for path in found if path != "/dev/null"))


def _opened(text: str) -> tuple[Write, ...]:
    """Of what is not read as Python."""
    return tuple(dict.fromkeys(Write(path=match[1], how="shell") for match in _OPENED.findall(text)))


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """`p = 'a.py'`, `for p in ['a.py', 'b.py']`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.For(target=ast.Name(id=name), iter=ast.List(elts=values) | ast.Tuple(elts=values)):
            yield from ((name, value) for value in values)


def _paths(value: ast.expr | None, names: Mapping[str, set[str]]) -> set[str]:
    match value:
        case ast.Constant(value=str(text)) if text and "\n" not in text and len(text) < 300:
            return {text}
        case ast.Name(id=name):
            return names.get(name, set())
        case ast.Call(func=ast.Name(id="Path") | ast.Attribute(attr="Path"), args=[inner]):
            return _paths(inner, names)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return {f"{one.rstrip('/')}/{two}" for one in _paths(left, names) for two in _paths(right, names)}
    return set()


def _written(call: ast.Call, names: Mapping[str, set[str]]) -> Iterator[Write]:
    match call.func:
        case ast.Name(id="open") if _mode(call, 1) & _CHANGING:
            yield from _writes(call.args[:1], names)
        case ast.Attribute(attr="open", value=value) if not _is_module(value) and _mode(call, 0) & _CHANGING:
            yield from _writes([value], names)
        case ast.Attribute(attr=name, value=value) if name in _WRITERS:
            yield from _writes([value], names)
        case ast.Attribute(attr=name, value=value) if name in _REMOVERS:
            yield from _writes(call.args[:1] if _is_module(value) else [value], names, "delete")
        case ast.Attribute(attr=name, value=value) if name in _MOVERS and _is_module(value):
            yield from _writes(call.args[:2], names, "move")
        case ast.Attribute(attr=name, value=value) if name in _COPIERS and _is_module(value):
            yield from _writes(call.args[1:2], names, "create")


def _writes(values: list[ast.expr], names: Mapping[str, set[str]], how: How = "shell") -> Iterator[Write]:
    for value in values:
        yield from (Write(path=path, how=how) for path in sorted(_paths(value, names)))


def _is_module(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("os", "shutil", "io", "codecs")


def _mode(call: ast.Call, at: int) -> set[str]:
    given = [word.value for word in call.keywords if word.arg == "mode"] or call.args[at : at + 1]
    match given:
        case [ast.Constant(value=str(text))]:
            return set(text)
    return set()
