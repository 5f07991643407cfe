"""
The comments, strings and code of a source file, read by its grammar.

Languages without a grammar, and files that are too much for one, are read by the signs that open comments and
strings. No expression for these can fail once it has started, so the text is read once, however it is quoted.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from forgepool.workers.policy.gate_file.test_paths import is_test_path
from forgepool.workers.workspace.scans.languages.syntax import language_of, parse, query
from forgepool.workers.workspace.scans.source.silences import (
    Silence,
    Statement,
    is_silence,
    lines_of_new_silences,
    statement_at,
    statements_of,
)
from forgepool.workers.workspace.scans.subject import Subject
from forgepool.worktrees.commits.diff import DiffLine, FileDiff, contents

if TYPE_CHECKING:
    from tree_sitter import Node


class LexedPiece(NamedTuple):
    """A comment or a string, by the bytes where it begins and ends."""

    start: int
    end: int
    string: bool


_SLASHES = rb"//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
_HASH = rb"(?:(?<=\s)|(?<![\s\S]))#[^\n]*"
_DASHES = rb"--[^\n]*"
_MARKUP = rb"<!--(?:[^-]|-(?!->))*+(?:-->)?"
_SEMICOLON = rb";[^\n]*"
_PERCENT = rb"%[^\n]*"
_TRIPLE = rb'"""(?:[^"]|"(?!""))*+(?:""")?|' + rb"'''(?:[^']|'(?!''))*+(?:''')?"
_DOUBLE = rb'(?<!\w)"(?:\\.|[^"\\\n])*+"?'
_SINGLE = rb"(?<!\w)'(?:\\.|[^'\\\n])*+'?"
_TICKS = rb"`(?:\\.|[^`\\\n])*+`?"


def _reader(comments: bytes, *strings: bytes) -> re.Pattern[bytes]:
    return re.compile(b"(?P<comment>" + comments + b")|" + b"|".join(strings), re.DOTALL)


_C = _reader(_SLASHES, _DOUBLE, _SINGLE, _TICKS)
_SHELL = _reader(_HASH, _TRIPLE, _DOUBLE, _SINGLE)
_BOTH = _reader(_HASH + b"|" + _SLASHES, _DOUBLE, _SINGLE)
_SQL = _reader(_DASHES + rb"|/\*(?:[^*]|\*(?!/))*+(?:\*/)?", _DOUBLE, _SINGLE)
_XML = _reader(_MARKUP, rb"(?!)")
_PAGE = _reader(_MARKUP + b"|" + _SLASHES, _DOUBLE, _SINGLE, _TICKS)
_LISP = _reader(_SEMICOLON, _DOUBLE)
_TEX = _reader(_PERCENT, rb"(?!)")
_INI = _reader(_HASH + rb"|(?:(?<=\n)|(?<![\s\S]))[ \t]*;[^\n]*", _DOUBLE, _SINGLE)

_SUFFIXES = (
    (_C, "c h cc cpp cxx hh hpp hxx m mm cs kt kts swift scala dart groovy gradle proto less scss css sol zig"),
    (_C, "go rs java js jsx mjs cjs ts tsx mts cts jsonc json5"),
    (_SHELL, "py pyi pyw sh bash zsh fish rb pl pm r jl yaml yml toml cmake mk ex exs nix graphql ps1 psm1"),
    (_SHELL, "conf env properties rego tcl awk bzl bazel star cfg"),
    (_BOTH, "php tf tfvars hcl"),
    (_SQL, "sql lua hs elm adb ads"),
    (_XML, "xml xsd xsl xslt csproj props targets html htm"),
    (_PAGE, "vue svelte astro"),
    (_LISP, "clj cljs cljc el lisp scm"),
    (_TEX, "tex sty erl hrl"),
    (_INI, "ini"),
)
_NAMES = (
    (_SHELL, "makefile gnumakefile dockerfile containerfile gemfile rakefile procfile justfile cmakelists.txt"),
    (_SHELL, "vagrantfile build workspace .gitignore .gitattributes .dockerignore .editorconfig .env"),
    (_C, "jenkinsfile"),
)
_BY_SUFFIX = {suffix: reader for reader, suffixes in _SUFFIXES for suffix in suffixes.split()}
_BY_NAME = {name: reader for reader, names in _NAMES for name in names.split()}


def find_pieces(path: str, text: bytes) -> Iterator[LexedPiece]:
    """Yield the comments and strings of a text in order. Unknown languages have none."""
    reader = _reader_of(path, text)
    if reader is not None:
        for found in reader.finditer(text):
            yield LexedPiece(found.start(), found.end(), found["comment"] is None)


def is_code(path: str, text: bytes = b"") -> bool:
    """Tell whether the comments and strings of its language are known."""
    return _reader_of(path, text) is not None


def _reader_of(path: str, text: bytes) -> re.Pattern[bytes] | None:
    name = path.rpartition("/")[2].lower()
    known = _BY_NAME.get(name) or _BY_NAME.get(name.partition(".")[0] if name.startswith("dockerfile.") else "")
    if known is None and "." in name:
        known = _BY_SUFFIX.get(name.rpartition(".")[2])
    return known or (_SHELL if "." not in name and text.startswith(b"#!") else None)


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
_MOST_PARSED_IN_ALL = 16_000_000
_DEFINITIONS = ("function_definition", "class_definition")
_PUT_OFF = re.compile(r"\b(?:todo|fixme)\b", re.IGNORECASE)
_BLANKS = re.compile(r"[ \t]+")
_NEXT_COMMENT = re.compile(r"[ \t]#[ \t]")


class Remark(NamedTuple):
    """One added line of a comment or a string."""

    line: int
    text: str
    string: bool = False


@dataclass(frozen=True)
class SourceText:
    """A file's new text, read once for all rules. Its properties are about the added lines only."""

    file: FileDiff
    text: bytes
    language: str | None
    """The name of its grammar."""
    parsed: bool = True
    """The change is still small enough for this file to be parsed."""
    old_text: bytes = b""
    """The file's text before the change."""
    same_code: bool = False
    """Only comments and layout differ, so no node is new."""

    @cached_property
    def before(self) -> "SourceText":
        """The old file with every line taken as added. A rule's findings in it are not new."""
        return whole_source(self.file.old_path or self.file.path, self.old_text)

    @cached_property
    def whole(self) -> "SourceText":
        """The new file with every line taken as added."""
        return whole_source(self.file.path, self.text)

    @cached_property
    def in_test(self) -> bool:
        return is_test_path(self.file.path)

    @cached_property
    def numbers(self) -> list[int]:
        """The numbers of the added lines."""
        return [line.number for line in self.file.added]

    @cached_property
    def root(self) -> "Node | None":
        """The file's tree. None without a grammar, or if the file is too much for it."""
        return parse(self.language, self.text) if self.language and self.parsed else None

    @cached_property
    def too_much(self) -> bool:
        """The grammar of its language could not parse it."""
        return self.language is not None and self.root is None

    @cached_property
    def pieces(self) -> tuple[LexedPiece, ...]:
        """The comments and strings, in the order of the text."""
        if self.root is None or self.language is None:
            return tuple(find_pieces(self.file.path, self.text))
        nodes = self._captured(*_PIECES[self.language])
        found = (LexedPiece(node.start_byte, node.end_byte, "comment" not in node.type) for node in nodes)
        return tuple(sorted(found))

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """The added lines of comments and strings, without the code around them."""
        return tuple(remark for remark in self._all_remarks() if self.adds(remark.line))

    @property
    def comments(self) -> Iterator[Remark]:
        """The added lines of comments that occur more often than before, wherever they stand."""
        # Only the whole text knows how often a comment occurs, as a tree is queried for its added lines alone.
        new = lines_of_new_comments(self.whole, self.before)
        return (remark for remark in self.remarks if not remark.string and remark.line in new)

    @cached_property
    def comment_lines(self) -> dict[str, list[int]]:
        """Every comment of the whole text that silences no tool, with its lines."""
        found: dict[str, list[int]] = {}
        for line, text in self._comment_parts:
            if not is_silence(text):
                found.setdefault(text, []).append(line)
        return found

    @cached_property
    def silences(self) -> tuple[Silence, ...]:
        """Every comment of the whole text that silences a tool."""
        parts = [(line, text) for line, text in self._comment_parts if is_silence(text)]
        types = tuple(each for each in _PIECES[self.language] if "comment" in each) if self.language else ()
        nodes = {
            line: node
            for node in (self._captured(*types) if parts and types else ())
            for line in range(node.start_point.row + 1, node.end_point.row + 2)
        }
        return tuple(
            Silence(
                line=line,
                text=text,
                scope=self._scopes.get(line, 0),
                statement=statement_at(self.root, nodes[line], self.text) if self.root and line in nodes else (),
            )
            for line, text in parts
        )

    @cached_property
    def statements(self) -> dict[int, Counter[Statement]]:
        """The statements of the whole text, counted by the number of their definition."""
        found: dict[int, Counter[Statement]] = {}
        for line, statement in statements_of(self.root, self.text) if self.root is not None else ():
            found.setdefault(self._scopes.get(line, 0), Counter())[statement] += 1
        return found

    @property
    def _comment_parts(self) -> Iterator[tuple[int, str]]:
        for remark in self._all_remarks():
            if not remark.string:
                yield from ((remark.line, part) for part in _parts(remark))

    @cached_property
    def _scopes(self) -> dict[int, int]:
        """For each line in a Python definition, a number for that definition and those around it."""
        scopes: dict[int, int] = {}
        found = self._captured(*_DEFINITIONS) if self.language == "python" else []
        for node in sorted(found, key=lambda each: each.start_byte):
            name = node.child_by_field_name("name")
            first, last = node.start_point.row + 1, node.end_point.row + 1
            scope = hash((scopes.get(first, 0), self.text_of(name) if name else b""))
            scopes.update(dict.fromkeys(range(first, last + 1), scope))
        return scopes

    def nodes(self, *types: str) -> "Iterator[Node]":
        """Return the nodes of these types that overlap an added line."""
        return (node for node in self._captured(*types) if self._is_added(node)) if not self.same_code else iter(())

    def text_of(self, node: "Node") -> bytes:
        """Return a node's text. The node's own attribute is slow: it calls the reader of its tree byte by byte."""
        return self.text[node.start_byte : node.end_byte]

    def adds(self, number: int) -> bool:
        """Tell whether this line of the new file is an added one."""
        at = bisect_left(self.numbers, number)
        return at < len(self.numbers) and self.numbers[at] == number

    def code(self, number: int) -> str:
        """Return one line of the new text with its comments and strings blanked out."""
        start, end = self._lines[number - 1], self._lines[number]
        line = bytearray(self.text[start:end].rstrip(b"\r\n"))
        for piece in self._touching(start, end):
            first, last = max(piece.start, start) - start, min(piece.end, end, start + len(line)) - start
            line[first:last] = b" " * max(0, last - first)
        return line.decode("utf-8", "backslashreplace")

    def _touching(self, start: int, end: int) -> Iterator[LexedPiece]:
        at = max(0, bisect_left(self.pieces, (start, 0, False)) - 1)
        while at < len(self.pieces) and self.pieces[at].start < end:
            if self.pieces[at].end > start:
                yield self.pieces[at]
            at += 1

    def _all_remarks(self) -> Iterator[Remark]:
        lines = self._lines
        for piece in self.pieces:
            row = bisect_left(lines, piece.start + 1) - 1
            text = self.text[piece.start : piece.end]
            for number, line in enumerate(text.split(b"\n"), start=row + 1):
                yield Remark(number, line.decode("utf-8", "backslashreplace"), piece.string)

    @cached_property
    def _lines(self) -> list[int]:
        """The byte where each line begins, and the end of the text."""
        starts, at = [0], self.text.find(b"\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find(b"\n", at + 1)
        return [*starts, len(self.text)]

    def _captured(self, *types: str) -> "list[Node]":
        from tree_sitter import QueryCursor

        if self.root is None or self.language is None or not self.numbers:
            return []
        cursor = QueryCursor(query(self.language, types))
        last = min(self.numbers[-1], len(self._lines) - 1)
        cursor.set_byte_range(self._lines[self.numbers[0] - 1], self._lines[last])
        return cursor.captures(self.root).get("it", [])

    def _is_added(self, node: "Node") -> bool:
        at = bisect_left(self.numbers, node.start_point.row + 1)
        return at < len(self.numbers) and self.numbers[at] <= node.end_point.row + 1


def sources(subject: Subject, read: Sequence[FileDiff] | None = None) -> tuple[SourceText, ...]:
    """Return the regular files with added lines, from `read` or from all scanned files."""
    files = [file for file in (subject.read if read is None else read) if file.added and file.mode.startswith("100")]
    texts = contents(subject.git, (side for file in files for side in (file.id, file.old_id)))
    left = _MOST_PARSED_IN_ALL
    found = []
    for file in files:
        if (text := texts.get(file.id)) is None:
            continue
        left -= len(text)
        source = SourceText(
            file=file,
            text=text,
            language=language_of(file.path, text),
            parsed=left >= 0,
            old_text=texts.get(file.old_id, b""),
            same_code=file.path in subject.same_code,
        )
        found.append(source)
    return tuple(found)


def whole_source(path: str, text: bytes) -> SourceText:
    """Return a text with every line taken as added."""
    lines = tuple(
        DiffLine(number=at, text=line.decode("utf-8", "backslashreplace"))
        for at, line in enumerate(text.split(b"\n"), 1)
    )
    file = FileDiff(status="A", path=path, mode="100644", old_mode="000000", added=lines)
    return SourceText(file=file, text=text, language=language_of(path, text))


def lines_of_new_comments(now: SourceText, before: SourceText) -> frozenset[int]:
    """Return the lines of comments that occur more often than before, or silence another statement."""
    had = before.comment_lines
    more = (lines for text, lines in now.comment_lines.items() if len(lines) > len(had.get(text, ())))
    return lines_of_new_silences(now, before).union(*more)


def _parts(remark: Remark) -> list[str]:
    text = _PUT_OFF.sub(lambda found: found[0].upper(), remark.text)
    return [
        _BLANKS.sub(" ", part).strip(" ")
        for part in _NEXT_COMMENT.split(text.strip(" \t/*").removeprefix("#"))
        if part.strip()
    ]
