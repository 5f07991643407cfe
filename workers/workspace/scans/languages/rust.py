"""
Tests of Rust: functions with an attribute that ends in `test`, anywhere, and those of rstest and test_case.

The contents of a macro are tokens to the grammar. The arguments of `assert!` and the like are parsed again, as
expressions. Tests made by other macros, such as `proptest!`, and those in documentation are not seen.
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
)
from forgepool.workers.workspace.scans.languages.conditions import JudgedCondition, compare, judge, relation_of
from forgepool.workers.workspace.scans.languages.suite import MUST_FAIL, Assertion, Mark, Suite, SuiteCase
from forgepool.workers.workspace.scans.languages.syntax import children_of, parse, text_of, walk, words

if TYPE_CHECKING:
    from tree_sitter import Node

_TEST = re.compile(r"#\[\s*(\w+::)*(test|rstest|test_case|wasm_bindgen_test|bench|quickcheck|test_matrix)\b")
_IGNORED = re.compile(r"#!?\[\s*(ignore\b|cfg_attr\s*\(.*\bignore\b)", re.DOTALL)
_SIDES = {"assert_eq": "==", "assert_ne": "!=", "debug_assert_eq": "==", "debug_assert_ne": "!="}
_FAILS = frozenset(["panic", "unreachable"])


class Rust:
    """The reader of Rust."""

    def swallows(self, node: "Node") -> bool:
        return node.type == "call_expression" and "catch_unwind" in text_of(node.child_by_field_name("function"))

    def is_guard(self, node: "Node") -> bool:
        return node.type in ("if_expression", "match_expression", "while_expression")

    def is_apart(self, node: "Node") -> bool:
        return "comment" in node.type

    def assertion(self, node: "Node") -> Assertion | None:
        if node.type != "macro_invocation":
            return None
        name = text_of(node.child_by_field_name("macro")).rpartition("::")[2]
        if not name.startswith(("assert", "debug_assert", "prop_assert")) and name not in _FAILS:
            return None
        given = _arguments(node)
        if name.removeprefix("prop_") in _SIDES and len(given) >= 2:
            operator = _SIDES[name.removeprefix("prop_")]
            judged = compare(relation_of(operator), words(given[0]), words(given[1]))
            return assertion_of(node, judged, *given[:2])
        if name in ("assert", "debug_assert", "prop_assert") and given:
            return assertion_of(node, judge(given[0]), given[0])
        if name in _FAILS:
            return assertion_of(node, JudgedCondition(relation="throws", strength=2))
        return assertion_of(node, JudgedCondition(strength=3 if "snapshot" in name else 2), *given)

    def mark(self, node: "Node") -> Mark | None:
        return None

    def value(self, node: "Node") -> "tuple[str, Node] | None":
        if node.type not in ("let_declaration", "const_item", "static_item"):
            return None
        name = node.child_by_field_name("pattern") or node.child_by_field_name("name")
        given = node.child_by_field_name("value")
        return (text_of(name), given) if given is not None else None

    def rows(self, node: "Node") -> "Iterator[Node]":
        table = node.child_by_field_name("value") if node.type == "for_expression" else None
        if table is not None and table.type == "reference_expression":
            table = table.named_children[-1]
        if table is not None and table.type == "array_expression":
            yield from children_of(table)


_READER = Rust()


def read(root: "Node") -> Suite:
    """Return the functions that `cargo test` runs, and those beside the tests."""
    cases: dict[str, SuiteCase] = {}
    support: dict[str, SuiteCase] = {}
    for draft, is_test in _functions(root):
        case = build(draft, _READER)
        if is_test or case.assertions or "tests" in case.name.split("::")[:-1]:
            (cases if is_test else support)[case.name] = case
    values = values_in(root, _READER, lambda node: node.type != "function_item")
    return Suite(cases=cases, support=support, values=values)


def _functions(root: "Node") -> Iterator[tuple[Draft, bool]]:
    waiting: list[tuple[Node, tuple[str, ...], tuple[Mark, ...]]] = [(root, (), ())]
    while waiting:
        block, path, above = waiting.pop()
        attributes: list[Node] = []
        for child in block.named_children:
            if child.type == "inner_attribute_item":
                above = (*above, *_marks([child]))
            if child.type == "attribute_item":
                attributes.append(child)
                continue
            if "comment" in child.type:
                continue
            body = child.child_by_field_name("body")
            marks = (*above, *_marks(attributes))
            here = (*path, text_of(child.child_by_field_name("name") or child.child_by_field_name("type")))
            if child.type in ("mod_item", "impl_item") and body is not None:
                waiting.append((body, here, marks))
            elif child.type == "function_item" and body is not None:
                yield _draft(child, here, attributes, marks)
            attributes = []


def _draft(
    node: "Node", path: tuple[str, ...], attributes: "list[Node]", marks: tuple[Mark, ...]
) -> tuple[Draft, bool]:
    assertions = tuple(
        assertion_of(each, JudgedCondition(relation="throws", strength=3 if "expected" in text_of(each) else 2), each)
        for each in attributes
        if "should_panic" in text_of(each)
    )
    rows = tuple(each for each in attributes if re.match(r"#\[\s*(\w+::)*(case|test_case)\b", text_of(each)))
    body = node.child_by_field_name("body")
    if assertions:
        # A failed assertion is a panic, too.
        asserts = body is not None and any(_READER.assertion(each) is not None for each in walk(body))
        marks = (*marks, Mark(line=assertions[0].line, text=MUST_FAIL[0], kind="sometimes" if asserts else "elsewhere"))
    draft = Draft(name="::".join(path), node=node, body=body, rows=rows, marks=marks, assertions=assertions)
    return draft, any(_TEST.match(text_of(each)) for each in attributes)


def _marks(attributes: "list[Node]") -> Iterator[Mark]:
    for node in attributes:
        text = text_of(node)
        if _IGNORED.match(text):
            yield mark_of(node, mark_kind(text, conditional="cfg_attr" in text))
        elif re.match(r"#!?\[\s*cfg\s*\(", text) and "".join(text.split()) not in ("#[cfg(test)]", "#![cfg(test)]"):
            yield mark_of(node, mark_kind(text, conditional=True))


def _arguments(macro: "Node") -> "list[Node]":
    """Return the arguments of a macro that takes expressions."""
    tokens = next((each for each in macro.named_children if each.type == "token_tree"), None)
    if tokens is None:
        return []
    source = f"fn f() {{ g({text_of(tokens)[1:-1]}) }}".encode()
    root = parse("rust", source, texts=True)
    for node in walk(root) if root is not None else ():
        if node.type == "arguments":
            return children_of(node)
    return []
