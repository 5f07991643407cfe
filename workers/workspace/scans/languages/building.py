"""
Build a `SuiteCase` from one function, in any language.

Only reachable code counts. Code behind a `return` or a `raise` of its block is gone, as is code under a condition
that is the constant false: one added line can switch a test off.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from forgepool.workers.workspace.scans.languages.conditions import JudgedCondition
from forgepool.workers.workspace.scans.languages.suite import (
    Assertion,
    CallSite,
    Mark,
    MarkKind,
    Suite,
    SuiteCase,
    Value,
    name_set,
)
from forgepool.workers.workspace.scans.languages.syntax import children_of, first_line, line_of, text_of, walk, words

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
    """A reachable node, and the conditions around it."""

    node: "Node"
    guards: int = 0
    swallowed: bool = False


class Dialect(Protocol):
    """The syntax that differs between languages."""

    def swallows(self, node: "Node") -> bool:
        """Tell whether the node catches what an assertion in its body raises, and ignores it."""

    def is_guard(self, node: "Node") -> bool:
        """Tell whether the node is a condition inside the test, and no part of an assertion."""

    def is_apart(self, node: "Node") -> bool:
        """Tell whether the node is a test of its own within another one."""


def walk_reached(body: "Node", dialect: Dialect) -> Iterator[Reached]:
    """Yield every reachable named node below a body, in the order of the text."""
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
    """Return the children, first one last. Code behind an `if` that returns stands under its condition."""
    found: list[Reached] = []
    for child in children:
        found.append(Reached(child, guards, swallowed))
        inner = child.named_children[0] if child.type == "expression_statement" and child.named_children else child
        if node.type in _BLOCKS and inner.type in _IFS and _returns(inner):
            guards += 1
    return found[::-1]


def _returns(node: "Node") -> bool:
    statements = children_of(node.child_by_field_name("consequence"))
    if len(statements) == 1 and statements[0].type == "statement_list":
        statements = statements[0].named_children
    last = statements[-1] if statements else None
    if last is not None and last.type == "expression_statement" and last.named_children:
        last = last.named_children[0]
    return last is not None and last.type in ("return_statement", "return_expression")


def is_false(condition: "Node | None") -> bool:
    """Tell whether the condition is a constant that never holds."""
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


_LONGEST_CALL = 1_000
"""Bytes of arguments that are read. Calls within calls repeat them."""
_CALLS = frozenset(["call", "call_expression", "method_invocation", "macro_invocation", "object_creation_expression"])
_LATER = frozenset(["lambda", "function_definition", "generator_expression"])
_AROUND = _LATER | {"boolean_operator", "await"}
_FAILING = re.compile(r"\b(?:raises|suppress|assertRaises\w*|xfail)\b")
_LAST = ("attribute", "property", "field", "name")
_PLATFORM = re.compile(r"\b(win32|cygwin|darwin|Windows|Darwin|nt|java|PyPy|pypy|windows|macos|miri|WINDOWS|MAC)\b")
_HERE = re.compile(r"\b(linux|posix|Linux|CPython|cpython|CI|environ|getenv|env)\b")


class BodyReader(Dialect, Protocol):
    """A language's reading of a test's body."""

    def assertion(self, node: "Node") -> Assertion | None: ...

    def mark(self, node: "Node") -> Mark | None: ...

    def value(self, node: "Node") -> "tuple[str, Node] | None":
        """Return a name and its assigned value, if the node is an assignment."""

    def rows(self, node: "Node") -> "Iterable[Node]":
        """Return the rows of a table in the node that the test runs through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A function and its surroundings."""

    name: str
    node: "Node"
    body: "Node | None"
    rows: "tuple[Node, ...]" = ()
    marks: tuple[Mark, ...] = ()
    labels: tuple[str, ...] = ()
    assertions: tuple[Assertion, ...] = ()
    """Assertions outside its body, such as an attribute."""


def build(draft: Draft, reader: BodyReader) -> SuiteCase:
    """Return the case of a function, with all that is reachable in it."""
    seen = list(walk_reached(draft.body, reader)) if draft.body is not None else []
    rows = [*draft.rows, *(row for each in seen for row in reader.rows(each.node))]
    assertions = (*draft.assertions, *_assertions(seen, reader))
    return SuiteCase(
        name=draft.name,
        line=line_of(draft.node),
        text=first_line(draft.node),
        words=words(draft.body),
        assertions=assertions,
        rows=tuple(row_of(row) for row in rows),
        values=tuple(_values(seen, reader, draft.name)),
        marks=(*draft.marks, *_marks(seen, reader)),
        labels=draft.labels,
        calls=tuple(dict.fromkeys(_calls(seen, draft))),
        form=_form(draft, seen),
        hollow=not assertions and not any(each.node.type in _CALLS for each in seen),
    )


def row_of(node: "Node") -> Assertion:
    """Return one row of a table in the form of an assertion."""
    return Assertion(line=line_of(node), text=first_line(node), words=words(node), relation="equal", strength=3)


def value_of(name: str, node: "Node", line: "Node") -> Value:
    return Value(line=line_of(line), text=first_line(line), name=name, words=words(node))


def values_in(root: "Node", reader: BodyReader, into: "Callable[[Node], bool]") -> tuple[Value, ...]:
    """Return the assignments below a node, but none below the nodes that `into` refuses."""
    found = ((reader.value(node), node) for node in walk(root, into=into))
    return tuple(value_of(*value, node) for value, node in found if value is not None)


def mark_of(node: "Node", kind: MarkKind) -> Mark:
    return Mark(line=line_of(node), text=first_line(node), kind=kind)


def assertion_of(node: "Node", judged: JudgedCondition, *compared: "Node | None") -> Assertion:
    """Return the assertion that a node makes, with the words of the nodes that it compares."""
    return Assertion(
        line=line_of(node),
        text=first_line(node),
        words=words(*compared),
        relation=judged.relation,
        strength=judged.strength,
        tolerance=judged.tolerance,
    )


def callee(node: "Node") -> str:
    """Return the last name of the called expression."""
    found = next((child for part in ("function", "name", "macro") if (child := node.child_by_field_name(part))), None)
    last = next((child for part in _LAST if found and (child := found.child_by_field_name(part))), found)
    return text_of(last)


def mark_kind(text: str, *, conditional: bool = False) -> Literal["skip", "sometimes", "elsewhere"]:
    """Return the kind of a skip: always, under a condition, or on a platform that the checks do not use."""
    if not conditional:
        return "skip"
    return "elsewhere" if _PLATFORM.search(text) and not _HERE.search(text) and "!=" not in text else "sometimes"


def without_empty_helpers(suite: Suite) -> Suite:
    """Return the suite without calls that only look like assertions: the called helpers assert nothing."""
    empty = {name for name, case in suite.support.items() if not case.assertions}
    simple = {name.rpartition("::")[2] for name in empty}
    mine = tuple(f"{owner}.{name}(" for owner in ("self", "cls") for name in simple)

    def is_real(assertion: Assertion) -> bool:
        if assertion.text.startswith(mine):
            return False
        at = next((i for i, word in enumerate(assertion.words) if word.text == "()"), 0)
        return at == 0 or assertion.words[at - 1].text not in simple or assertion.relation != "true"

    def clean_case(case: SuiteCase) -> SuiteCase:
        return replace(case, assertions=tuple(each for each in case.assertions if is_real(each)))

    return replace(suite, cases={name: clean_case(case) for name, case in suite.cases.items()})


def _calls(seen: list[Reached], draft: Draft) -> Iterator[CallSite]:
    """Yield the calls of a body. In Python, only its own ones count, with the conditions around them."""
    parameters = draft.node.child_by_field_name("parameters")
    names = walk(parameters) if parameters is not None else ()
    parameter_names = {text_of(name) for name in names if name.type == "identifier"}
    around: list[Node] = []
    for reached in seen:
        node = reached.node
        while around and around[-1].end_byte <= node.start_byte:
            around.pop()
        if node.type == "call" and not any(each.type in _LATER for each in around):
            name, owner = callee(node), text_of(node.child_by_field_name("function")).rpartition(".")[0]
            guards = reached.guards + sum(each.type == "boolean_operator" for each in around)
            swallowed = reached.swallowed or any(each.type == "with_statement" for each in around)
            if name not in parameter_names or owner:
                awaited = any(each.type == "await" for each in around[-1:])
                yield CallSite(name, owner, guards, swallowed, awaited, _literals(node))
        elif node.type in _CALLS and node.type != "call":
            yield CallSite(callee(node), literals=_literals(node))
        if node.type in _AROUND or (node.type == "with_statement" and _FAILING.search(_managers(node))):
            around.append(node)


def _literals(call: "Node") -> tuple[str, ...]:
    given = call.child_by_field_name("arguments")
    if given is None or given.end_byte - given.start_byte > _LONGEST_CALL:
        return ()
    return tuple(word.text for word in words(given) if word.kind == "literal")


def _managers(node: "Node") -> str:
    return text_of(node.named_children[0]) if node.named_children else ""


def _form(draft: Draft, seen: list[Reached]) -> Literal["plain", "async", "other"]:
    if draft.node.type != "function_definition":
        return "plain"
    above = draft.node.parent
    decorators = [each for each in above.named_children if each.type == "decorator"] if above is not None else []
    is_replaced = any(text_of(each) not in ("@staticmethod", "@classmethod") for each in decorators)
    if (above is not None and above.type == "decorated_definition" and is_replaced) or any(
        each.node.type == "yield" for each in seen
    ):
        return "other"
    return "async" if any(each.type == "async" for each in draft.node.children) else "plain"


def _assertions(seen: list[Reached], reader: BodyReader) -> Iterator[Assertion]:
    inside: set[int] = set()
    for reached in seen:
        if reached.node.id not in inside and (assertion := reader.assertion(reached.node)) is not None:
            inside.update(node.id for node in walk(reached.node))
            yield replace(assertion, guards=reached.guards, swallowed=reached.swallowed)


def _marks(seen: list[Reached], reader: BodyReader) -> Iterator[Mark]:
    for reached in seen:
        if (mark := reader.mark(reached.node)) is not None:
            yield (
                replace(mark, kind=mark_kind(_surroundings(reached.node), conditional=True)) if reached.guards else mark
            )


def _surroundings(node: "Node") -> str:
    while node.parent is not None:
        node = node.parent
        if (condition := node.child_by_field_name("condition")) is not None:
            return text_of(condition)
    return ""


def _values(seen: list[Reached], reader: BodyReader, name: str) -> Iterator[Value]:
    for reached in seen:
        if (value := reader.value(reached.node)) is not None:
            yield value_of(value[0], value[1], reached.node)
        elif reached.node.type == "return_statement":
            yield value_of(re.split(r"::|\.", name)[-1], reached.node, reached.node)
