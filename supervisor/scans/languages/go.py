"""
Tests of Go: functions that `go test` runs, testify's suites among them; subtests belong to the test they stand in.

Go has no assertion: a test fails by what it calls. So an assertion is an `if` that leads to `t.Error`, `t.Fatal` and
their like, and what it demands is that its condition be false.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forgepool.supervisor.scans.languages.building import Draft, build, mark_kind, value_of, without_empty_helpers
from forgepool.supervisor.scans.languages.conditions import (
    JudgedCondition,
    compare,
    judge,
    negate_condition,
    relation_of,
)
from forgepool.supervisor.scans.languages.suite import (
    Assertion,
    CodeToken,
    Mark,
    Relation,
    Strength,
    Suite,
    SuiteCase,
    name_set,
)
from forgepool.supervisor.scans.languages.syntax import first_line, line_of, text_of, walk, words

if TYPE_CHECKING:
    from tree_sitter import Node

_TEST = re.compile(r"(Test|Benchmark|Fuzz|Example)($|[^a-z])")
_FAILS = re.compile(r"[tbf]\.(Error|Errorf|Fatal|Fatalf|Fail|FailNow)")
_SKIPS = re.compile(r"([tbf]|\w+\.T\(\))\.(Skip|Skipf|SkipNow)")
_LIBRARY = re.compile(r"(assert|require|is|s|suite|qt|c|check|td|\w+\.(Require|Assert)\(\))\.([A-Z]\w*)")
_SIDES: dict[str, str] = {
    **dict.fromkeys(name_set("Equal Equalf EqualValues Exactly Same JSONEq YAMLEq ElementsMatch Equals"), "=="),
    **dict.fromkeys(("NotEqual", "NotEqualf", "NotSame"), "!="),
}
_DEMANDS: dict[str, tuple[Relation, Strength]] = {
    **dict.fromkeys(("Nil", "Nilf", "NoError", "NoErrorf"), ("nothing", 3)),
    **dict.fromkeys(("NotNil", "NotNilf", "Error", "Errorf", "NotEmpty"), ("something", 1)),
    **dict.fromkeys(("ErrorIs", "ErrorAs", "ErrorContains", "EqualError", "Panics"), ("throws", 3)),
    **dict.fromkeys(("Contains", "Subset"), ("in", 2)),
}


class Go:
    """Go, as scans read it."""

    def swallows(self, node: "Node") -> bool:
        return False

    def is_guard(self, node: "Node") -> bool:
        return node.type == "if_statement" and not _is_failing(node)

    def is_apart(self, node: "Node") -> bool:
        return "comment" in node.type

    def assertion(self, node: "Node") -> Assertion | None:
        if node.type == "if_statement" and _is_failing(node):
            condition = node.child_by_field_name("condition")
            said = words(node.child_by_field_name("initializer"), condition)
            return _assertion(node, negate_condition(judge(condition)), said)
        if node.type != "call_expression":
            return None
        name = text_of(node.child_by_field_name("function"))
        if _FAILS.fullmatch(name):
            return _assertion(
                node, JudgedCondition(relation="throws", strength=2), words(node.child_by_field_name("function"))
            )
        found = _LIBRARY.fullmatch(name)
        return _called(node, found[3]) if found else None

    def mark(self, node: "Node") -> Mark | None:
        if node.type == "call_expression" and _SKIPS.fullmatch(text_of(node.child_by_field_name("function"))):
            return Mark(line=line_of(node), text=first_line(node), kind="skip")
        return None

    def value(self, node: "Node") -> "tuple[str, Node] | None":
        if node.type not in ("short_var_declaration", "var_spec", "const_spec"):
            return None
        left = node.child_by_field_name("left") or node.child_by_field_name("name")
        right = node.child_by_field_name("right") or node.child_by_field_name("value")
        return (text_of(left), right) if right is not None and "func_literal" not in _kinds(right) else None

    def rows(self, node: "Node") -> "Iterator[Node]":
        if node.type == "composite_literal" and text_of(node.child_by_field_name("type")).startswith(
            ("[]", "map[", "[...]")
        ):
            body = node.child_by_field_name("body")
            yield from (one for one in (body.named_children if body is not None else ()) if "comment" not in one.type)
        table = node.child_by_field_name("right") if node.type == "range_clause" else None
        if table is not None and table.type == "identifier":
            yield table


_READER = Go()


def read(root: "Node") -> Suite:
    """Every function that `go test` would run, the others beside it, and the file's build constraint."""
    cases: dict[str, SuiteCase] = {}
    support: dict[str, SuiteCase] = {}
    for node in root.named_children:
        if node.type in ("function_declaration", "method_declaration"):
            case = build(_draft(node), _READER)
            (cases if _is_test(node) else support)[case.name] = case
    values = tuple(
        value_of(found[0], found[1], node)
        for node in walk(root, into=lambda one: "declaration" not in one.type or one.type.startswith(("var", "const")))
        if (found := _READER.value(node)) is not None
    )
    return without_empty_helpers(Suite(cases=cases, support=support, marks=tuple(_constraints(root)), values=values))


def _draft(node: "Node") -> Draft:
    receiver = re.sub(r"\W+", " ", text_of(node.child_by_field_name("receiver"))).split()
    name = ".".join((*receiver[-1:], text_of(node.child_by_field_name("name"))))
    return Draft(name=name, node=node, body=node.child_by_field_name("body"))


def _is_test(node: "Node") -> bool:
    name = text_of(node.child_by_field_name("name"))
    if not _TEST.match(name) or name == "TestMain":
        return False
    wanted = text_of(node.child_by_field_name("parameters"))
    return node.type == "method_declaration" or "testing." in wanted or wanted == "()"


def _is_failing(node: "Node") -> bool:
    """An `if` whose body fails the test, and does so in any case."""
    body = node.child_by_field_name("consequence")
    calls = (one for one in walk(body, into=lambda it: it.type != "if_statement")) if body is not None else ()
    return any(
        one.type == "call_expression" and _FAILS.fullmatch(text_of(one.child_by_field_name("function")))
        for one in calls
    )


def _constraints(root: "Node") -> Iterator[Mark]:
    for node in root.named_children:
        if node.type == "package_clause":
            return
        if text_of(node).startswith(("//go:build", "// +build")):
            yield Mark(line=line_of(node), text=first_line(node), kind=mark_kind(text_of(node), conditional=True))


def _called(node: "Node", name: str) -> Assertion:
    arguments = node.child_by_field_name("arguments")
    given = list(arguments.named_children) if arguments is not None else []
    if given and text_of(given[0]) in ("t", "b", "f", "c", "s.T()", "suite.T()"):
        given = given[1:]
    if name in _SIDES and len(given) >= 2:
        judged = compare(relation_of(_SIDES[name]), words(given[0]), words(given[1]))
        return _assertion(node, judged, words(*given[:2]))
    if name in ("True", "Truef", "False", "Falsef") and given:
        judged = judge(given[0])
        return _assertion(node, judged if name.startswith("T") else negate_condition(judged), words(given[0]))
    relation, strength = _DEMANDS.get(name, ("true", 2))
    return _assertion(node, JudgedCondition(relation=relation, strength=strength), words(*given[:2]))


def _assertion(node: "Node", judged: JudgedCondition, said: tuple[CodeToken, ...]) -> Assertion:
    return Assertion(
        line=line_of(node), text=first_line(node), words=said, relation=judged.relation, strength=judged.strength
    )


def _kinds(node: "Node") -> set[str]:
    return {one.type for one in node.named_children}
