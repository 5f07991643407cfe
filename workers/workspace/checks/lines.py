"""
The grouping of checks into checkouts, and their order. Pure.

A check finds in its checkout the files left by the checks it uses, directly or not, and by no other check. So a
**line** is a check behind all it uses. A check that two others use runs in the lines of both, and its result counts in
the first alone. In one shared checkout the second would find files of the first. A candidate's test run could use
those to disarm it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.globs import parse

Cost = Callable[[CheckDefinition], float | None]
"""Seconds that a check took when it was last run; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckGroup:
    """Checks for one checkout, each behind what it uses."""

    checks: tuple[CheckDefinition, ...]
    decides: frozenset[str]
    """Names of those whose verdict is that of this line; the others are run for the sake of what they leave."""

    @property
    def name(self) -> str:
        return self.checks[-1].name


def line_of(check: CheckDefinition, checks: Sequence[CheckDefinition]) -> tuple[CheckDefinition, ...]:
    """Return the checks it uses, directly or not, each behind its own needs; then the check."""
    by_name = {each.name: each for each in checks}
    found: dict[str, CheckDefinition] = {}

    def add(one: CheckDefinition, above: frozenset[str]) -> None:
        for name in one.uses:
            if name in by_name and name not in above:
                add(by_name[name], above | {name})
        found.setdefault(one.name, one)

    add(check, frozenset({check.name}))
    return tuple(found.values())


def lines_of(checks: Sequence[CheckDefinition], cost: Cost = lambda check: None) -> tuple[CheckGroup, ...]:
    """
    All checks, each decided once: cheap ones first, what uses another directly behind it.

    A check costs what its definition says, else what `cost` says. Of those that neither knows, and of equal ones, the
    order is that in which they are written.
    """
    ranked = [check for _, check in sorted(enumerate(checks), key=lambda each: (_seconds(each[1], cost), each[0]))]
    rank = {check.name: at for at, check in enumerate(ranked)}
    ways = sorted((line_of(check, checks) for check in ranked), key=lambda way: [rank[each.name] for each in way])
    longest = [way for way in ways if not any(_begins(other, way) and len(other) > len(way) for other in ways)]
    decided: set[str] = set()
    found: list[CheckGroup] = []
    for way in longest:
        mine = {each.name for at, each in enumerate(way, start=1) if way[:at] == line_of(each, checks)} - decided
        decided |= mine
        found.append(CheckGroup(checks=way, decides=frozenset(mine)))
    return tuple(found)


def _begins(way: tuple[CheckDefinition, ...], beginning: tuple[CheckDefinition, ...]) -> bool:
    return way[: len(beginning)] == beginning


def _seconds(check: CheckDefinition, cost: Cost) -> float:
    known = cost(check) if check.cost_s is None else check.cost_s
    return inf if known is None else known


def match_inputs(check: CheckDefinition, checks: Sequence[CheckDefinition]) -> Callable[[str], bool] | None:
    """Which paths are among the inputs of a check; None where all are."""
    line = line_of(check, checks)
    if not all(each.paths for each in line):
        return None
    mine = [parse(glob) for each in line for glob in (*each.paths, *(cached.key for cached in each.cache))]
    anybodys = [parse(glob) for each in checks for glob in (*each.paths, *each.elsewhere)]
    return lambda path: any(glob.matches(path) for glob in mine) or not any(glob.matches(path) for glob in anybodys)


def label_of(label: str, line: Sequence[CheckDefinition]) -> str:
    """Logs of a line of several bear the name of what it is run for: one of them may be run in another line too."""
    return label if len(line) == 1 else f"{label}-for-{line[-1].name}"
