"""
Which tests lie in what an entry changed, and who lets it change them.

Where a runner does not say in which file a test is, the file is told by the test's class (`com.acme.FooTest`), or by
the test's name in a line that the entry took away.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from supervisor.results.reports import Case, function_of
from supervisor.results.test_paths import Role, role
from workers.globs import parse
from worktrees.diff import FileDiff

Cover = Literal["granted", "held", "none"]
"""`granted`: a person lets the task change it. `held`: the task declares it, or declares nothing at all."""

_WAIVES = frozenset({"test-removed", "test-skipped"})
"""Rules of scans: who waives one lets tests be gone, and lets none fail that is not."""
_NAME = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """A file that the entry changes; by the tip's name, and where it has none, by its own."""

    path: str
    role: Role | None
    cover: Cover
    gone: frozenset[str] = frozenset()
    """Words in the lines that were taken out of it."""
    waived: bool = False
    """A person lets tests be taken out of it."""


def touched_by(
    files: Sequence[FileDiff],
    grants: Sequence[str] = (),
    holds: Sequence[str] | None = None,
    waive: Collection[str] = (),
) -> tuple[Touched, ...]:
    """`grants`, `holds` and `waive` as the entry has them."""
    return tuple(_touched(file, grants, holds, waive) for file in files)


def lies_in(case: Case, touched: Touched) -> bool:
    """Whether this is a test of that file."""
    if case.file:
        return touched.path == case.file or touched.path.endswith(f"/{case.file}")
    group, _, name = case.id.rpartition("::")
    words = _NAME.findall(function_of(name))
    return _is_class_of(group or name, touched.path) or (bool(words) and touched.gone.issuperset(words))


def cover_of(case: Case, touched: Sequence[Touched]) -> Cover:
    """The best that covers one of the files in which the test lies; `none` where it lies in no changed one."""
    found = {each.cover for each in touched if lies_in(case, each)}
    return "granted" if "granted" in found else "held" if "held" in found else "none"


def cover_of_gone(case: Case, touched: Sequence[Touched]) -> Cover:
    """The same of a test that is there no more."""
    waived = any(each.waived and lies_in(case, each) for each in touched)
    return "granted" if waived else cover_of(case, touched)


def covers(globs: Sequence[str], path: str) -> bool:
    return any(parse(glob).matches(path) for glob in globs)


def _touched(file: FileDiff, grants: Sequence[str], holds: Sequence[str] | None, waive: Collection[str]) -> Touched:
    path = file.old_path or file.path
    kind = role(path) or role(file.path)
    is_held = holds is None or covers(holds, path)
    return Touched(
        path=path,
        role=kind,
        cover="granted" if covers(grants, path) else "held" if is_held else "none",
        waived=not _WAIVES.isdisjoint(waive),
        gone=frozenset(word for line in file.removed for word in _NAME.findall(line.text)),
    )


def _is_class_of(group: str, path: str) -> bool:
    """`tests.test_a.TestX` of `tests/test_a.py`, `com.acme.FooTest$Inner` of `src/com/acme/FooTest.java`."""
    stem = PurePosixPath(path).with_suffix("").parts
    words = tuple(re.split(r"[.$/]|::", group))
    return any(words[:count] == stem[-count:] for count in range(1, min(len(words), len(stem)) + 1))
