"""
`type-bypass`: added lines that silence a type checker or a linter.

Silencing a whole checker, or discarding a type, blocks. Silencing one rule of a type checker in one place asks for
attention, and one rule of a linter is a note. Tests weigh one degree less. Strings and plain remarks never count.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.languages.syntax import SCRIPTS
from forgepool.workers.workspace.scans.source.grammar import SourceText
from forgepool.workers.workspace.scans.subject import finding, lighter

if TYPE_CHECKING:
    from tree_sitter import Node

RULE = "type-bypass"

_MOST = 500
_LOOKED_AT = 2_000


class _Mark(NamedTuple):
    """A comment that silences a tool."""

    pattern: re.Pattern[str]
    weight: Weight
    what: str


def _mark(pattern: str, weight: Weight, what: str) -> _Mark:
    return _Mark(re.compile(pattern), weight, what)


_PYTHON = (
    _mark(r"#\s*(?:type|pyright|ty):\s*ignore\s*\[[\w, -]+\]\s*#\s*\w", "note", "silences a rule, with a reason"),
    _mark(r"#\s*type:\s*ignore\s*\[\s*import(?:-\w+)?\s*\]", "note", "silences mypy on a package without types"),
    _mark(
        r"#\s*(?:type|pyright|pyrefly|ty):\s*ignore\s*\[\s*[\w, -]+\]",
        "attention",
        "silences a rule of the type checker",
    ),
    _mark(r"#\s*mypy:\s*(?:ignore-errors|disable-error-code|allow-)", "blocks", "silences mypy for the whole file"),
    _mark(r"#\s*pyright:\s*(?:basic|report\w+\s*=\s*(?:false|none))", "blocks", "loosens pyright for the whole file"),
    _mark(r"#\s*(?:type|pyright|pyrefly|ty|pyre):?\s*-?ignore(?!-)", "blocks", "silences the type checker"),
    _mark(r"#\s*pyre-(?:ignore|fixme)", "blocks", "silences the type checker"),
    _mark(r"#\s*(?:ruff|flake8):\s*noqa\b(?!:)", "blocks", "silences the linter for the whole file"),
    _mark(r"#\s*(?:ruff|flake8):\s*noqa:", "attention", "silences rules of the linter for the whole file"),
    _mark(r"(?i)#\s*noqa:\s*[a-z]+\d*", "note", "silences a rule of the linter"),
    _mark(r"(?i)#\s*noqa\b", "attention", "silences the linter without naming a rule"),
    _mark(r"#\s*pylint:\s*(?:skip-file|disable=all)", "blocks", "silences the linter for the whole file"),
    _mark(r"#\s*pylint:\s*disable(?:-next)?=", "attention", "silences rules of the linter"),
    _mark(r"#\s*nosec\b(?!\s*:?\s*B\d)", "attention", "silences the security linter without naming a rule"),
    _mark(r"#\s*nosec\b", "note", "silences a rule of the security linter"),
    _mark(r"#\s*pragma:\s*no cover", "note", "leaves code out of the coverage"),
)
_SCRIPT = (
    _mark(r"@ts-nocheck", "blocks", "silences TypeScript for the whole file"),
    _mark(r"@ts-ignore", "blocks", "silences TypeScript"),
    _mark(r"@ts-expect-error", "attention", "silences TypeScript on one line"),
    _mark(r"\$Flow(?:FixMe|Ignore)|@flow-ignore", "blocks", "silences Flow"),
    _mark(
        r"eslint-disable-(?:next-)?line\s+@?[\w/-]*(?:no-explicit-any|no-unsafe-|ban-ts)", "attention", "lets `any` in"
    ),
    _mark(r"eslint-disable-(?:next-)?line\s+@?[a-z]", "note", "silences a rule of the linter"),
    _mark(r"eslint-disable-(?:next-)?line", "attention", "silences the linter without naming a rule"),
    _mark(r"eslint-disable\s+@?[a-z]", "attention", "silences a rule of the linter for the rest of the file"),
    _mark(r"eslint-disable(?!-)", "blocks", "silences the linter for the rest of the file"),
    _mark(
        r"biome-ignore(?:-all)?\s+\w+|tslint:disable|oxlint-disable|jshint\s+ignore", "attention", "silences the linter"
    ),
    _mark(r"(?:istanbul|c8|v8)\s+ignore", "note", "leaves code out of the coverage"),
)
_GO = (
    _mark(r"^//\s*nolint:\s*[\w,-]+", "note", "silences a linter"),
    _mark(r"^//\s*nolint\b", "attention", "silences every linter"),
    _mark(r"^//\s*#nosec|^//\s*lint:(?:file-)?ignore", "attention", "silences a linter"),
)
_JAVA = (_mark(r"\bCHECKSTYLE[:. ]*OFF|\bNOPMD\b|\bNOSONAR\b|noinspection\s+ALL", "attention", "silences a linter"),)
_BASH = (
    _mark(r"#\s*shellcheck\s+disable=all", "blocks", "silences shellcheck"),
    _mark(r"#\s*shellcheck\s+disable=", "note", "silences a rule of shellcheck"),
)
_MARKS = {"python": _PYTHON, **dict.fromkeys(SCRIPTS, _SCRIPT), "go": _GO, "java": _JAVA, "bash": _BASH}
_ELSEWHERE = (
    _mark(
        r"NOSONAR|NOPMD|rubocop:\s*(?:disable|todo)|swiftlint:disable|phpstan-ignore|psalm-suppress",
        "attention",
        "silences a linter",
    ),
    _mark(
        r"@phpcs:ignore|noinspection|NOLINT|ktlint-disable|credo:disable|@ts-ignore|@ts-nocheck",
        "attention",
        "silences a linter",
    ),
)
"""Marks for languages without a grammar here."""

_NODES = {
    "python": ("call", "type"),
    "typescript": ("as_expression", "type_assertion", "type_annotation"),
    "tsx": ("as_expression", "type_annotation"),
    "rust": ("attribute_item", "inner_attribute_item", "unsafe_block", "function_modifiers"),
    "java": ("annotation",),
}
_ANY = re.compile(r"(?:typing\.)?Any\b")
_CAST_ANY = re.compile(r"(?:\w+\.)?cast\(\s*[\"']?(?:\w+\.)?Any\b")
_ALLOW = re.compile(r"#!?\[\s*(?:allow|expect)\s*\(|#!?\[\s*cfg_attr\([^)]*,\s*allow\s*\(")
_BROAD = re.compile(r"\b(?:warnings|unused|clippy::(?:all|pedantic|correctness|suspicious|restriction))\b")
_SUPPRESS = re.compile(r"@SuppressWarnings\s*\(")


def scan_bypasses(sources: tuple[SourceText, ...], moved: frozenset[str]) -> Iterator[ScanFinding]:
    """Report `type-bypass` in every source, comments first."""
    for source in sources:
        lines = {line.number: line.text for line in source.file.added}
        for number, weight, what in islice(_found(source), _MOST):
            if not _is_moved(source, lines, number, moved):
                least = lighter(weight) if source.in_test else weight
                message = f"this {what}; fix the cause, or name the one rule and say why"
                yield finding(RULE, least, message, source.file.path, number, lines[number])


def _is_moved(source: SourceText, lines: Mapping[int, str], number: int, moved: frozenset[str]) -> bool:
    """Tell whether a comment was moved: one on its own line only counts if the line below it moved as well."""
    if lines[number].strip() not in moved:
        return False
    return bool(source.code(number).strip()) or lines.get(number + 1, "").strip() in moved


def _found(source: SourceText) -> Iterator[tuple[int, Weight, str]]:
    marks = _MARKS.get(source.language or "", _ELSEWHERE if source.language is None else ())
    for remark in source.comments:
        found = next((mark for mark in marks if mark.pattern.search(remark.text[:_LOOKED_AT])), None)
        if found is not None and _is_directive(found, remark.text):
            yield remark.line, found.weight, found.what
    for node in source.nodes(*_NODES[source.language]) if source.language in _NODES else ():
        line = node.start_point.row + 1
        judged = _of_node(source, node) if source.adds(line) else None
        if judged is not None:
            yield line, *judged


def _is_directive(mark: _Mark, remark: str) -> bool:
    """Tell whether the comment starts with the mark, or with another comment sign. Others only mention it."""
    found = mark.pattern.search(remark[:_LOOKED_AT])
    before = remark[: found.start()] if found else ""
    return not before.strip(" \t#/*<!-@{") or before.rstrip().endswith(("#", "//", "/*"))


def _of_node(source: SourceText, node: "Node") -> tuple[Weight, str] | None:
    text = source.text_of(node)[:400].decode(errors="replace")
    if source.language == "python":
        return _of_python(node, text)
    if source.language == "rust":
        return _of_rust(node, text)
    if source.language == "java":
        return _of_java(text)
    return _of_script(source, node, text)


def _of_python(node: "Node", text: str) -> tuple[Weight, str] | None:
    if node.type == "call":
        return ("blocks", "casts to Any, which accepts everything") if _CAST_ANY.match(text) else None
    return ("note", "says Any for a type") if _ANY.match(text) else None


def _of_script(source: SourceText, node: "Node", text: str) -> tuple[Weight, str] | None:
    if node.type == "type_annotation":
        return ("note", "says `any` for a type") if re.match(r":\s*any\b", text) else None
    target = node.named_children[0 if node.type == "type_assertion" else -1] if node.named_children else None
    type_ = source.text_of(target).strip(b"<>() \t\n") if target is not None else b""
    if type_ in (b"any", b"any[]"):
        return "blocks", "casts to `any`, which accepts everything"
    return ("attention", "casts by way of `unknown`") if type_ == b"unknown" and _goes_on(node) else None


def _goes_on(node: "Node") -> bool:
    above = node.parent
    return above is not None and above.type in ("as_expression", "type_assertion")


def _of_rust(node: "Node", text: str) -> tuple[Weight, str] | None:
    if node.type in ("unsafe_block", "function_modifiers"):
        return ("attention", "is unsafe") if re.search(r"\bunsafe\b", text[:80]) else None
    if not _ALLOW.match(text):
        return None
    whole = node.type == "inner_attribute_item"
    return ("attention" if whole or _BROAD.search(text) else "note"), "allows what the compiler warns of"


def _of_java(text: str) -> tuple[Weight, str] | None:
    if not _SUPPRESS.match(text):
        return None
    if '"all"' in text:
        return "blocks", "silences every warning of the compiler"
    return ("attention" if "unchecked" in text or "rawtypes" in text else "note"), "silences a warning of the compiler"
