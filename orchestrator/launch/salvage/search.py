"""
The search for the largest green set of a change's parts. Pure: it asks about sets, and the caller has the gate answer.

Most parts are good and few are bad, so the whole is tried first, and what is bad is found by halving: about log2(n)
questions for each of them, as a bisection of commits needs. Halving takes parts apart that need each other, and then
calls good ones bad. So a part that is found bad is tried once with those that share its names, and all that were left
out are tried again at the end, alone and together, until none of them can be added.

Why not ddmin: it finds a smallest failing set. Each of its rounds asks about every part, and a change with two
unrelated faults needs it twice.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

Parts = frozenset[int]
"""Indexes of parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsVerdict:
    """The gate's answer on a set of parts."""

    green: bool
    blamed: Parts = frozenset()
    """Parts that the gate names as the reason; a hint, for which they are left out first."""


Search = Generator[Parts, PartsVerdict, Parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRelations:
    """Parts that may need each other."""

    names: Sequence[frozenset[bytes]]
    """By part, the names that it brings in or takes out."""
    files: Sequence[str]

    def kin(self, part: int, among: Parts) -> Parts:
        """Return the part with those that share a name with it."""
        own = self.names[part]
        return frozenset(one for one in among if one == part or not own.isdisjoint(self.names[one]))

    def groups(self, parts: Parts) -> Iterator[Parts]:
        """Yield sets to try together: each part alone, then those that share a name, then those of one file."""
        ordered = sorted(parts)
        yield from (frozenset([one]) for one in ordered)
        yield from (self.kin(one, parts) for one in ordered)
        by_file: Mapping[str, set[int]] = {self.files[one]: set() for one in ordered}
        for one in ordered:
            by_file[self.files[one]].add(one)
        yield from map(frozenset, by_file.values())


def find_green(relations: PartRelations) -> Search:
    """
    Ask about sets of parts; return the last that was green.

    No part can be added to it alone, nor all that share a name with one, nor all of one file. The caller answers
    repeated questions from memory.
    """
    green, out, rest = Parts(), Parts(), list(range(len(relations.files)))
    while rest:
        verdict = yield green.union(rest)
        if verdict.green:
            green = green.union(rest)
            break
        blamed = verdict.blamed.intersection(rest)
        if blamed and len(blamed) < len(rest):
            out, rest = out | blamed, [one for one in rest if one not in blamed]
            continue
        at = yield from _find_first_bad(green, rest)
        bad, green, rest = rest[at], green.union(rest[:at]), rest[at + 1 :]
        together = relations.kin(bad, out.union(rest, [bad]))
        if len(together) > 1 and (yield green | together).green:
            green, out, rest = green | together, out - together, [one for one in rest if one not in together]
        else:
            out |= {bad}
    return (yield from _grow(relations, green, out))


def _find_first_bad(green: Parts, rest: Sequence[int]) -> Generator[Parts, PartsVerdict, int]:
    """Return the index of a part with which the parts before it are red; all of them together are."""
    low, high = 0, len(rest)
    while high - low > 1:
        middle = (low + high) // 2
        if (yield green.union(rest[:middle])).green:
            low = middle
        else:
            high = middle
    return low


def _grow(relations: PartRelations, green: Parts, out: Parts) -> Search:
    while out:
        before = green
        for group in relations.groups(out):
            if not group <= green and (yield green | group).green:
                green |= group
        if green == before:
            break
        out -= green
    return green
