"""
Comments that silence a tool, identified by the statements they stand on.

A formatter moves such a comment with its statement, and an editor may change the statement below it. A comment on
another statement silences something new, however often it occurred in the file.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tree_sitter import Node

Statement = tuple[bytes, ...]
"""The words of a statement without layout, quotes and its blocks. Empty for a comment that stands alone."""

_SILENCES = re.compile(
    r"\b(?:noqa|ignore|disable|nosec|pragma|nolint|nosonar|nopmd|noinspection|expect-error|(?:pyre-|flow-?)fixme)\b",
    re.IGNORECASE,
)
_BODIES = frozenset(
    [
        *("module", "block", "program", "source_file", "statement_block", "statement_list", "class_body", "enum_body"),
        *("interface_body", "switch_body", "switch_block", "switch_block_statement_group", "switch_case"),
        "switch_default",
        *("expression_case", "type_case", "communication_case", "default_case", "match_block"),
        *("declaration_list", "field_declaration_list", "enum_variant_list", "object_type", "do_group"),
    ]
)
_PARTS = frozenset(
    [
        *("elif_clause", "else_clause", "except_clause", "except_group_clause", "finally_clause", "case_clause"),
        *("catch_clause", "function_definition", "class_definition", "decorator"),
    ]
)
_LISTS = frozenset(["object", "array", "arguments", "jsx_element", "jsx_fragment", "literal_value"])
"""Lists in JavaScript and Go, where a comment may stand before an element."""
_TEXTS = frozenset(["string_content", "string_fragment", "string_literal", "interpreted_string_literal"])
"""Nodes that count as one leaf, whatever their parts."""
_WORD = re.compile(rb"\w+|[^\w\s\"'`(),;\\]+")
_LIKE = 0.3
"""The least share of common words at which one statement may have become the other."""
_MOST_PAIRS = 20_000
"""Pairs of statements to compare. Beyond them, every moved comment counts as new."""
_MOST_WORDS = 400
"""Words of a statement that are compared."""


class Silence(NamedTuple):
    """One line of a silencing comment."""

    line: int
    text: str
    scope: int
    """The number of the definition around it."""
    statement: Statement


class Side(Protocol):
    """A file before or after a change."""

    @property
    def silences(self) -> Sequence[Silence]: ...

    @property
    def statements(self) -> Mapping[int, Counter[Statement]]:
        """The statements, counted by scope."""


def is_silence(comment: str) -> bool:
    return _SILENCES.search(comment) is not None


def lines_of_new_silences(now: Side, before: Side) -> frozenset[int]:
    """Return the lines of silences that did not exist before, or stood on another statement."""
    had, has = (Counter(silence[1:] for silence in side.silences) for side in (before, now))
    new, gone = has - had, had - has
    if new and gone:
        new -= _kept(new, gone, now, before)
    return frozenset(silence.line for silence in now.silences if silence[1:] in new)


_Key = tuple[str, int, Statement]


def _kept(new: Counter[_Key], gone: Counter[_Key], now: Side, before: Side) -> Counter[_Key]:
    """Count the new silences whose statement was silenced before and has only been rewritten."""
    kept: Counter[_Key] = Counter()
    left = _MOST_PAIRS
    come_by, gone_by = _grouped(new), _grouped(gone)
    for group in [statement for statement in come_by if statement in gone_by]:
        was, is_ = (side.statements.get(group[1], Counter()) for side in (before, now))
        come, went = is_ - was, was - is_
        fresh = [statement for statement in come_by[group] if statement in come]
        old = [statement for statement in gone_by[group] if statement in went]
        rivals = set(come).difference(fresh)
        left -= (len(fresh) + len(rivals)) * len(old)
        if left >= 0:
            kept.update((*group, statement) for statement in _successors(fresh, old, rivals))
    return kept


def _grouped(keys: Counter[_Key]) -> dict[tuple[str, int], list[Statement]]:
    found: dict[tuple[str, int], list[Statement]] = {}
    for text, scope, statement in keys.elements():
        found.setdefault((text, scope), []).append(statement)
    return found


def _successors(fresh: Sequence[Statement], old: list[Statement], rivals: Collection[Statement]) -> Iterator[Statement]:
    """Yield each fresh statement that is more like an old one than every rival is. Each old one serves once."""
    for statement in fresh:
        likest = max(old, key=lambda other: _likeness(other, statement), default=())
        likeness = _likeness(likest, statement)
        if likeness >= _LIKE and all(_likeness(likest, rival) <= likeness for rival in rivals):
            old.remove(likest)
            yield statement


def _likeness(left: Statement, right: Statement) -> float:
    shared = (Counter(left) & Counter(right)).total()
    return 2 * shared / (len(left) + len(right)) if shared else 0.0


def statement_at(root: "Node", comment: "Node", text: bytes) -> Statement:
    """Return the statement that a comment stands on or in. Outside Python, it may be the one behind it."""
    begin = text.rfind(b"\n", 0, comment.start_byte) + 1
    before = text[begin : comment.start_byte].rstrip()
    at = begin + len(before) - 1
    node = root.descendant_for_byte_range(at, at + 1) if before else comment
    while node is not None and node.type not in _BODIES:
        if _is_statement(node):
            return _words(node, text)
        node = node.parent
    if before or root.type == "module":
        return ()
    after = comment.next_named_sibling
    while after is not None and "comment" in after.type:
        after = after.next_named_sibling
    return () if after is None else _words(after, text)


def statements_of(root: "Node", text: bytes) -> Iterator[tuple[int, Statement]]:
    """Yield every statement with its first line, and every other node that a comment may stand before."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        within = node.type in _BODIES or node.type in _LISTS
        for child in node.named_children:
            if "comment" in child.type:
                continue
            waiting.append(child)
            if within or child.type in _PARTS:
                yield child.start_point.row + 1, _words(child, text)


def _is_statement(node: "Node") -> bool:
    if "comment" in node.type:
        return False
    return node.type in _PARTS or (node.parent is not None and node.parent.type in _BODIES)


def _words(node: "Node", text: bytes) -> Statement:
    found: list[bytes] = []
    waiting = [node]
    while waiting and len(found) < _MOST_WORDS:
        part = waiting.pop()
        if "comment" in part.type or (part is not node and (part.type in _BODIES or part.type in _PARTS)):
            continue
        if part.child_count and part.type not in _TEXTS:
            waiting.extend(reversed(part.children))
        else:
            found += _WORD.findall(text[part.start_byte : part.end_byte])
    return tuple(found)
