"""
Tests of Go: functions that `go test` runs, and testify's suites. Subtests belong to the test around them.

Go has no assertion, as a test fails by a call. So an assertion is an `if` that leads to `t.Error`, `t.Fatal` and the
like, and it demands that its condition be false.
"""

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
    Assertion,
    Mark,
    Relation,
    Strength,
    Suite,
    SuiteCase,
    name_set,
)
from forgepool.workers.workspace.scans.languages.syntax import children_of, text_of, walk, words

if TYPE_CHECKING:
    from tree_sitter import Node

_TEST = re.compile(r"(Test|Benchmark|Fuzz|Example)($|[^a-z])")
_FAILS = re.compile(r"[tbf]\.(Error|Errorf|Fatal|Fatalf|Fail|FailNow)")
_SKIPS = re.compile(r"(\w*[tbfT]|\w+\.T\(\))\.(Skip|Skipf|SkipNow)")
_SKIPPER = re.compile(r"(\w+\.)?[sS]kip(If|Unless|When|On|In|Short|Test|CI)\w*")
"""A helper that skips, given the test."""
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
    """The reader of Go."""

    def swallows(self, node: "Node") -> bool:
        return False

    def is_guard(self, node: "Node") -> bool:
        return node.type == "if_statement" and not _is_failing(node)

    def is_apart(self, node: "Node") -> bool:
        return "comment" in node.type

    def assertion(self, node: "Node") -> Assertion | None:
        if node.type == "if_statement" and _is_failing(node):
            condition = node.child_by_field_name("condition")
            judged = negate_condition(judge(condition))
            return assertion_of(node, judged, node.child_by_field_name("initializer"), condition)
        if node.type != "call_expression":
            return None
        function = node.child_by_field_name("function")
        if _FAILS.fullmatch(text_of(function)):
            return assertion_of(node, JudgedCondition(relation="throws", strength=2), function)
        call = _LIBRARY.fullmatch(text_of(function))
        return _called(node, call[3]) if call else None

    def mark(self, node: "Node") -> Mark | None:
        if node.type != "call_expression":
            return None
        function = text_of(node.child_by_field_name("function"))
        if _SKIPS.fullmatch(function):
            return mark_of(node, "skip")
        given = [text_of(argument) for argument in children_of(node.child_by_field_name("arguments"))]
        return mark_of(node, "sometimes") if _SKIPPER.fullmatch(function) and "t" in given[:1] else None

    def value(self, node: "Node") -> "tuple[str, Node] | None":
        if node.type not in ("short_var_declaration", "var_spec", "const_spec"):
            return None
        left = node.child_by_field_name("left") or node.child_by_field_name("name")
        right = node.child_by_field_name("right") or node.child_by_field_name("value")
        if right is None or any(child.type == "func_literal" for child in right.named_children):
            return None
        return text_of(left), right

    def rows(self, node: "Node") -> "Iterator[Node]":
        kind = text_of(node.child_by_field_name("type")) if node.type == "composite_literal" else ""
        if kind.startswith(("[]", "map[", "[...]")):
            yield from children_of(node.child_by_field_name("body"))
        table = node.child_by_field_name("right") if node.type == "range_clause" else None
        if table is not None and table.type == "identifier":
            yield table


_READER = Go()


def read(root: "Node") -> Suite:
    """Return the functions that `go test` runs, the others beside them, and the file's build constraint."""
    cases: dict[str, SuiteCase] = {}
    support: dict[str, SuiteCase] = {}
    for node in root.named_children:
        if node.type in ("function_declaration", "method_declaration"):
            case = build(_draft(node), _READER)
            (cases if _is_test(node) else support)[case.name] = case
    values = values_in(
        root, _READER, lambda node: "declaration" not in node.type or node.type.startswith(("var", "const"))
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
    """Tell whether the body of an `if` fails the test in any case."""
    body = node.child_by_field_name("consequence")
    calls = (call for call in walk(body, into=lambda it: it.type != "if_statement")) if body is not None else ()
    return any(
        call.type == "call_expression" and _FAILS.fullmatch(text_of(call.child_by_field_name("function")))
        for call in calls
    )


def _constraints(root: "Node") -> Iterator[Mark]:
    is_below = False
    for node in root.named_children:
        text = text_of(node)
        is_below = is_below or node.type == "package_clause"
        if not is_below and text.startswith(("//go:build", "// +build")):
            yield mark_of(node, mark_kind(text, conditional=True))
        elif text.startswith("func TestMain(") and ".Run()" not in text:
            yield mark_of(node, "skip")


def _called(node: "Node", name: str) -> Assertion:
    arguments = node.child_by_field_name("arguments")
    given = list(arguments.named_children) if arguments is not None else []
    if given and text_of(given[0]) in ("t", "b", "f", "c", "s.T()", "suite.T()"):
        given = given[1:]
    if name in _SIDES and len(given) >= 2:
        judged = compare(relation_of(_SIDES[name]), words(given[0]), words(given[1]))
        return assertion_of(node, judged, *given[:2])
    if name in ("True", "Truef", "False", "Falsef") and given:
        judged = judge(given[0])
        return assertion_of(node, judged if name.startswith("T") else negate_condition(judged), given[0])
    relation, strength = _DEMANDS.get(name, ("true", 2))
    return assertion_of(node, JudgedCondition(relation=relation, strength=strength), *given[:2])
