"""A source file that a change adds lines to, as far as it runs."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from forgepool.supervisor.scans.languages.syntax import parse, walk
from forgepool.supervisor.scans.paths.protection import is_protected
from forgepool.supervisor.scans.source.bounded_parse import language_of
from forgepool.supervisor.scans.source.places import beside_tests, is_test
from forgepool.supervisor.scans.subject import Subject
from forgepool.worktrees.commits.diff import FileDiff, contents

if TYPE_CHECKING:
    from tree_sitter import Node

_OTHERS = frozenset(["rb", "php", "sh", "bash", "kt", "cs", "ex", "exs", "pl", "lua", "swift", "scala", "groovy", "mk"])
_HASH = re.compile(r"\s*#")
_SLASHES = re.compile(r"\s*(//|\*|/\*)")
_HASHED = frozenset(["python", "bash", None])
_LONGEST = 2_000
_SCRIPTS = frozenset(["__main__.py", "setup.py", "manage.py", "noxfile.py", "conf.py"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """A line that does what no part of a product has to do."""

    line: int
    text: str
    said: str
    certain: bool = True
    """No honest change is known that would hold such a line."""


@dataclass(frozen=True)
class ChangedProgram:
    """One file, its new text and the lines that are new in it."""

    file: FileDiff
    text: bytes
    language: str | None
    beside_init: bool
    """It is part of a Python package, and so imported."""

    @property
    def path(self) -> str:
        return self.file.path

    @cached_property
    def in_tests(self) -> bool:
        return beside_tests(self.path)

    @cached_property
    def is_script(self) -> bool:
        """Is it run by itself, and by nobody imported?"""
        name = self.path.rpartition("/")[2]
        run = self.text.startswith(b"#!") or self.file.mode == "100755"
        return name in _SCRIPTS or (run and not self.beside_init and not self.in_tests)

    @cached_property
    def is_helper(self) -> bool:
        """Is it a program that tests start, and none of them?"""
        name = self.path.rpartition("/")[2]
        return self.in_tests and not is_test(self.path) and name != "conftest.py" and b"__main__" in self.text

    @cached_property
    def lines(self) -> tuple[tuple[int, str], ...]:
        """The new lines that are no comments, with one blank for any number of them."""
        comment = _HASH if self.language in _HASHED else _SLASHES
        found = ((line.number, " ".join(line.text.split())[:_LONGEST]) for line in self.file.added)
        return tuple((number, text) for number, text in found if text and not comment.match(text))

    @cached_property
    def root(self) -> "Node | None":
        return parse(self.language, self.text) if self.language is not None else None

    def nodes(self, *types: str) -> "Iterator[Node]":
        """The nodes of these types that have a part in a new line."""
        return (node for node in self._new if node.type in types)

    @cached_property
    def _new(self) -> "list[Node]":
        if self.root is None:
            return []
        return [node for node in walk(self.root, into=self._is_new) if self._is_new(node)]

    def _is_new(self, node: "Node") -> bool:
        at = bisect_left(self._numbers, node.start_point.row + 1)
        return at < len(self._numbers) and self._numbers[at] <= node.end_point.row + 1

    @cached_property
    def _numbers(self) -> list[int]:
        return [line.number for line in self.file.added]


def programs(subject: Subject) -> Iterator[ChangedProgram]:
    """Every file that is a program, save those that are CI's own, and what nobody writes by hand."""
    files = [
        file
        for file in subject.read
        if file.added
        and file.path not in subject.same_code
        and file.mode.startswith("100")
        and not is_protected(file.path)
    ]
    texts = contents(subject.git, [file.id for file in files])
    for file in files:
        text = texts.get(file.id, b"")
        language = language_of(file.path, text)
        if language is not None or file.path.rpartition(".")[2] in _OTHERS:
            folder = file.path.rpartition("/")[0]
            init = f"{folder}/__init__.py" if folder else "__init__.py"
            yield ChangedProgram(file=file, text=text, language=language, beside_init=init in subject.new_paths)
