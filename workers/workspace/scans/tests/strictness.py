"""Tell how much one assertion demands beside an earlier one about the same thing."""

import re
from collections import Counter
from collections.abc import Iterator

from forgepool.workers.workspace.scans.languages.suite import Assertion
from forgepool.workers.workspace.scans.tests.pairing import alpha

_TOLERABLE = 0.05
_NOTHING = frozenset(["None", "null", "nil", "undefined"])
_ENDS = frozenset(["startswith", "endswith"])
_EMPTY = re.compile(r"(?:==|===|is)(?:0|None|False|''|\[\]|\{\})?")


def is_stricter(before: Assertion, after: Assertion) -> bool:
    """Tell whether the new assertion follows from what the old one asked for and demands more: `== 5` after `> 3`."""
    names = Counter(before.names) - Counter(_ENDS)
    if after.relation != "equal" or names != Counter(after.names):
        return False
    lost = [*(Counter(before.literals) - Counter(after.literals)).elements()]
    gained = [*(Counter(after.literals) - Counter(before.literals)).elements()]
    if [text.lower() for text in gained] == ["true"] and not lost:
        return before.relation in ("true", "something")
    if before.relation == "in" and not gained:
        return _takes_one_of(before, after)
    if not gained or gained[-1] != after.literals[-1] or (lost and not _is_at_end(lost[0], before)) or len(lost) > 1:
        return False
    return _follows(before, (lost or [""])[0], gained, is_end=names != Counter(before.names))


def _follows(before: Assertion, old: str, gained: list[str], *, is_end: bool) -> bool:
    """Tell whether what was asked with the literal `old` holds for the last of the new literals."""
    new, plain = gained[-1], gained[-1].strip("'")
    if before.relation == "something":
        return old in ("", *_NOTHING) and new not in _NOTHING
    if len(gained) > 1:
        return False
    match before.relation:
        case "unequal":
            return new != old and new not in _NOTHING
        case "above" | "below":
            numbers = [_number(text) for text in (old, new)]
            low, high = numbers if before.relation == "above" else numbers[::-1]
            return low is not None and high is not None and low < high
        case "in" | "not_in":
            return bool(old) and (old.strip("'") in new) == (before.relation == "in")
        case _:
            ends = plain.startswith if "startswith" in before.names else plain.endswith
            return is_end and bool(old) and ends(old.strip("'"))


def _is_at_end(literal: str, assertion: Assertion) -> bool:
    """Tell whether a literal is what the condition compares with, and no argument: the left side of `in`."""
    return literal == assertion.literals[0 if assertion.relation in ("in", "not_in") else -1]


def _takes_one_of(before: Assertion, after: Assertion) -> bool:
    """Tell whether one value is left of several: `x == 7` after `x in (7, 8)`."""
    texts = [word.text for word in before.words]
    subject = texts.index("in") if "in" in texts else 0
    return subject > 0 and before.words[:subject] == after.words[:subject]


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else None


def is_denied(before: Assertion, after: Assertion) -> bool:
    """Tell whether what had to be there must now be empty: `x == []` after `x`."""
    rest = "".join(word.text for word in after.words[len(before.words) :])
    asked = before.relation == "true" and before.strength < 3 and after.words[: len(before.words)] == before.words
    return asked and after.relation in ("equal", "nothing") and _EMPTY.fullmatch(rest) is not None


def is_looser(before: Assertion, after: Assertion) -> bool:
    """Tell whether the new assertion accepts more values than the old one."""
    if _says_true(before, "is", after) or _says_true(before, "==", after):
        return True
    if after.tolerance > max(_TOLERABLE, 10 * before.tolerance):
        return True
    return after.strength < before.strength and not _says_true(after, "is", before)


def _says_true(exact: Assertion, operator: str, loose: Assertion) -> bool:
    """Tell whether `exact` is `f(x) is True`, which demands more than the bare `f(x)` in `loose`."""
    rest = [word.text for word in exact.words[len(loose.words) :]]
    return exact.words[: len(loose.words)] == loose.words and rest == [operator, "True"]


def stands_for(asserted: Assertion, lost: Assertion) -> bool:
    """Tell whether the assertion of a helper asks of the same thing what a lost one asked, whatever the values."""
    strict = asserted.relation == lost.relation and asserted.strength >= lost.strength
    return strict and asserted.guards <= lost.guards and not {*asserted.names}.isdisjoint(lost.names)


def is_turned(before: Assertion, after: Assertion) -> bool:
    """Tell whether both sides only changed places: `1 == f(2)` for `f(2) == 1`."""
    old = [word.text for word in before.words if word.text not in ("==", "===", "is")]
    new = [word.text for word in after.words if word.text not in ("==", "===", "is")]
    return any(old[at:] + old[:at] == new for at in range(len(old)))


def new_names(before: Assertion, after: Assertion) -> Iterator[tuple[str, str]]:
    """Yield the names that replaced others. If the form changed too, only names of constants count."""
    if alpha(before.words) == alpha(after.words):
        yield from (pair for pair in zip(before.names, after.names, strict=True) if pair[0] != pair[1])
        return
    lost = [name for name in constants(before) if name not in after.names]
    gained = [name for name in constants(after) if name not in before.names]
    yield from zip(lost, gained, strict=False)


def constants(assertion: Assertion) -> list[str]:
    """Return names that look like constants or classes, and are not called."""
    following = [*(word.text for word in assertion.words[1:]), ""]
    return [
        word.text
        for word, after in zip(assertion.words, following, strict=False)
        if word.kind == "name" and word.text[:1].isupper() and after != "()"
    ]
