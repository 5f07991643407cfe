"""Marks by which tests of pytest and unittest do not run or do not count."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from forgepool.workers.workspace.scans.languages.building import is_false, mark_kind, mark_of
from forgepool.workers.workspace.scans.languages.suite import Mark, name_set
from forgepool.workers.workspace.scans.languages.syntax import arguments_of, children_of, text_of, walk

if TYPE_CHECKING:
    from tree_sitter import Node

Skipping = Literal["skip", "sometimes", "elsewhere"] | None
SKIPS = name_set("skip skipif xfail skipIf skipUnless expectedFailure")
_SKIP_CALLS = name_set("skip xfail skipTest SkipTest importorskip exit Skipped")
_SKIPPERS = frozenset(["pytest", "self", "unittest", "cls"])
_SKIP_ERRORS = re.compile(r"\b(?:SkipTest|Skipped|(?:skip|xfail)\.Exception)\b")
_MARKING = frozenset(["add_marker", "applymarker"])
_MARKED = re.compile(r"\bmark\.(?:skip|skipif|xfail)\b")
_ROW = re.compile(r"(?:pytest\.)?param\(.*\bmark\.(?:skip|skipif|xfail)\b", re.DOTALL)
_IMPORTED = re.compile(
    r"^\s*from\s+(?:pytest|unittest|hypothesis|_pytest\.outcomes)\s+import\s+(\([^)]*\)|[^\n#]+)"
    r"|^\s*import\s+(pytest|unittest)\s+as\s+(\w+)",
    re.MULTILINE,
)


def find_skip(node: "Node", imported: Mapping[str, str]) -> Mark | None:
    """Return the mark that a statement or a call is, given what the file calls the test libraries."""
    if node.type == "raise_statement" and _SKIP_ERRORS.search(text_of(node)):
        return mark_of(node, "skip")
    if node.type != "call":
        return None
    owner, _, name = text_of(node.child_by_field_name("function")).rpartition(".")
    if name in _MARKING and _MARKED.search(text_of(node)):
        return mark_of(node, "skip")
    if not owner and name not in ("SkipTest", "skipTest", "importorskip"):
        name = imported.get(name, "")
        if name == "reject" or (name == "assume" and any(map(is_false, arguments_of(node)))):
            return mark_of(node, "skip")
    elif owner and imported.get(owner, owner) not in _SKIPPERS:
        return None
    if name not in _SKIP_CALLS:
        return None
    return mark_of(node, "sometimes" if name == "importorskip" else "skip")


def read_imports(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a file calls the test libraries and their functions, each with its own name."""
    for found in _IMPORTED.finditer(text):
        if found[2]:
            yield found[3], found[2]
        for name, alias in re.findall(r"(\w+)(?:\s+as\s+(\w+))?", found[1] or ""):
            yield alias or name, name


def class_marks(body: "Node") -> Iterator[Mark]:
    """Yield the attributes of a class that keep its tests from running."""
    for node in body.named_children:
        if re.match(r"__test__\s*=\s*(False|0|None)\b|pytestmark\s*=.*\b(skip|xfail)", text_of(node), re.DOTALL):
            yield mark_of(node, mark_kind(text_of(node)))


def decorator_marks(decorators: "list[Node]", skips: Mapping[str, Skipping]) -> Iterator[Mark]:
    """Yield the decorators that skip, or expect a failure, of a test or of a row of its table."""
    for node in decorators:
        name = decorator_name(node).rpartition(".")[2]
        if name in skips:
            text = text_of(node)
            conditional = name in ("skipif", "skipIf", "skipUnless") or _has_condition(node)
            yield mark_of(node, skips[name] or mark_kind(text, conditional=conditional))
        elif name.startswith("parametri"):
            yield from _row_marks(node)


def _row_marks(decorator: "Node") -> Iterator[Mark]:
    """Yield rows that do not run or count, and tables without a row, which skip the test."""
    for node in walk(decorator):
        if node.type == "call" and _ROW.match(text_of(node)):
            yield mark_of(node, "elsewhere")
        parent = node.parent.parent if node.parent is not None and node.parent.type == "argument_list" else None
        if (
            node.type in ("list", "tuple")
            and parent is not None
            and parent.parent == decorator
            and not children_of(node)
        ):
            yield mark_of(decorator, "skip")


def _has_condition(decorator: "Node") -> bool:
    """Tell whether the decorator has a positional argument that is no text, as in `xfail(sys.platform == "win32")`."""
    calls = [node for node in decorator.named_children if node.type == "call"]
    arguments = calls[0].child_by_field_name("arguments") if calls else None
    return arguments is not None and any(
        node.type not in ("string", "keyword_argument", "comment") for node in arguments.named_children
    )


def decorator_name(node: "Node") -> str:
    """Return the dotted name of a decorator, without its arguments."""
    inner = node.named_children[0] if node.named_children else None
    if inner is not None and inner.type == "call":
        inner = inner.child_by_field_name("function")
    return text_of(inner)


def module_marks(root: "Node", imported: Mapping[str, str]) -> Iterator[Mark]:
    """Yield what keeps all tests of a module from running."""
    for node in root.named_children:
        text = text_of(node)
        if node.type == "function_definition" and text_of(node.child_by_field_name("name")) == "load_tests":
            # unittest runs what it returns, and nothing else of the file.
            yield mark_of(node, "skip")
        if re.match(r"pytestmark\b.*\b(skip|skipif|xfail)\b", text, re.DOTALL):
            yield mark_of(node, mark_kind(text, conditional="skipif" in text))
        elif re.match(r"([\w.]+\.)?__test__\s*=\s*(False|0|None)\b|collect_ignore(_glob)?\b", text):
            yield mark_of(node, "skip")
        elif node.type in ("expression_statement", "if_statement", "try_statement", "raise_statement"):
            yield from _skipping(node, imported)


def _skipping(statement: "Node", imported: Mapping[str, str]) -> Iterator[Mark]:
    """Yield calls such as `pytest.skip(..., allow_module_level=True)`, with or without a condition."""
    for node in walk(statement, into=lambda node_: not node_.type.endswith("_definition")):
        if (mark := find_skip(node, imported)) is not None:
            bare = statement.type in ("expression_statement", "raise_statement")
            yield mark if bare else replace(mark, kind=mark_kind(text_of(statement), conditional=True))


def aliases(root: "Node") -> Iterator[tuple[str, Skipping]]:
    """Yield other names for marks: `from unittest import skip as later`, `later = pytest.mark.skip`."""
    for node in root.named_children:
        text = text_of(node)
        for found in re.finditer(r"\b(?:skip|skipif|xfail|skipIf|skipUnless|expectedFailure)\s+as\s+(\w+)", text):
            yield found[1], None
        found_here = re.match(r"(\w+)\s*=\s*(?:pytest\.mark|unittest)\.(\w+)(\()?", text)
        if found_here and found_here[2] in SKIPS:
            conditional = found_here[2] in ("skipif", "skipIf", "skipUnless")
            yield found_here[1], mark_kind(text, conditional=conditional) if found_here[3] else None
