"""
The scopes of a repository: which parts of it there are, and which part needs which other.

A check says by `scope` which parts it is about. Its outcome depends on these, on those they need, directly or not, and
on every path that is in no scope at all: what nobody has thought of counts for all.
"""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from forgepool.workers.schema.mistakes import Slug, nearest
from forgepool.workers.schema.orders import Message


class Scope(Message):
    """One part of a repository."""

    paths: tuple[str, ...] = Field(min_length=1)
    """Globs of what belongs to it."""
    needs: tuple[Slug, ...] = ()
    """Scopes without which it does not work: what changes one of them changes it as well."""


Scopes = Mapping[str, Scope]


def closure(names: Sequence[str], scopes: Scopes) -> frozenset[str]:
    """These, and all they need; names that are none are left out."""
    found, left = set[str](), list(names)
    while left:
        one = left.pop()
        if one in scopes and one not in found:
            found.add(one)
            left.extend(scopes[one].needs)
    return frozenset(found)


def inside(names: Sequence[str], scopes: Scopes) -> tuple[str, ...]:
    """Globs of all that these depend on."""
    mine = closure(names, scopes)
    return tuple(dict.fromkeys(glob for name in sorted(mine) for glob in scopes[name].paths))


def outside(globs: Sequence[str], scopes: Scopes) -> tuple[str, ...]:
    """Globs of the scopes that are not among these: what they cover has been thought of, and counts elsewhere."""
    return tuple(sorted({glob for scope in scopes.values() for glob in scope.paths} - set(globs)))


def unknown(names: Sequence[str], scopes: Scopes) -> Iterator[tuple[str, str]]:
    """Each of the names that is no scope, and what to do about it."""
    for name in names:
        if name not in scopes:
            meant = nearest(name, scopes)
            known = f"scopes are: {', '.join(scopes)}" if scopes else "there are none; declare it under 'scopes'"
            yield name, f"did you mean '{meant[0]}'?" if meant else known
