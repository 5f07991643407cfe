"""Judge how much a condition demands: its relation, and whether it can be false at all."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forgepool.workers.workspace.scans.languages.suite import CodeToken, Relation, Strength, name_set
from forgepool.workers.workspace.scans.languages.syntax import text_of, words

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 12
_OPERATORS: dict[str, Relation] = {
    **dict.fromkeys(("==", "===", "is"), "equal"),
    **dict.fromkeys(("!=", "!==", "is not", "<>"), "unequal"),
    **dict.fromkeys(("<", "<="), "below"),
    **dict.fromkeys((">", ">="), "above"),
    "in": "in",
    "not in": "not_in",
}
_OPPOSITES: dict[Relation, Relation] = {
    "equal": "unequal",
    "below": "above",
    "in": "not_in",
    "true": "false",
    "nothing": "something",
}
OPPOSITE: dict[Relation, Relation] = _OPPOSITES | {other: one for one, other in _OPPOSITES.items()}
_STRENGTHS: dict[Relation, Strength] = {
    "equal": 3,
    "false": 3,
    "nothing": 3,
    "throws": 2,
    "unequal": 1,
    "something": 1,
    "true": 1,
}
_NOTHING = frozenset(["None", "null", "nil", "undefined"])
_FALSE = frozenset(["False", "false", "0", "None", "null", "nil", "undefined", "[]", "()", "{}", "''", '""'])
_CERTAIN = name_set("bool all any len isinstance callable str int Boolean")
_ANYTHING = frozenset(["ANY", "anything", "any", "anyOf", "anyObject"])
_WRAPPERS = frozenset(["parenthesized_expression", "expression_statement", "await_expression", "as_pattern", "await"])
_NEGATIONS = frozenset(["not_operator", "unary_expression"])


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCondition:
    """The demand of a condition."""

    relation: Relation = "true"
    strength: Strength = 1
    tolerance: float = 0.0


_NEVER = JudgedCondition(relation="false", strength=3, tolerance=-1.0)
"""A constant that always fails, as behind code that must not be reached."""


def judge(node: "Node | None", depth: int = 0) -> JudgedCondition:
    """Return the demand of a condition. Strength 0 stands for one that always holds."""
    while node is not None and node.type in _WRAPPERS and node.named_children:
        node = node.named_children[0]
    if node is None or depth > _DEEPEST:
        return JudgedCondition()
    if _is_constant(node):
        return _NEVER if text_of(node) in _FALSE else JudgedCondition(strength=0)
    if node.type in _NEGATIONS and text_of(node.children[0]) in ("not", "!"):
        return negate_condition(judge(node.named_children[-1], depth + 1))
    if (parts := _junction(node)) is not None:
        return _joined(parts[0], judge(parts[1], depth + 1), judge(parts[2], depth + 1))
    if (sides := _comparison(node)) is not None:
        return compare(_OPERATORS[sides[0]], words(sides[1]), words(sides[2]), or_equal="=" in sides[0])
    return _called(node)


def relation_of(operator: str) -> Relation:
    """Return the relation of an operator, in the spelling of any of the languages."""
    return _OPERATORS.get(operator, "true")


def negate_condition(judged: JudgedCondition) -> JudgedCondition:
    """Return the demand that the condition does not hold. The negation of a constant failure always holds."""
    relation = OPPOSITE.get(judged.relation, "false")
    strength: Strength = 3 if judged.strength == 0 else _STRENGTHS.get(relation, 2)
    return replace(judged, relation=relation, strength=0 if judged == _NEVER else strength)


def compare(
    relation: Relation, left: tuple[CodeToken, ...], right: tuple[CodeToken, ...], *, or_equal: bool = True
) -> JudgedCondition:
    """Return the demand of a comparison of two sides."""
    if _says_nothing(relation, left, right, or_equal):
        return JudgedCondition(relation=relation, strength=0)
    other = "".join(word.text for word in right)
    if relation in ("equal", "unequal") and other in _NOTHING:
        relation = "nothing" if relation == "equal" else "something"
    strength: Strength = _STRENGTHS.get(relation, 2)
    if relation == "equal" and other.lower() == "true":
        strength = 1
    if _ANYTHING & {word.text for word in (*left, *right) if word.kind == "name"}:
        strength = 1
    return JudgedCondition(relation=relation, strength=strength, tolerance=tolerance_of((*left, *right)))


def tolerance_of(tokens: tuple[CodeToken, ...]) -> float:
    """Return the largest tolerance that an `approx` or the like is given."""
    texts = [word.text for word in tokens]
    if not any(text in ("approx", "isclose", "allclose") for text in texts):
        return 0.0
    values = (texts[at + 2] for at, text in enumerate(texts[:-2]) if text in ("rel", "abs", "rtol", "atol"))
    return max((float(text) for text in values if re.fullmatch(r"[\d._]+(e-?\d+)?", text)), default=0.0)


def _says_nothing(
    relation: Relation, left: tuple[CodeToken, ...], right: tuple[CodeToken, ...], or_equal: bool
) -> bool:
    if not any(word.kind == "name" for word in (*left, *right)):
        return True
    # Two equal calls may return different values, so comparing them is worth a test.
    calls = any(word.text == "()" for word in (*left, *right))
    if left == right:
        return or_equal and not calls
    if relation == "above" and or_equal and [word.text for word in right] == ["0"]:
        return bool(left) and left[0].text == "len"
    spelled_out = len(right) > 1 and not calls and all(word.text != "." for word in right)
    return relation == "in" and spelled_out and len(left) == 1 and left[0] in right


def _is_constant(node: "Node") -> bool:
    tokens = words(node)
    if not tokens:
        return False
    if node.type in ("tuple", "lambda", "arrow_function", "list", "array", "dictionary") and node.named_children:
        return True
    return all(word.kind != "name" for word in tokens) and not any(word.text in _OPERATORS for word in tokens)


def _junction(node: "Node") -> "tuple[str, Node, Node] | None":
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = text_of(node.child_by_field_name("operator"))
    if left is None or right is None or operator not in ("and", "or", "&&", "||"):
        return None
    return operator, left, right


def _joined(operator: str, one: JudgedCondition, other: JudgedCondition) -> JudgedCondition:
    if operator in ("and", "&&"):
        return one if one.strength >= other.strength else other
    # The weaker side decides. A side that is the constant false leaves the other one.
    return one if one.strength <= other.strength else other


def _comparison(node: "Node") -> "tuple[str, Node, Node] | None":
    """Return the last operator of a chain of comparisons, with its two sides."""
    if node.type == "comparison_operator":
        operators = node.children_by_field_name("operators")
        sides = [child for child in node.named_children if "comment" not in child.type]
        if not operators or len(sides) < 2:
            return None
        operator = " ".join(text_of(operators[-1]).split())
        return (operator, sides[-2], sides[-1]) if operator in _OPERATORS else None
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = text_of(node.child_by_field_name("operator"))
    return (operator, left, right) if left and right and operator in _OPERATORS else None


def _called(node: "Node") -> JudgedCondition:
    """Judge a call. It demands more than existence, except for calls that no value fails."""
    callee = node.child_by_field_name("function") or node.child_by_field_name("name")
    arguments = node.child_by_field_name("arguments")
    if callee is None or arguments is None:
        return JudgedCondition()
    given = words(arguments)
    of_anything = text_of(callee) == "isinstance" and text_of(arguments).replace(" ", "").endswith(",object)")
    if text_of(callee) in _CERTAIN and (of_anything or all(word.kind != "name" for word in given)):
        return JudgedCondition(strength=0)
    return JudgedCondition(strength=2, tolerance=tolerance_of(words(node)))
