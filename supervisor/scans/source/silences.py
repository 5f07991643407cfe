"""
Comments that tell a tool to look away, by the statements that they stand on.

A formatter carries such a comment along with its statement, and whoever edits a statement may leave it there. One that
comes to stand on another statement silences what was not silenced before, however often it was in the file.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tree_sitter import Node

Statement = tuple[bytes, ...]
"""Its words, without layout, quotation marks and the blocks below it; none where a comment stands by itself."""

_SILENCES = re.compile(
    r"\b(?:noqa|ignore|disable|nosec|pragma|nolint|nosonar|nopmd|noinspection|expect-error|(?:pyre-|flow-?)fixme)\b",
    re.IGNORECASE,
)
_BODIES = frozenset(
    [
        *("module", "block", "program", "source_file", "statement_block", "statement_list", "class_body", "enum_body"),
        *(
            "interface_body",
            "switch_body",
            "switch_block",
            "switch_block_statement_group",
            "switch_case",
            "switch_default",
        ),
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
"""Lists in JavaScript and Go; a comment may stand before one of their elements."""
_TEXTS = frozenset(["string_content", "string_fragment", "string_literal", "interpreted_string_literal"])
"""Parts of them are no leaves."""
_WORD = re.compile(rb"\w+|[^\w\s\"'`(),;\\]+")
_LIKE = 0.3
"""The least share of words that two statements have in common where one has become the other."""
_MOST_PAIRS = 20_000
"""Pairs of statements that are compared; in a change with more, every moved comment counts as new."""
_MOST_WORDS = 400
"""Words of a statement that are looked at."""


class Silence(NamedTuple):
    """One line of such a comment."""

    line: int
    text: str
    scope: int
    """The definition that it stands in."""
    statement: Statement


class Side(Protocol):
    """A file before or after a change."""

    @property
    def silences(self) -> Sequence[Silence]: ...

    @property
    def statements(self) -> Mapping[int, Counter[Statement]]:
        """All statements, by scope."""


def is_silence(comment: str) -> bool:
    return _SILENCES.search(comment) is not None


def lines_of_new_silences(now: Side, before: Side) -> frozenset[int]:
    """The lines of silences that were not there before, or stood on another statement."""
    had, has = (Counter(one[1:] for one in side.silences) for side in (before, now))
    new, gone = has - had, had - has
    if new and gone:
        new -= _kept(new, gone, now, before)
    return frozenset(one.line for one in now.silences if one[1:] in new)


_Key = tuple[str, int, Statement]


def _kept(new: Counter[_Key], gone: Counter[_Key], now: Side, before: Side) -> Counter[_Key]:
    """Those of the new ones whose statement is one that was silenced before, and is now written otherwise."""
    kept: Counter[_Key] = Counter()
    left = _MOST_PAIRS
    come_by, gone_by = _grouped(new), _grouped(gone)
    for group in [one for one in come_by if one in gone_by]:
        was, is_ = (side.statements.get(group[1], Counter()) for side in (before, now))
        come, went = is_ - was, was - is_
        fresh = [one for one in come_by[group] if one in come]
        old = [one for one in gone_by[group] if one in went]
        rivals = set(come).difference(fresh)
        left -= (len(fresh) + len(rivals)) * len(old)
        if left >= 0:
            kept.update((*group, one) for one in _successors(fresh, old, rivals))
    return kept


def _grouped(keys: Counter[_Key]) -> dict[tuple[str, int], list[Statement]]:
    found: dict[tuple[str, int], list[Statement]] = {}
    for text, scope, statement in keys.elements():
        found.setdefault((text, scope), []).append(statement)
    return found


def _successors(fresh: Sequence[Statement], old: list[Statement], rivals: Collection[Statement]) -> Iterator[Statement]:
    """Each of the fresh ones that is liker to one of the old ones, which then is used up, than all rivals are to it."""
    for statement in fresh:
        likest = max(old, key=lambda one: _likeness(one, statement), default=())
        likeness = _likeness(likest, statement)
        if likeness >= _LIKE and all(_likeness(likest, rival) <= likeness for rival in rivals):
            old.remove(likest)
            yield statement


def _likeness(one: Statement, other: Statement) -> float:
    shared = (Counter(one) & Counter(other)).total()
    return 2 * shared / (len(one) + len(other)) if shared else 0.0


def statement_at(root: "Node", comment: "Node", text: bytes) -> Statement:
    """The statement that a comment stands on or in; else, but for Python, the one before which it stands."""
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
    """Every statement, with the number of its first line; every other node before which a comment may stand, too."""
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
        one = waiting.pop()
        if "comment" in one.type or (one is not node and (one.type in _BODIES or one.type in _PARTS)):
            continue
        if one.child_count and one.type not in _TEXTS:
            waiting.extend(reversed(one.children))
        else:
            found += _WORD.findall(text[one.start_byte : one.end_byte])
    return tuple(found)
