"""The assertions of one test before and after, each with its counterpart."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from forgepool.supervisor.scans.languages.suite import Assertion
from forgepool.supervisor.scans.tests.pairing import alpha, likeness

_MOST_GUESSED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """What is still there, in whatever form; what is not; and what is new."""

    met: tuple[tuple[Assertion, Assertion], ...]
    lost: tuple[Assertion, ...]
    gained: tuple[Assertion, ...]


def match(before: Sequence[Assertion], after: Sequence[Assertion]) -> Matched:
    """The same words first, then the same but for names, then whatever is likest: an edit and no loss."""
    met: list[tuple[Assertion, Assertion]] = []
    lost, gained = list(before), list(after)
    for key in (_exactly, _but_for_names):
        lost = _join(lost, gained, met, key)
    for at, to in _guesses(lost, gained):
        met.append((lost[at], gained[to]))
    taken, given = {id(one) for one, _ in met}, {id(one) for _, one in met}
    return Matched(
        met=tuple(met),
        lost=tuple(one for one in lost if id(one) not in taken),
        gained=tuple(one for one in gained if id(one) not in given),
    )


def _exactly(one: Assertion) -> Hashable:
    return one.words, one.relation


def _but_for_names(one: Assertion) -> Hashable:
    return alpha(one.words), one.relation


def _join(
    lost: list[Assertion],
    gained: list[Assertion],
    met: list[tuple[Assertion, Assertion]],
    key: Callable[[Assertion], Hashable],
) -> list[Assertion]:
    waiting: dict[Hashable, list[Assertion]] = {}
    for one in gained:
        waiting.setdefault(key(one), []).append(one)
    rest: list[Assertion] = []
    for one in lost:
        if others := waiting.get(key(one)):
            met.append((one, others.pop(0)))
        else:
            rest.append(one)
    gained[:] = [one for others in waiting.values() for one in others]
    return rest


def _guesses(lost: Sequence[Assertion], gained: Sequence[Assertion]) -> list[tuple[int, int]]:
    if len(lost) * len(gained) > _MOST_GUESSED:
        return list(zip(range(len(lost)), range(len(gained)), strict=False))
    alike = (
        (-likeness(one.words, other.words), at, to) for at, one in enumerate(lost) for to, other in enumerate(gained)
    )
    found: dict[int, int] = {}
    for _, at, to in sorted(alike):
        if at not in found and to not in found.values():
            found[at] = to
    return list(found.items())
