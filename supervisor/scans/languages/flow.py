"""
The nodes of a test that can be reached, each with the conditions it stands under.

Code after a `return` or a `raise` of the same block, and code under a condition that is the constant false, counts as
gone: a test that is cut off by one line says no more than one without those below.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from forgepool.supervisor.scans.languages.suite import name_set
from forgepool.supervisor.scans.languages.syntax import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_BLOCKS = frozenset(["block", "statement_block", "statement_list", "declaration_list", "source_file", "program"])
_ENDS = name_set(
    "return_statement raise_statement throw_statement continue_statement break_statement "
    "return_expression break_expression continue_expression"
)
_IFS = frozenset(["if_statement", "elif_clause", "if_expression"])
_LOOPS = frozenset(["while_statement", "while_expression"])
_FALSE = frozenset(["False", "false", "0", "None", "null", '""', "''", "[]", "()", "(false)", "(0)", "(null)"])


class Reached(NamedTuple):
    """A node that can be reached."""

    node: "Node"
    guards: int = 0
    swallowed: bool = False


class Dialect(Protocol):
    """What differs from language to language."""

    def swallows(self, node: "Node") -> bool:
        """Does it catch what an assertion in its body raises, and make nothing of it?"""

    def is_guard(self, node: "Node") -> bool:
        """Is it a condition inside the test, and no part of an assertion itself?"""

    def is_apart(self, node: "Node") -> bool:
        """Is it a test of its own, which is not part of the one around it?"""


def walk_reached(body: "Node", dialect: Dialect) -> Iterator[Reached]:
    """Every named node below a body that can be reached, in the order of the text."""
    waiting = _below(body, _alive(body), 0, False)
    while waiting:
        here = waiting.pop()
        node, guards, swallowed = here
        if dialect.is_apart(node):
            continue
        yield here
        if children := _alive(node):
            guards += dialect.is_guard(node)
            swallowed = swallowed or dialect.swallows(node)
            waiting.extend(_below(node, children, guards, swallowed))


def _below(node: "Node", children: "list[Node]", guards: int, swallowed: bool) -> list[Reached]:
    """Children, the first one last; what stands behind an `if` that returns stands under its condition."""
    found: list[Reached] = []
    for child in children:
        found.append(Reached(child, guards, swallowed))
        if node.type in _BLOCKS and child.type in _IFS and _returns(child):
            guards += 1
    return found[::-1]


def _returns(node: "Node") -> bool:
    body = node.child_by_field_name("consequence")
    statements = [one for one in body.named_children if "comment" not in one.type] if body is not None else []
    if len(statements) == 1 and statements[0].type == "statement_list":
        statements = statements[0].named_children
    last = statements[-1] if statements else None
    if last is not None and last.type == "expression_statement" and last.named_children:
        last = last.named_children[0]
    return last is not None and last.type in ("return_statement", "return_expression")


def is_false(condition: "Node | None") -> bool:
    """Is it spelled as a constant that never holds?"""
    return condition is not None and text_of(condition) in _FALSE


def _alive(node: "Node") -> "list[Node]":
    kind = node.type
    if kind in _BLOCKS:
        return list(_until_end(node))
    if kind in _IFS or kind in _LOOPS:
        return _branches(node)
    if kind == "for_statement" and is_false(node.child_by_field_name("right")):
        return []
    return node.named_children


def _until_end(block: "Node") -> "Iterator[Node]":
    for child in block.named_children:
        yield child
        inner = child.named_children[0] if child.type == "expression_statement" and child.named_children else child
        if inner.type in _ENDS:
            return


def _branches(node: "Node") -> "list[Node]":
    if not is_false(node.child_by_field_name("condition")):
        return list(node.named_children)
    gone = node.child_by_field_name("consequence") or node.child_by_field_name("body")
    return [child for child in node.named_children if child != gone]
