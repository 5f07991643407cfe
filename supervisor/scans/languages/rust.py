"""
Tests of Rust: functions with an attribute that ends in `test`, wherever they stand; those of rstest and test_case too.

What stands in a macro is tokens to the grammar: the arguments of `assert!` and its like are parsed once more, as the
expressions that they are. Tests that another macro makes, as `proptest!` does, and those in documentation are not seen.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forgepool.supervisor.scans.languages.building import Draft, build, mark_kind, value_of
from forgepool.supervisor.scans.languages.conditions import JudgedCondition, compare, judge, relation_of
from forgepool.supervisor.scans.languages.suite import Assertion, CodeToken, Mark, Suite, SuiteCase
from forgepool.supervisor.scans.languages.syntax import first_line, line_of, parse, text_of, walk, words

if TYPE_CHECKING:
    from tree_sitter import Node

_TEST = re.compile(r"#\[\s*(\w+::)*(test|rstest|test_case|wasm_bindgen_test|bench|quickcheck|test_matrix)\b")
_IGNORED = re.compile(r"#\[\s*(ignore\b|cfg_attr\s*\(.*\bignore\b)", re.DOTALL)
_SIDES = {"assert_eq": "==", "assert_ne": "!=", "debug_assert_eq": "==", "debug_assert_ne": "!="}
_FAILS = frozenset(["panic", "unreachable"])


class Rust:
    """Rust, as scans read it."""

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
            return _assertion(node, compare(relation_of(operator), words(given[0]), words(given[1])), words(*given[:2]))
        if name in ("assert", "debug_assert", "prop_assert") and given:
            return _assertion(node, judge(given[0]), words(given[0]))
        if name in _FAILS:
            return _assertion(node, JudgedCondition(relation="throws", strength=2), ())
        return _assertion(node, JudgedCondition(strength=3 if "snapshot" in name else 2), words(*given))

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
            yield from (one for one in table.named_children if "comment" not in one.type)


_READER = Rust()


def read(root: "Node") -> Suite:
    """Every function that `cargo test` would run, and those beside the tests."""
    cases: dict[str, SuiteCase] = {}
    support: dict[str, SuiteCase] = {}
    for draft, is_test in _functions(root):
        case = build(draft, _READER)
        if is_test or case.assertions or "tests" in case.name.split("::")[:-1]:
            (cases if is_test else support)[case.name] = case
    values = tuple(
        value_of(found[0], found[1], node)
        for node in walk(root, into=lambda one: one.type != "function_item")
        if (found := _READER.value(node)) is not None
    )
    return Suite(cases=cases, support=support, values=values)


def _functions(root: "Node") -> Iterator[tuple[Draft, bool]]:
    waiting: list[tuple[Node, tuple[str, ...], tuple[Mark, ...]]] = [(root, (), ())]
    while waiting:
        block, path, above = waiting.pop()
        attributes: list[Node] = []
        for child in block.named_children:
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
    texts = [text_of(one) for one in attributes]
    expected = [one for one in attributes if "should_panic" in text_of(one)]
    assertions = tuple(
        _assertion(one, JudgedCondition(relation="throws", strength=3 if "expected" in text_of(one) else 2), words(one))
        for one in expected
    )
    rows = [one for one in attributes if re.match(r"#\[\s*(\w+::)*(case|test_case)\b", text_of(one))]
    draft = Draft(
        name="::".join(path),
        node=node,
        body=node.child_by_field_name("body"),
        rows=tuple(rows),
        marks=marks,
        assertions=assertions,
    )
    return draft, any(_TEST.match(text) for text in texts)


def _marks(attributes: "list[Node]") -> Iterator[Mark]:
    for node in attributes:
        text = text_of(node)
        if _IGNORED.match(text):
            conditional = "cfg_attr" in text
            yield Mark(line=line_of(node), text=first_line(node), kind=mark_kind(text, conditional=conditional))
        elif re.match(r"#\[\s*cfg\s*\(", text) and "".join(text.split()) != "#[cfg(test)]":
            yield Mark(line=line_of(node), text=first_line(node), kind=mark_kind(text, conditional=True))


def _arguments(macro: "Node") -> "list[Node]":
    """The arguments of a macro that takes expressions, as such."""
    tokens = next((one for one in macro.named_children if one.type == "token_tree"), None)
    if tokens is None:
        return []
    source = f"fn f() {{ g({text_of(tokens)[1:-1]}) }}".encode()
    root = parse("rust", source, texts=True)
    for node in walk(root) if root is not None else ():
        if node.type == "arguments":
            return [one for one in node.named_children if "comment" not in one.type]
    return []


def _assertion(node: "Node", judged: JudgedCondition, said: tuple[CodeToken, ...]) -> Assertion:
    return Assertion(
        line=line_of(node),
        text=first_line(node),
        words=said,
        relation=judged.relation,
        strength=judged.strength,
        tolerance=judged.tolerance,
    )
