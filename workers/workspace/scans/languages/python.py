"""Tests of pytest and unittest, and the functions beside them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.languages.building import (
    Draft,
    assertion_of,
    build,
    is_false,
    mark_kind,
    value_of,
    without_empty_helpers,
)
from forgepool.workers.workspace.scans.languages.conditions import (
    JudgedCondition,
    compare,
    judge,
    negate_condition,
    relation_of,
    tolerance_of,
)
from forgepool.workers.workspace.scans.languages.python_marks import (
    SKIPS,
    Skipping,
    aliases,
    class_marks,
    decorator_marks,
    decorator_name,
    find_skip,
    module_marks,
    read_imports,
)
from forgepool.workers.workspace.scans.languages.suite import (
    Assertion,
    Mark,
    Strength,
    Suite,
    SuiteCase,
    Value,
    name_set,
)
from forgepool.workers.workspace.scans.languages.syntax import arguments_of, children_of, line_of, text_of, walk, words

if TYPE_CHECKING:
    from tree_sitter import Node

_TWO_SIDES: dict[str, str] = {
    **dict.fromkeys(
        name_set(
            "assertEqual assertEquals assertIs assertListEqual assertDictEqual assertSetEqual assertTupleEqual "
            "assertMultiLineEqual assertSequenceEqual assertCountEqual assertAlmostEqual"
        ),
        "==",
    ),
    **dict.fromkeys(name_set("assertNotEqual assertNotEquals assertIsNot assertNotAlmostEqual"), "!="),
    "assertIn": "in",
    "assertNotIn": "not in",
    "assertLess": "<",
    "assertLessEqual": "<=",
    "assertGreater": ">",
    "assertGreaterEqual": ">=",
}
_EXACT_CALLS = name_set("assert_called_once_with assert_called_with assert_has_calls assertRaisesRegex")
_BROAD = frozenset(["Exception", "BaseException"])
_GUARDS = name_set("if_statement conditional_expression while_statement match_statement except_clause")
_CATCH_ALL = _BROAD | {"AssertionError"}
_ASSERTING = re.compile(r"^(assert|check|verify|expect|ensure)", re.IGNORECASE)
_OUTCOMES = frozenset(["fail", "raises", "warns", "assertRaises", "assertWarns", "assertLogs", "deprecated_call"])
_LONGEST = 2_000
_TAKES_AWAY = re.compile(
    r"^del\s+(.+)|^(\w+)\s*=[^=]|(?:(?:globals|vars|locals)\(\)|setattr|delattr|__dict__).*?['\"](\w+)", re.DOTALL
)
_COMPOUND = name_set("if_statement try_statement with_statement else_clause except_clause block finally_clause")


@dataclass(frozen=True, slots=True)
class Python:
    """The reader of Python."""

    imported: Mapping[str, str] = field(default_factory=dict)
    """The file's own names for the test libraries and their functions, each with the real name."""

    def swallows(self, node: "Node") -> bool:
        if node.type == "try_statement":
            clauses = [child for child in node.named_children if child.type.startswith("except")]
            return any(_catches(clause) and not _answers(clause) for clause in clauses)
        if node.type == "with_statement":
            managers = text_of(node.named_children[0])
            return "suppress(" in managers and any(name in managers for name in _CATCH_ALL)
        return False

    def is_guard(self, node: "Node") -> bool:
        return node.type in _GUARDS

    def is_apart(self, node: "Node") -> bool:
        return "comment" in node.type or node.type == "decorator"

    def assertion(self, node: "Node") -> Assertion | None:
        if node.type == "assert_statement" and node.named_children:
            condition = next(child for child in node.named_children if "comment" not in child.type)
            return assertion_of(node, judge(condition), condition)
        if node.type == "raise_statement" and "AssertionError" in text_of(node):
            return assertion_of(node, JudgedCondition(relation="throws", strength=2), node)
        return _called(node) if node.type == "call" else None

    def mark(self, node: "Node") -> Mark | None:
        return find_skip(node, self.imported)

    def value(self, node: "Node") -> "tuple[str, Node] | None":
        if node.type != "assignment":
            return None
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        return (text_of(left), right) if left is not None and right is not None else None

    def rows(self, node: "Node") -> "Iterator[Node]":
        table = node.child_by_field_name("right") if node.type == "for_statement" else None
        if table is None or not any(node_.type == "assert_statement" or _is_claim(node_) for node_ in walk(node)):
            return
        if table.type in ("list", "tuple", "set"):
            yield from children_of(table)
        elif table.type == "identifier":
            yield table


def read(root: "Node") -> Suite:
    """Return what pytest or unittest collects of a module, and the rest of its functions."""
    skips: dict[str, Skipping] = {**dict.fromkeys(SKIPS, None), **dict(aliases(root))}
    gone = _shadowed(root)
    reader = Python(dict(read_imports(text_of(root))))
    cases: dict[str, SuiteCase] = {}
    support: dict[str, SuiteCase] = {}
    for draft, is_test in _definitions(root, _Around(skips=skips)):
        case = build(draft, reader)
        # As in Python, a later definition replaces an earlier one of the same name.
        cases.pop(case.name, None)
        (cases if is_test and case.name.partition("::")[0] not in gone else support)[case.name] = case
    found = Suite(
        cases=cases,
        support=support,
        marks=tuple(module_marks(root, reader.imported)),
        values=tuple(_module_values(root)),
        imports=dict(_imports(root)),
    )
    return without_empty_helpers(found)


def _imports(root: "Node") -> Iterator[tuple[str, str]]:
    """Yield each imported name, with the module it stands for or comes from."""
    for node in root.named_children:
        if node.type not in ("import_statement", "import_from_statement"):
            continue
        module = text_of(node.child_by_field_name("module_name"))
        for imported in node.children_by_field_name("name"):
            name = text_of(imported.child_by_field_name("name") or imported)
            alias = text_of(imported.child_by_field_name("alias")) or name
            yield alias, f"{module.rstrip('.')}.{name}" if module else name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """The surroundings of a definition."""

    skips: Mapping[str, Skipping]
    """Names of decorators that skip. Those that the file itself defines say how."""
    path: tuple[str, ...] = ()
    collected: bool = True
    marks: tuple[Mark, ...] = ()
    labels: tuple[str, ...] = ()


def _definitions(block: "Node", around: _Around) -> Iterator[tuple[Draft, bool]]:
    waiting = [(child, around) for child in reversed(block.named_children)]
    while waiting:
        child, here = waiting.pop()
        if child.type in _COMPOUND:
            marks = (*here.marks, *_condition(child))
            below = replace(here, marks=marks, collected=here.collected and not _is_dead(child))
            waiting.extend((node_, below) for node_ in reversed(child.named_children))
            continue
        inner = child.child_by_field_name("definition") if child.type == "decorated_definition" else child
        body = inner.child_by_field_name("body") if inner is not None else None
        if inner is None or body is None:
            continue
        below = _decorated(inner, [node_ for node_ in child.named_children if node_.type == "decorator"], here)
        if inner.type == "class_definition":
            is_collected = here.collected and _is_collected_class(inner, body)
            below = replace(below, collected=is_collected, marks=(*below.marks, *class_marks(body)))
            waiting.extend((node_, below) for node_ in reversed(body.named_children))
        elif inner.type == "function_definition":
            rows = tuple(_rows([node_ for node_ in child.named_children if node_.type == "decorator"]))
            name, labels, marks = "::".join(below.path), below.labels, below.marks
            draft = Draft(name=name, node=inner, body=body, rows=rows, marks=marks, labels=labels)
            yield draft, below.collected and below.path[-1].startswith("test")


def _decorated(definition: "Node", decorators: "list[Node]", around: _Around) -> _Around:
    names = [decorator_name(node_) for node_ in decorators]
    return replace(
        around,
        path=(*around.path, text_of(definition.child_by_field_name("name"))),
        marks=(*around.marks, *decorator_marks(decorators, around.skips)),
        labels=(*around.labels, *(name.rpartition(".")[2] for name in names if ".mark." in f".{name}")),
    )


def _is_dead(node: "Node") -> bool:
    return node.type == "if_statement" and is_false(node.child_by_field_name("condition"))


def _condition(node: "Node") -> Iterator[Mark]:
    condition = node.child_by_field_name("condition")
    if node.type == "if_statement" and condition is not None:
        text = f"if {text_of(condition)}"
        yield Mark(line=line_of(node), text=text, kind=mark_kind(text, conditional=True))


def _is_collected_class(node: "Node", body: "Node") -> bool:
    bases = text_of(node.child_by_field_name("superclasses"))
    if "TestCase" in bases:
        return True
    names = [text_of(node_.child_by_field_name("name")) for node_ in walk(body) if node_.type == "function_definition"]
    named = text_of(node.child_by_field_name("name")).startswith("Test") or "Test" in bases
    return named and "__init__" not in names and "__new__" not in names


def _table_of(comprehension: "Node") -> "Iterator[Node]":
    """Yield the name of the table that a comprehension takes all rows of."""
    clauses = [node for node in comprehension.named_children if node.type in ("for_in_clause", "if_clause")]
    table = clauses[0].child_by_field_name("right") if len(clauses) == 1 else None
    if table is not None and table.type == "identifier":
        yield table


def _rows(decorators: "list[Node]") -> "Iterator[Node]":
    for node in decorators:
        if not re.search(r"parametri[sz]e|parameterized|ddt|data$|params", decorator_name(node)):
            continue
        for argument in walk(node):
            if argument.parent is None or argument.parent.type != "argument_list":
                continue
            if argument.type in ("list", "tuple"):
                yield from children_of(argument)
            elif argument.type == "identifier":
                yield argument
            elif argument.type == "list_comprehension":
                yield from _table_of(argument)
            elif argument.type == "call" and (called := argument.child_by_field_name("function")) is not None:
                yield called


def _module_values(root: "Node") -> Iterator[Value]:
    for node in root.named_children:
        for inner in node.named_children if node.type == "expression_statement" else ():
            if (found := Python().value(inner)) is not None and found[0] != "pytestmark":
                yield value_of(found[0], found[1], inner)


def _shadowed(root: "Node") -> frozenset[str]:
    """Return the names of tests that the module removes again: `del test_a`, `test_a = None`."""
    names: set[str] = set()
    for node in root.named_children:
        if node.type in ("delete_statement", "expression_statement"):
            for found in _TAKES_AWAY.finditer(text_of(node)[:_LONGEST]):
                names.update(re.findall(r"\b[Tt]est\w*", found[1] or found[2] or found[3]))
    return frozenset(names)


def _is_claim(node: "Node") -> bool:
    return node.type == "call" and Python().assertion(node) is not None


def _called(node: "Node") -> Assertion | None:
    owner, _, name = text_of(node.child_by_field_name("function")).rpartition(".")
    if node.child_by_field_name("arguments") is None or not name:
        return None
    given = arguments_of(node)
    if name in _TWO_SIDES and len(given) >= 2:
        return _two_sided(node, name, given)
    if name in ("assertTrue", "assertFalse", "assert_") and given:
        judged = judge(given[0])
        return assertion_of(node, negate_condition(judged) if name == "assertFalse" else judged, given[0])
    if name in ("assertIsNone", "assertIsNotNone") and given:
        is_none = JudgedCondition(relation="nothing", strength=3)
        return assertion_of(
            node, is_none if name == "assertIsNone" else JudgedCondition(relation="something"), given[0]
        )
    if name in _OUTCOMES and owner in ("pytest", "self", "cls", "unittest", ""):
        body = _body_awaited(node)
        itself = body is not None and bool(body.named_children) and body.named_children[0].type == "raise_statement"
        judged = JudgedCondition(relation="throws", strength=0) if itself else _outcome(given)
        return assertion_of(node, judged, *([node, body] if body is not None else [node]))
    if not _ASSERTING.match(name):
        return None
    strength: Strength = 3 if name in _EXACT_CALLS else 1 if name == "assert_called" else 2
    return assertion_of(node, JudgedCondition(strength=strength, tolerance=tolerance_of(words(node))), node)


def _two_sided(node: "Node", name: str, given: "list[Node]") -> Assertion:
    judged = compare(relation_of(_TWO_SIDES[name]), words(given[0]), words(given[1]))
    if name == "assertSequenceEqual":
        # It accepts a tuple in place of a list.
        judged = replace(judged, strength=min(judged.strength, 2))
    return assertion_of(node, judged, given[0], given[1])


def _outcome(given: "list[Node]") -> JudgedCondition:
    """Judge an expected error: anything at all, a certain type, or a type with a certain message."""
    broad = bool(given) and text_of(given[0]) in _BROAD
    has_message = any(text_of(argument).startswith("match") for argument in given)
    strength: Strength = 3 if has_message and not broad else 1 if broad and not has_message else 2
    return JudgedCondition(relation="throws", strength=strength)


def _body_awaited(node: "Node") -> "Node | None":
    """Return the code that must raise: the body of the `with` around the call."""
    above = node.parent
    while above is not None and above.type in ("with_item", "with_clause", "as_pattern"):
        above = above.parent
    return above.child_by_field_name("body") if above is not None and above.type == "with_statement" else None


def _catches(clause: "Node") -> bool:
    kinds = [child for child in clause.named_children if child.type not in ("block", "comment")]
    return not kinds or any(word.text in _CATCH_ALL for word in words(*kinds))


def _answers(clause: "Node") -> bool:
    """Tell whether the clause fails the test itself, or checks what it caught."""
    return any(
        node.type in ("raise_statement", "assert_statement") or (node.type == "call" and Python().assertion(node))
        for node in walk(clause)
    )
