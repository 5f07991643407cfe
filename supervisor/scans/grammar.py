"""
Sources read by grammar: what of a file is comment, what is string, what is code.

Where there is no grammar for a language, or a file is too much for one, `lexicon` tells comments and strings apart.

Why the bounds: grammars are C code that was written for honest files. Deep nesting takes down the whole process, and
some take minutes for a few kilobytes of nonsense. What they do is counted, not timed: the same file has the same answer
on every host.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from supervisor.results.test_paths import is_test_path
from supervisor.scans.lexicon import Piece, lexed
from supervisor.scans.subject import Subject
from worktrees.diff import FileDiff, contents

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query

_GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "bash": ("tree_sitter_bash", "language"),
}
_SUFFIXES = {
    **dict.fromkeys(("py", "pyi", "pyw"), "python"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), "javascript"),
    **dict.fromkeys(("ts", "mts", "cts"), "typescript"),
    "tsx": "tsx",
    "go": "go",
    "rs": "rust",
    "java": "java",
    **dict.fromkeys(("sh", "bash"), "bash"),
}
_INTERPRETERS = {b"python": "python", b"node": "javascript", b"bash": "bash", b"sh": "bash", b"deno": "typescript"}
_SCRIPT = ("comment", "string_fragment", "escape_sequence", "regex_pattern")
_PIECES = {
    "python": ("comment", "string_content"),
    "javascript": (*_SCRIPT, "jsx_text", "html_comment"),
    "typescript": (*_SCRIPT, "html_comment"),
    "tsx": (*_SCRIPT, "jsx_text", "html_comment"),
    "go": ("comment", "interpreted_string_literal", "raw_string_literal", "rune_literal"),
    "rust": ("line_comment", "block_comment", "string_literal", "raw_string_literal", "char_literal"),
    "java": ("line_comment", "block_comment", "string_literal", "character_literal"),
    "bash": ("comment", "string_content", "raw_string", "ansi_c_string", "heredoc_content"),
}
_MOST_PARSED = 250_000
_MOST_PARSED_IN_ALL = 16_000_000
_MOST_OPENED = 50_000
"""Brackets of all kinds."""
_STACK = 128 << 20
"""Bytes. In the usual eight megabytes there is room for some hundred thousand signs, each nested in the one before."""
_STACKS = threading.Lock()
"""How large a thread's stack becomes is said for the whole process."""
_MOST_READ = 20
"""Times that a text may be read in all; one that people wrote is read twice."""
_MOST_STEPS = 50
"""For a thousand bytes, as a grammar counts them; what people write takes five to twenty."""
_AT_A_TIME = 4_096


@dataclass
class _Allowance:
    """What a grammar may still do with one text."""

    read: int
    steps: int


class Remark(NamedTuple):
    """One line of a comment, or of a string, that was added."""

    line: int
    text: str
    string: bool = False


@dataclass(frozen=True)
class Source:
    """A file's new text, read once for all rules. What is asked of it concerns the added lines alone."""

    file: FileDiff
    text: bytes
    language: str | None
    """The grammar's."""
    parsed: bool = True
    """There is still room for it in what is parsed of one change."""

    @cached_property
    def in_test(self) -> bool:
        return is_test_path(self.file.path)

    @cached_property
    def numbers(self) -> list[int]:
        """Of the added lines."""
        return [line.number for line in self.file.added]

    @cached_property
    def root(self) -> "Node | None":
        """The file's tree; None where there is no grammar for it, or it is too much for the grammar."""
        return parse(self.language, self.text) if self.language and self.parsed else None

    @cached_property
    def too_much(self) -> bool:
        """Is there a grammar that cannot be asked?"""
        return self.language is not None and self.root is None

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Comments and strings, in the order of the text."""
        if self.root is None or self.language is None:
            return tuple(lexed(self.file.path, self.text))
        nodes = self._captured(*_PIECES[self.language])
        found = (Piece(node.start_byte, node.end_byte, "comment" not in node.type) for node in nodes)
        return tuple(sorted(found))

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """The added lines of comments and strings, apart from the code around them."""
        return tuple(self._remarks())

    @property
    def comments(self) -> Iterator[Remark]:
        """The added lines of comments."""
        return (remark for remark in self.remarks if not remark.string)

    def nodes(self, *types: str) -> "Iterator[Node]":
        """The nodes of these types that an added line has a part in."""
        return (node for node in self._captured(*types) if self._is_added(node))

    def written(self, node: "Node") -> bytes:
        """
        A node's text. Its own attribute is not for this: it asks the reader that the tree was parsed by, sign by sign.
        """
        return self.text[node.start_byte : node.end_byte]

    def adds(self, number: int) -> bool:
        """Is this line of the new file an added one?"""
        at = bisect_left(self.numbers, number)
        return at < len(self.numbers) and self.numbers[at] == number

    def code(self, number: int) -> str:
        """One line of the new text, its comments and strings blanked out."""
        start, end = self._lines[number - 1], self._lines[number]
        line = bytearray(self.text[start:end].rstrip(b"\r\n"))
        for piece in self._touching(start, end):
            first, last = max(piece.start, start) - start, min(piece.end, end, start + len(line)) - start
            line[first:last] = b" " * max(0, last - first)
        return line.decode("utf-8", "backslashreplace")

    def _touching(self, start: int, end: int) -> Iterator[Piece]:
        at = max(0, bisect_left(self.pieces, (start, 0, False)) - 1)
        while at < len(self.pieces) and self.pieces[at].start < end:
            if self.pieces[at].end > start:
                yield self.pieces[at]
            at += 1

    def _remarks(self) -> Iterator[Remark]:
        lines = self._lines
        for piece in self.pieces:
            row = bisect_left(lines, piece.start + 1) - 1
            text = self.text[piece.start : piece.end]
            if not self._any_added(row + 1, row + 1 + text.count(b"\n")):
                continue
            for number, line in enumerate(text.split(b"\n"), start=row + 1):
                if self.adds(number):
                    yield Remark(number, line.decode("utf-8", "backslashreplace"), piece.string)

    @cached_property
    def _lines(self) -> list[int]:
        """Where each line begins, in bytes; and where the text ends."""
        starts, at = [0], self.text.find(b"\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find(b"\n", at + 1)
        return [*starts, len(self.text)]

    def _captured(self, *types: str) -> "list[Node]":
        from tree_sitter import QueryCursor

        if self.root is None or self.language is None or not self.numbers:
            return []
        cursor = QueryCursor(_query(self.language, types))
        last = min(self.numbers[-1], len(self._lines) - 1)
        cursor.set_byte_range(self._lines[self.numbers[0] - 1], self._lines[last])
        return cursor.captures(self.root).get("it", [])

    def _is_added(self, node: "Node") -> bool:
        return self._any_added(node.start_point.row + 1, node.end_point.row + 1)

    def _any_added(self, first: int, last: int) -> bool:
        at = bisect_left(self.numbers, first)
        return at < len(self.numbers) and self.numbers[at] <= last


def sources(subject: Subject) -> tuple[Source, ...]:
    """The files with added lines, save links, submodules and what nobody writes by hand."""
    files = [file for file in subject.read if file.added and file.mode.startswith("100")]
    texts = contents(subject.git, (file.id for file in files))
    left = _MOST_PARSED_IN_ALL
    found = []
    for file in files:
        if file.id in texts:
            left -= len(texts[file.id])
            language = language_of(file.path, texts[file.id])
            found.append(Source(file=file, text=texts[file.id], language=language, parsed=left >= 0))
    return tuple(found)


def language_of(path: str, text: bytes = b"") -> str | None:
    """The grammar for a file, by its suffix, else by its first line."""
    name = path.rpartition("/")[2]
    if "." in name.lstrip("."):
        return _SUFFIXES.get(name.rpartition(".")[2].lower())
    words = text[:200].split(b"\n")[0].removeprefix(b"#!").split() if text.startswith(b"#!") else []
    program = next((word for word in reversed(words[:2]) if not word.startswith(b"-")), b"").rpartition(b"/")[2]
    return _INTERPRETERS.get(program.rstrip(b"0123456789."))


def parse(language: str, text: bytes, *, texts: bool = False) -> "Node | None":
    """
    The tree of a text; None where it is too large, too deeply nested, or costs the grammar too much. With `texts` its
    nodes know their own, for which it is read a second time: on this stack, as the usual one overflows then as well.
    """
    if len(text) > _MOST_PARSED or sum(text.count(each) for each in (b"(", b"[", b"{", b"<")) > _MOST_OPENED:
        return None
    found: list[Node | None] = []
    with _STACKS:
        usual = threading.stack_size(_STACK)
        try:
            thread = threading.Thread(target=lambda: found.append(_parsed(language, text, texts)), daemon=True)
            thread.start()
        finally:
            threading.stack_size(usual)
    thread.join()
    return found[0]


def _parsed(language: str, text: bytes, texts: bool) -> "Node | None":
    from tree_sitter import Parser

    left = _Allowance(read=_MOST_READ * len(text) + _AT_A_TIME * 100, steps=_MOST_STEPS * len(text) // 1000 + 2_000)

    def read(at: int, _: object) -> bytes:
        left.read -= _AT_A_TIME
        return text[at : at + _AT_A_TIME] if left.read > 0 else b""

    def is_spent(_at: int, _has_error: bool) -> bool:
        left.steps -= 1
        return left.steps < 0 or left.read <= 0

    try:
        tree = Parser(_language(language)).parse(read, progress_callback=is_spent)
    except ValueError:  # it was told to stop
        return None
    if left.read <= 0:
        return None
    return (Parser(_language(language)).parse(text) if texts else tree).root_node


@cache
def _language(name: str) -> "Language":
    from tree_sitter import Language

    module, function = _GRAMMARS[name]
    return Language(getattr(import_module(module), function)())


@cache
def _query(language: str, types: tuple[str, ...]) -> "Query":
    from tree_sitter import Query

    return Query(_language(language), f"[{' '.join(f'({each})' for each in types)}] @it")
