"""Tests of Java: JUnit 3 to 5 and TestNG, and the assertions of AssertJ, Hamcrest, Truth and Mockito."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.languages.building import (
    Draft,
    assertion_of,
    build,
    mark_kind,
    mark_of,
    values_in,
    without_empty_helpers,
)
from forgepool.workers.workspace.scans.languages.conditions import (
    JudgedCondition,
    compare,
    judge,
    negate_condition,
    relation_of,
)
from forgepool.workers.workspace.scans.languages.suite import (
    MUST_FAIL,
    Assertion,
    Mark,
    Relation,
    Strength,
    Suite,
    SuiteCase,
    name_set,
)
from forgepool.workers.workspace.scans.languages.syntax import arguments_of, line_of, text_of, walk, words

if TYPE_CHECKING:
    from tree_sitter import Node

_TESTS = frozenset(["Test", "ParameterizedTest", "RepeatedTest", "TestFactory", "TestTemplate", "Property"])
_TYPES = frozenset(["class_declaration", "interface_declaration", "record_declaration", "enum_declaration"])
_SKIPS = re.compile(r"@(\w+\.)*(Ignore|Disabled\w*|Enabled\w*)\b|@(\w+\.)*Test\b.*enabled\s*=\s*false", re.DOTALL)
_ABORTS = re.compile(r"\bnew\s+(\w+\.)*(TestAbortedException|SkipException|AssumptionViolatedException)\b")
_EXPECTED = re.compile(r"\bexpected(?:Exceptions)?\s*=\s*\{?\s*(?:\w+\.)*(\w+)")
_ASSUMES = frozenset(["assumeTrue", "assumeFalse", "assumeThat", "assumingThat", "abort"])
_SIDES = {
    **dict.fromkeys(name_set("assertEquals assertSame assertArrayEquals assertIterableEquals assertLinesMatch"), "=="),
    **dict.fromkeys(("assertNotEquals", "assertNotSame"), "!="),
}
_ENDS: dict[str, tuple[Relation, Strength]] = {
    **dict.fromkeys(
        name_set("isEqualTo isSameAs containsExactly hasSize isEqualToComparingFieldByField"), ("equal", 3)
    ),
    **dict.fromkeys(("isNull",), ("nothing", 3)),
    **dict.fromkeys(("isTrue", "isNotNull", "isNotEmpty", "isPresent"), ("true", 1)),
    **dict.fromkeys(("isFalse",), ("false", 2)),
    **dict.fromkeys(("isLessThan", "isLessThanOrEqualTo"), ("below", 2)),
    **dict.fromkeys(("isGreaterThan", "isGreaterThanOrEqualTo"), ("above", 2)),
    **dict.fromkeys(("isNotEqualTo", "isNotSameAs"), ("unequal", 1)),
}
_CAUGHT = re.compile(r"\b(Throwable|Error|AssertionError|AssertionFailedError)\b")


class Java:
    """The reader of Java."""

    def swallows(self, node: "Node") -> bool:
        if node.type not in ("try_statement", "try_with_resources_statement"):
            return False
        clauses = (each for each in node.named_children if each.type == "catch_clause")
        return any(_CAUGHT.search(text_of(each.named_children[0])) and not _answers(each) for each in clauses)

    def is_guard(self, node: "Node") -> bool:
        return node.type in ("if_statement", "switch_expression", "while_statement", "ternary_expression")

    def is_apart(self, node: "Node") -> bool:
        return "comment" in node.type or node.type in _TYPES

    def assertion(self, node: "Node") -> Assertion | None:
        if node.type != "method_invocation" or (node.parent and node.parent.type == "method_invocation"):
            return None
        name, root = text_of(node.child_by_field_name("name")), _root(node)
        given = arguments_of(node)
        if root in ("assertThat", "assertWithMessage", "assertThatThrownBy", "then") and root != name:
            return assertion_of(node, _fluent(node, name, given), node)
        if name == "fail" or name.startswith(("assertThrows", "assertThatThrownBy")):
            broad = bool(given) and text_of(given[0]) in ("Exception.class", "Throwable.class")
            return assertion_of(node, JudgedCondition(relation="throws", strength=1 if broad else 2), *given)
        if name.startswith("assert") or root == "verify":
            compared = _without_message(name, given) or [node]
            return assertion_of(node, _plain(name, compared), *compared)
        return None

    def mark(self, node: "Node") -> Mark | None:
        if node.type == "throw_statement" and _ABORTS.search(text_of(node)):
            return mark_of(node, "skip")
        if node.type != "method_invocation" or text_of(node.child_by_field_name("name")) not in _ASSUMES:
            return None
        given = arguments_of(node)
        constant = not given or not any(word.kind == "name" for word in words(given[0]))
        return mark_of(node, "skip" if constant else mark_kind(text_of(node), conditional=True))

    def value(self, node: "Node") -> "tuple[str, Node] | None":
        if node.type != "variable_declarator":
            return None
        given = node.child_by_field_name("value")
        return (text_of(node.child_by_field_name("name")), given) if given is not None else None

    def rows(self, node: "Node") -> "Iterator[Node]":
        return iter(())


_READER = Java()


def read(root: "Node") -> Suite:
    """Return the methods that a runner of JUnit or TestNG calls, and the others beside them."""
    cases: dict[str, SuiteCase] = {}
    support: dict[str, SuiteCase] = {}
    for draft, is_test in _methods(root):
        case = build(draft, _READER)
        (cases if is_test else support)[case.name] = case
    fields = values_in(root, _READER, lambda node: node.type != "method_declaration")
    return without_empty_helpers(Suite(cases=cases, support=support, values=fields))


def _methods(root: "Node") -> Iterator[tuple[Draft, bool]]:
    waiting: list[tuple[Node, tuple[str, ...], tuple[Mark, ...]]] = [(root, (), ())]
    while waiting:
        node, path, above = waiting.pop()
        for child in node.named_children:
            annotations = _annotations(child)
            marks = (*above, *_marks(annotations))
            body = child.child_by_field_name("body")
            here = (*path, text_of(child.child_by_field_name("name")))
            if child.type in _TYPES and body is not None:
                waiting.append((body, here, marks))
            elif child.type == "method_declaration" and body is not None:
                rows = tuple(row for annotation in annotations for row in _rows(annotation))
                assertions = tuple(_attributes(annotations))
                draft = Draft(name=".".join(here), node=child, body=body, rows=rows, marks=marks, assertions=assertions)
                names = {text_of(each.child_by_field_name("name")).rpartition(".")[2] for each in annotations}
                yield draft, bool(names & _TESTS) or _is_old_style(child, here)


def _is_old_style(method: "Node", path: tuple[str, ...]) -> bool:
    above = method.parent.parent if method.parent is not None else None
    superclass = text_of(above.child_by_field_name("superclass")) if above is not None else ""
    return path[-1].startswith("test") and "TestCase" in superclass


def _annotations(node: "Node") -> "list[Node]":
    modifiers = next((child for child in node.named_children if child.type == "modifiers"), None)
    return [child for child in modifiers.named_children if "annotation" in child.type] if modifiers is not None else []


def _marks(annotations: "list[Node]") -> Iterator[Mark]:
    for node in annotations:
        text = text_of(node)
        if _SKIPS.match(text):
            conditional = re.search(r"(Disabled|Enabled)(On|If|For)", text) is not None
            yield mark_of(node, mark_kind(text, conditional=conditional))
        if (expected := _EXPECTED.search(text)) is not None:
            broad = expected[1] in ("Throwable", "Exception", "RuntimeException", "Error", "AssertionError")
            yield Mark(line=line_of(node), text=MUST_FAIL[1], kind="sometimes" if broad else "elsewhere")


def _attributes(annotations: "list[Node]") -> Iterator[Assertion]:
    """Yield the assertion in `@Test(expected = IllegalStateException.class)`: something is thrown."""
    for node in annotations:
        if _EXPECTED.search(text_of(node)):
            yield assertion_of(node, JudgedCondition(relation="throws", strength=2), node)


def _rows(annotation: "Node") -> "Iterator[Node]":
    if not re.match(r"@(\w+\.)*(ValueSource|CsvSource|EnumSource|CsvFileSource|DataProvider)", text_of(annotation)):
        return
    for node in walk(annotation):
        if node.type == "element_value_array_initializer":
            yield from node.named_children


def _root(call: "Node") -> str:
    """Return the method that a chain of calls begins with."""
    node: Node | None = call
    name = ""
    while node is not None and node.type == "method_invocation":
        name, node = text_of(node.child_by_field_name("name")), node.child_by_field_name("object")
    return name


def _without_message(name: str, given: "list[Node]") -> "list[Node]":
    """Return the arguments that are compared. JUnit 4 has the message first, JUnit 5 last."""
    count = 2 if name in _SIDES else 1
    if len(given) > count and given[0].type == "string_literal" and given[-1].type != "string_literal":
        return given[1 : count + 1]
    return given[:count]


def _plain(name: str, given: "list[Node]") -> JudgedCondition:
    if name in _SIDES and len(given) == 2:
        return compare(relation_of(_SIDES[name]), words(given[0]), words(given[1]))
    match name:
        case "assertTrue":
            return judge(given[0])
        case "assertFalse":
            return negate_condition(judge(given[0]))
        case "assertNull":
            return JudgedCondition(relation="nothing", strength=3)
        case "assertNotNull":
            return JudgedCondition(relation="something")
        case _:
            return JudgedCondition(strength=2)


def _fluent(call: "Node", name: str, given: "list[Node]") -> JudgedCondition:
    begin: Node | None = call
    while begin is not None and text_of(begin.child_by_field_name("name")) != "assertThat":
        begin = begin.child_by_field_name("object")
    subject = arguments_of(begin) if begin is not None else []
    relation, strength = _ENDS.get(name, ("true", 2))
    if relation == "equal" and subject and given:
        return compare("equal", words(subject[0]), words(given[0]))
    judged = judge(subject[0]) if subject else JudgedCondition()
    if name in ("isTrue", "isFalse") and judged.strength != 1:
        return judged if name == "isTrue" else negate_condition(judged)
    return JudgedCondition(relation=relation, strength=strength)


def _answers(clause: "Node") -> bool:
    return any(
        node.type == "throw_statement" or (node.type == "method_invocation" and _READER.assertion(node))
        for node in walk(clause)
    )
