"""What a task may change, as far as scans ask: its grants, which a person gave, and what it holds."""

from collections.abc import Iterable

from forgepool.supervisor.scans.subject import Subject
from forgepool.workers.schema.globs import parse

LEAVE = "; it lands only if a person grants it"
"""What is said of a change that a grant would let in."""


def is_covered(globs: Iterable[str], path: str) -> bool:
    return any(parse(glob).matches(path) for glob in globs)


def is_granted(subject: Subject, *paths: str | None) -> bool:
    """Does a person let the task change these, each of them?"""
    return all(is_covered(subject.grants, path) for path in paths if path is not None)


def is_held(subject: Subject, path: str) -> bool:
    """Is it among what the task may write? Where it declares nothing, it may write anything."""
    return subject.holds is None or is_covered(subject.holds, path)
