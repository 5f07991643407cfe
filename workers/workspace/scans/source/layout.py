"""
Differences that are more than layout.

A formatter changes lines and keeps the syntax. So lines without a new statement or a new comment are dropped from a
diff before any rule reads it. Python is compared statement by statement, and a statement only counts as old below
the same definitions and conditions. Other languages are compared file by file.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from forgepool.workers.workspace.scans.languages.syntax import language_of, parse, text_of, walk, words
from forgepool.workers.workspace.scans.source.grammar import lines_of_new_comments, whole_source
from forgepool.workers.workspace.scans.source.spelling import is_same_code
from forgepool.worktrees.commits.diff import DiffLine, FileDiff

if TYPE_CHECKING:
    from tree_sitter import Node

_IMPORTS = frozenset(["import_statement", "import_from_statement", "future_import_statement"])
_CLAUSES = frozenset(["elif_clause", "else_clause", "except_clause", "except_group_clause", "finally_clause"])
_DEFINITIONS = frozenset(["function_definition", "class_definition"])
_HOLDERS = frozenset(["module", "block", "decorated_definition"])
_COMPARED_WHOLE = frozenset(["javascript", "typescript", "tsx", "go", "rust", "java"])
_COMPARED = _COMPARED_WHOLE | {"python"}
_ENDS = {"go": frozenset([";", "\n"]), **dict.fromkeys(("javascript", "typescript", "tsx"), frozenset([";"]))}
_QUOTES = frozenset(['"', "'"])
_TUPLES = frozenset(["tuple_type", "tuple_pattern", "tuple_expression"])
"""Tuples of Rust, where a comma after a single element has a meaning."""
_BLANKS = re.compile(rb"[ \t\n]+")
_CLOSERS = frozenset([")", "]", "}", ">"])
_MOST_COMPARED = 16_000_000
"""Bytes of one change, before and after."""

_Key = tuple[object, ...]


class _Unit(NamedTuple):
    """A statement without its blocks, or one imported name."""

    key: _Key
    rows: frozenset[int]


def may_be_layout(file: FileDiff) -> bool:
    """Tell whether the file existed before, in a language whose statements can be compared."""
    return file.status == "M" and bool(file.added or file.removed) and language_of(file.path) in _COMPARED


def without_layout(
    files: Sequence[FileDiff], texts: Mapping[str, bytes]
) -> tuple[tuple[FileDiff, ...], frozenset[str]]:
    """Return the files without lines that hold nothing new, and the paths of files whose code is unchanged."""
    reduced: list[FileDiff] = []
    same: set[str] = set()
    left = _MOST_COMPARED
    for file in files:
        old, new = texts.get(file.old_id), texts.get(file.id)
        left -= len(old or b"") + len(new or b"")
        language = language_of(file.path)
        if not (may_be_layout(file) and old and new and left >= 0):
            reduced.append(file)
            continue
        if language == "python" and is_same_code(old, new):
            same.add(file.path)
        if language == "python":
            file = _without_old_statements(file, old, new)
        elif language in _COMPARED_WHOLE and _is_same_tree(language, old, new):
            same.add(file.path)
            file = replace(file, added=(), removed=())
        reduced.append(file)
    return tuple(reduced), frozenset(same)


def _without_old_statements(file: FileDiff, old: bytes, new: bytes) -> FileDiff:
    before, after = parse("python", old, texts=True), parse("python", new, texts=True)
    if before is None or after is None or before.has_error or after.has_error:
        return file
    ids: dict[_Key, int] = {}
    was, now = list(_units(before, ids)), list(_units(after, ids))
    source_before, source_after = whole_source(file.path, old), whole_source(file.path, new)
    added = _rows_of_more(now, was) | lines_of_new_comments(source_after, source_before)
    removed = _rows_of_more(was, now) | lines_of_new_comments(source_before, source_after)
    return replace(file, added=_kept(file.added, added), removed=_kept(file.removed, removed))


def _kept(lines: tuple[DiffLine, ...], numbers: frozenset[int]) -> tuple[DiffLine, ...]:
    return tuple(line for line in lines if line.number in numbers)


def _rows_of_more(those: list[_Unit], others: list[_Unit]) -> frozenset[int]:
    """Return the rows of every unit that occurs more often than among the others."""
    more = Counter(unit.key for unit in those) - Counter(unit.key for unit in others)
    return frozenset(row for unit in those if more[unit.key] for row in unit.rows)


def _units(root: "Node", ids: dict[_Key, int]) -> Iterator[_Unit]:
    """Yield every statement, identified by its words and by the definitions and conditions around it."""
    waiting: list[tuple[Node, int]] = [(root, 0)]
    while waiting:
        node, around = waiting.pop()
        if node.type in _HOLDERS:
            name = text_of(
                getattr(node.child_by_field_name("definition"), "child_by_field_name", lambda _: None)("name")
            )
            decorated = ids.setdefault((around, node.type, name), len(ids) + 1)
            waiting.extend((child, decorated if child.type == "decorator" else around) for child in node.named_children)
        elif node.type in _IMPORTS:
            yield from _imported(node, around)
        elif "comment" not in node.type:
            head = [child for child in node.children if not _is_below(child)]
            key = words(*head) if head else words(node)
            yield _Unit((around, node.type, key), frozenset(_rows(head or [node])))
            name_or_key = text_of(node.child_by_field_name("name")) if node.type in _DEFINITIONS else key
            below = ids.setdefault((around, node.type, name_or_key), len(ids) + 1)
            waiting.extend((child, below) for child in node.named_children if _is_below(child))


def _is_below(node: "Node") -> bool:
    return node.type == "block" or node.type in _CLAUSES or node.type == "case_clause"


def _rows(nodes: "list[Node]") -> Iterator[int]:
    for node in nodes:
        yield from range(node.start_point.row + 1, node.end_point.row + 2)


def _imported(node: "Node", around: int) -> Iterator[_Unit]:
    """Yield each imported name by itself, however many one statement imports."""
    module = text_of(node.child_by_field_name("module_name"))
    names = node.children_by_field_name("name") or [each for each in walk(node) if each.type == "wildcard_import"]
    for name in names:
        yield _Unit((around, node.type, module, words(name)), frozenset(_rows([name])))


def _is_same_tree(language: str, old: bytes, new: bytes) -> bool:
    before, after = parse(language, old), parse(language, new)
    if before is None or after is None or before.has_error or after.has_error:
        return False
    return _shape(language, before, old) == _shape(language, after, new)


def _shape(language: str, root: "Node", text: bytes) -> list[bytes]:
    """Return the tree as a list with the texts of its leaves, without trailing commas, quotes and statement ends."""
    shape: list[bytes] = []
    waiting: list[Node | None] = [root]
    while waiting:
        node = waiting.pop()
        if node is None:
            shape.append(b"\0")
        elif "comment" in node.type or not node.child_count:
            if not _is_layout(language, node):
                leaf = text[node.start_byte : node.end_byte]
                # The text of a sign may differ from its type: to the grammar, `b"` is a quotation mark.
                says_more = node.is_named or leaf != node.type.encode()
                shape.append(_BLANKS.sub(b" ", leaf) if "comment" in node.type else leaf if says_more else b"")
                shape.append(node.type.encode() if node.type not in _QUOTES else b"quote")
        else:
            shape.append(node.type.encode())
            waiting.append(None)
            waiting.extend(reversed(node.children))
    return shape


def _is_layout(language: str, node: "Node") -> bool:
    if node.type == ",":
        before, after, whole = node.prev_sibling, node.next_sibling, node.parent
        if whole is not None and whole.type in _TUPLES and whole.named_child_count == 1:
            return False
        return after is not None and after.type in _CLOSERS and before is not None and before.is_named
    return node.type in _ENDS.get(language, ())
