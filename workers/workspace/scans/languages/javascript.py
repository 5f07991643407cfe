"""
Tests of JavaScript and TypeScript: mocha, jest, vitest, jasmine, playwright, node's own runner, ava, tap.

A test is a call of `it` or `test` with a title, and a suite is a call of `describe` or the like. The runner does not
matter.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.languages.building import (
    Draft,
    assertion_of,
    build,
    is_false,
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
    CodeToken,
    Mark,
    Relation,
    Strength,
    Suite,
    SuiteCase,
    name_set,
)
from forgepool.workers.workspace.scans.languages.syntax import (
    arguments_of,
    children_of,
    first_line,
    line_of,
    text_of,
    walk,
    words,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_TESTS = frozenset(["it", "test", "specify", "xit", "fit", "xtest", "xspecify", "Deno", "ava"])
_SUITES = frozenset(["describe", "context", "suite", "xdescribe", "fdescribe", "xcontext"])
_NO_TESTS = name_set("step use extend beforeEach afterEach beforeAll afterAll configure setTimeout")
_LONGEST = 200
_MOST_MARKS = 50
_CONDITIONAL = frozenset(["if_statement", "ternary_expression", "binary_expression"])
_TITLES = frozenset(["string", "template_string", "binary_expression"])
_ONLY = frozenset(["only", "fit", "fdescribe"])
_NOT_RUN = frozenset(
    ["skip", "todo", "fixme", "fail", "fails", "failing", "xit", "xtest", "xdescribe", "xcontext", "xspecify"]
)
_SKIPS = re.compile(r"(this|t|ctx|context|testInfo)\.(skip|todo|fixme)|(it|test)\.(skip|fixme|fail)|skip|pending")
_RENAMED = re.compile(r"\bx(?:it|test|describe)\s+as\s+(?:it|test|describe)\b")
_NAMED = re.compile(r"(\w+\.)*(it|test|describe|specify|suite|context)\.(skip|todo|fixme)")
_SOMETIMES = frozenset(["skipIf", "runIf"])
_FUNCTIONS = frozenset(["arrow_function", "function_expression", "function"])
_EXACT = name_set(
    "toBe toEqual toStrictEqual toMatchObject toHaveBeenCalledWith toHaveBeenLastCalledWith toMatchSnapshot "
    "toMatchInlineSnapshot toHaveBeenCalledTimes toHaveLength toBeCloseTo toHaveText equal eql deepEqual "
    "strictEqual deepStrictEqual is same strictSame toBeNull toBeUndefined toBeNaN toThrowErrorMatchingSnapshot"
)
_BOUNDS: dict[str, Relation] = {
    **dict.fromkeys(("toBeLessThan", "toBeLessThanOrEqual", "below", "lessThan", "isBelow"), "below"),
    **dict.fromkeys(("toBeGreaterThan", "toBeGreaterThanOrEqual", "above", "greaterThan", "isAbove"), "above"),
    **dict.fromkeys(("toContain", "toContainEqual", "include", "includes", "contain"), "in"),
}
_BARE = name_set("toBeDefined toBeTruthy toBeCalled toHaveBeenCalled ok assert true toBeOK")
_INVERTED = name_set("notEqual notStrictEqual notDeepEqual notDeepStrictEqual not notOk isNot doesNotMatch")
_ROOTS = frozenset(["expect", "assert", "should", "chai", "t", "expectTypeOf"])


class JavaScript:
    """The reader of JavaScript and TypeScript."""

    def swallows(self, node: "Node") -> bool:
        if node.type != "try_statement":
            return False
        clause = node.child_by_field_name("handler")
        return clause is not None and not any(
            each.type == "throw_statement"
            or _asserts(each)
            or text_of(each.child_by_field_name("function")) in ("done", "fail")
            for each in walk(clause)
        )

    def is_guard(self, node: "Node") -> bool:
        return node.type in ("if_statement", "ternary_expression", "switch_statement", "while_statement")

    def is_apart(self, node: "Node") -> bool:
        return node.type == "call_expression" and _kind(node) is not None

    def assertion(self, node: "Node") -> Assertion | None:
        if node.type != "call_expression" or not _asserts(node):
            return None
        chain, given = _chain(node), arguments_of(node)
        assertion = assertion_of(node, _judged(node, chain, given), *_subject(node), *given)
        words = (*assertion.words, CodeToken(kind="sign", text=chain[-1]))
        return replace(assertion, words=words, tolerance=_tolerance(chain, given))

    def mark(self, node: "Node") -> Mark | None:
        if node.type != "call_expression" or not _SKIPS.fullmatch(_callee(node)) or _function(node) is not None:
            return None
        first = next(iter(arguments_of(node)), None)
        if first is None or first.type in ("string", "template_string", "true"):
            return mark_of(node, "skip")
        # Playwright's `test.skip(condition, reason)`. Other libraries skip a number of values.
        is_one = first.type != "number" and "." in _callee(node)
        return mark_of(node, mark_kind(text_of(first), conditional=True)) if is_one else None

    def value(self, node: "Node") -> "tuple[str, Node] | None":
        if node.type != "variable_declarator":
            return None
        name, given = node.child_by_field_name("name"), node.child_by_field_name("value")
        return (text_of(name), given) if given is not None and given.type not in _FUNCTIONS else None

    def rows(self, node: "Node") -> "Iterator[Node]":
        if node.type == "for_in_statement":
            yield from _elements(node.child_by_field_name("right"))
        elif node.type == "call_expression" and _callee(node).endswith(".forEach"):
            yield from _elements(_object(node))


def read(root: "Node") -> Suite:
    """Return the tests that a file registers, and its named functions."""
    cases: dict[str, SuiteCase] = {}
    for draft in _tests(root):
        name, again = draft.name, 1
        while name in cases:
            again += 1
            name = f"{draft.name} #{again}"
        cases[name] = build(replace(draft, name=name), _READER)
    support = {case.name: case for case in (build(draft, _READER) for draft in _functions(root))}
    values = values_in(root, _READER, lambda node: node.type not in (*_FUNCTIONS, "function_declaration"))
    marks, imports = tuple(_file_marks(root)), dict(_imports(root))
    return without_empty_helpers(Suite(cases=cases, support=support, values=values, marks=marks, imports=imports))


_READER = JavaScript()


def _imports(root: "Node") -> Iterator[tuple[str, str]]:
    """Yield what is imported from other files, as `./helpers.check`; the whole of a file as `./cases.json.`."""
    for node in root.named_children:
        source = text_of(node.child_by_field_name("source")).strip("'\"")
        for name in walk(node) if node.type == "import_statement" and source.startswith(".") else ():
            if name.type == "import_specifier":
                inner = text_of(name.child_by_field_name("name"))
                yield text_of(name.child_by_field_name("alias")) or inner, f"{source}.{inner}"
            elif name.type == "identifier" and name.parent is not None and name.parent.type == "import_clause":
                yield text_of(name), f"{source}."


def _file_marks(root: "Node") -> Iterator[Mark]:
    """Yield what skips tests from outside of them: in hooks, at the top of a file, and by another name."""
    for node in walk(root, into=lambda each: each.type != "function_declaration" and not _is_test(each)):
        if (mark := _READER.mark(node)) is not None and not _is_test(node):
            yield replace(mark, kind="elsewhere") if _is_guarded(node) else mark
        if node.type == "import_statement" and _RENAMED.search(text_of(node)):
            yield mark_of(node, "skip")
        above = node.parent
        if node.type != "member_expression" or above is None or above.type in ("call_expression", "member_expression"):
            continue
        if node.end_byte - node.start_byte < _LONGEST and _NAMED.fullmatch(text_of(node)):
            # `describe.skip` by another name, or chosen by a condition.
            condition = text_of(above.child_by_field_name("condition"))
            yield mark_of(above, mark_kind(condition, conditional=bool(condition)))


def _is_guarded(node: "Node") -> bool:
    above: Node | None = node
    while above is not None and above.type not in _FUNCTIONS:
        if above.type == "if_statement":
            return True
        above = above.parent
    return False


def _is_test(node: "Node") -> bool:
    return node.type == "call_expression" and _kind(node) == "test"


def _condition(node: "Node") -> Iterator[Mark]:
    """Yield the condition under which the tests below a node are registered at all."""
    test = node.child_by_field_name("condition")
    if node.type == "binary_expression" and text_of(node.child_by_field_name("operator")) == "&&":
        test = node.child_by_field_name("left")
    if test is not None and node.type in _CONDITIONAL and test.end_byte - test.start_byte < _LONGEST:
        text = f"if {text_of(test)}"
        yield Mark(line=line_of(node), text=text, kind=mark_kind(text, conditional=not is_false(test)))


def _tests(root: "Node") -> Iterator[Draft]:
    waiting: list[tuple[Node, tuple[str, ...], tuple[Mark, ...], tuple[Node, ...]]] = [(root, (), (), ())]
    while waiting:
        node, path, above, rows = waiting.pop()
        kind = _kind(node) if node.type == "call_expression" else None
        if kind is not None:
            here = (*path, _title(node))
            own, table = (*above, *_own_marks(node)), (*rows, *_table(node))
            if kind == "test":
                yield Draft(name=" > ".join(here), node=node, body=_body(node), rows=table, marks=own)
            path, above, rows = here, own, table
        if len(above) < _MOST_MARKS:
            above = (*above, *_condition(node))
        waiting.extend((child, path, above, rows) for child in reversed(node.named_children))


def _kind(call: "Node") -> str | None:
    """Return `test` or `suite`, or None for any other call."""
    names = _callee(call).split(".")
    title = _title_node(call)
    if title is None or (names[0] not in _TESTS and names[0] not in _SUITES and names[0] != "t"):
        return None
    if _SKIPS.fullmatch(".".join(names)) and _function(call) is None and title.type not in _TITLES:
        return None
    if names[0] in _SUITES or "describe" in names or "suite" in names[1:]:
        return "suite"
    if names[0] in ("t", "Deno") and names[-1] not in ("test", "skip", "only", "todo"):
        return None
    return None if names[-1] in _NO_TESTS else "test"


def _callee(call: "Node") -> str:
    """Return `it.only` for `it.only("x", ...)`, for `it.only.each(rows)("x", ...)` and for its template form."""
    function = call.child_by_field_name("function")
    while function is not None and function.type == "call_expression":
        function = function.child_by_field_name("function")
    # A long chain of calls repeats the text of all its links, and never names a test.
    if function is None or function.end_byte - function.start_byte > _LONGEST:
        return ""
    return "".join(text_of(function).split())


def _title_node(call: "Node") -> "Node | None":
    given = arguments_of(call)
    # `skipIf(condition)` and `each(rows)` are called first, and get the title afterwards.
    if len(given) < 1 or given[0].type in (*_FUNCTIONS, "array", "object"):
        return None
    last = _callee(call).rpartition(".")[2]
    is_inner = call.child_by_field_name("function") is not None and _is_call_of(call)
    return None if is_inner or (last in _SOMETIMES and len(given) == 1 and _function(call) is None) else given[0]


def _is_call_of(call: "Node") -> bool:
    parent = call.parent
    return parent is not None and parent.type == "call_expression" and parent.child_by_field_name("function") == call


def _title(call: "Node") -> str:
    node = _title_node(call)
    return text_of(node).strip("'\"`") if node is not None else ""


def _function(call: "Node") -> "Node | None":
    return next((each for each in reversed(arguments_of(call)) if each.type in _FUNCTIONS), None)


def _body(call: "Node") -> "Node | None":
    function = _function(call)
    return function.child_by_field_name("body") if function is not None else None


def _own_marks(call: "Node") -> Iterator[Mark]:
    names = set(_callee(call).split("."))
    options = " ".join(text_of(each) for each in arguments_of(call) if each.type == "object")
    if names & _ONLY or re.search(r"\bonly\s*:\s*true", options):
        yield mark_of(call, "only")
    if names & _NOT_RUN or re.search(r"\b(skip|todo|ignore)\s*:\s*(true|['\"])", options) or _runs_no_row(call):
        yield mark_of(call, "skip")
    elif (option := re.search(r"\b(?:skip|todo|ignore)\s*:\s*(?!false\b|undefined\b)[^,}]+", options)) is not None:
        yield mark_of(call, mark_kind(option[0], conditional=True))
    if names & _SOMETIMES:
        yield mark_of(call, mark_kind(first_line(call), conditional=True))


def _runs_no_row(call: "Node") -> bool:
    inner = call.child_by_field_name("function")
    given = arguments_of(inner) if inner is not None and inner.type == "call_expression" else []
    return len(given) == 1 and given[0].type == "array" and not children_of(given[0])


def _table(call: "Node") -> "Iterator[Node]":
    inner = call.child_by_field_name("function")
    if inner is not None and inner.type == "call_expression":
        table = inner.child_by_field_name("arguments")
        if table is not None and table.type == "template_string":
            yield table
        for given in arguments_of(inner):
            yield from _elements(given)


def _elements(node: "Node | None") -> "Iterator[Node]":
    if node is not None and node.type == "identifier":
        yield node
    elif node is not None and node.type == "array":
        yield from children_of(node)


def _object(call: "Node") -> "Node | None":
    function = call.child_by_field_name("function")
    return function.child_by_field_name("object") if function is not None else None


def _chain(call: "Node") -> list[str]:
    """Return the names in a chain of calls, such as `["expect", "not", "toBe"]`."""
    names: list[str] = []
    node: Node | None = call
    while node is not None:
        if node.type == "member_expression":
            names.append(text_of(node.child_by_field_name("property")))
            node = node.child_by_field_name("object")
        elif node.type in ("call_expression", "non_null_expression", "await_expression"):
            node = node.child_by_field_name("function") or (node.named_children[0] if node.named_children else None)
        else:
            names.append(text_of(node)[:60])
            break
    return names[::-1]


def _asserts(node: "Node") -> bool:
    if node.type != "call_expression":
        return False
    parent = node.parent
    if parent is not None and parent.type == "member_expression":
        return False  # A part of a longer chain, which is read as a whole.
    chain = _chain(node)
    if chain[0] in ("t", "tap"):
        return chain[-1] in _EXACT or chain[-1] in _BARE or chain[-1] in _INVERTED or chain[-1].startswith("throws")
    return (
        (chain[0] in _ROOTS and chain != ["expect"])
        or "should" in chain
        or re.match(r"(assert|expect|verify|check)[A-Z_]", chain[-1]) is not None
    )


def _subject(call: "Node") -> "list[Node]":
    """Return the tested nodes: the arguments of `expect`, or those before `.should`."""
    node: Node | None = call
    subject: list[Node] = []
    while node is not None and node.type in ("call_expression", "member_expression", "await_expression"):
        if node.type == "call_expression" and node != call:
            subject = arguments_of(node)
        node = node.child_by_field_name("object") or node.child_by_field_name("function")
    return subject


def _judged(call: "Node", chain: list[str], given: "list[Node]") -> JudgedCondition:
    inverted = any(name in _INVERTED for name in chain[1:])
    judged = _plainly(call, chain[-1], given)
    return negate_condition(judged) if inverted else judged


def _plainly(call: "Node", last: str, given: "list[Node]") -> JudgedCondition:
    subject = _subject(call)
    sides = [*subject, *given][:2] if subject else given[:2]
    if last in _BARE:
        judged = judge(sides[0]) if sides else JudgedCondition()
        return JudgedCondition(strength=min(judged.strength, 1)) if last.startswith("to") else judged
    if last.startswith(("toThrow", "throw", "reject")):
        strength: Strength = 3 if given and not text_of(given[0]).startswith("Error") and subject else 2
        return JudgedCondition(relation="throws", strength=strength)
    if last in _EXACT or last in _INVERTED:
        if len(sides) < 2:
            constant = bool(sides) and judge(sides[0]).strength == 0
            return JudgedCondition(relation="equal", strength=0 if constant and last == "is" else 3)
        return compare(relation_of("=="), words(sides[0]), words(sides[1]))
    return JudgedCondition(relation=_BOUNDS.get(last, "true"), strength=2)


def _tolerance(chain: list[str], given: "list[Node]") -> float:
    digits = text_of(given[1]) if chain[-1] == "toBeCloseTo" and len(given) > 1 else ""
    return float(10 ** -int(digits)) if re.fullmatch(r"-?\d{1,2}", digits) else 0.0


def _functions(root: "Node") -> Iterator[Draft]:
    for node in walk(root, into=lambda each: each.type not in _FUNCTIONS):
        body = node.child_by_field_name("body")
        if node.type in ("function_declaration", "method_definition") and body is not None:
            yield Draft(name=text_of(node.child_by_field_name("name")), node=node, body=body)
        given = node.child_by_field_name("value") if node.type == "variable_declarator" else None
        if given is not None and given.type in _FUNCTIONS:
            name, body = text_of(node.child_by_field_name("name")), given.child_by_field_name("body")
            yield Draft(name=name, node=node, body=body)
