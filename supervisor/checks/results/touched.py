"""
The tests in files that an entry changed, and who allowed the change.

If a runner does not name a test's file, the test's class tells it (`com.acme.FooTest`). So does the test's name, if the
entry removed a line with it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from forgepool.supervisor.checks.results.reports import ReportedCase, function_of
from forgepool.workers.policy.gate_file.test_paths import Role, role
from forgepool.workers.schema.globs import parse
from forgepool.worktrees.commits.diff import FileDiff

Cover = Literal["granted", "held", "none"]
"""`granted`: a person lets the task change it. `held`: the task declares it, or declares nothing at all."""

_WAIVES = frozenset({"test-removed", "test-skipped"})
"""Rules of scans: who waives one lets tests be gone, and lets none fail that is not."""
_NAME = re.compile(r"\w+")
_BETWEEN = re.compile(r"([.$/]|::)")


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
    now: str = ""
    """The entry's own name of it, where it has renamed it."""


def find_touched(
    files: Sequence[FileDiff],
    grants: Sequence[str] = (),
    holds: Sequence[str] | None = None,
    waive: Collection[str] = (),
) -> tuple[Touched, ...]:
    """`grants`, `holds` and `waive` as the entry has them."""
    return tuple(_touched(file, grants, holds, waive) for file in files)


def free_touched(touched: Sequence[Touched], bound: Collection[str]) -> tuple[Touched, ...]:
    """Return the same files; those outside these paths count as changed with permission."""
    return tuple(one if one.path in bound or one.now in bound else replace(one, cover="granted") for one in touched)


def lies_in(case: ReportedCase, touched: Touched) -> bool:
    """Tell whether this is a test of that file."""
    if case.file:
        return touched.path == case.file or touched.path.endswith(f"/{case.file}")
    group, _, name = case.id.rpartition("::")
    words = _NAME.findall(function_of(name))
    return _is_class_of(group or name, touched.path) or (bool(words) and touched.gone.issuperset(words))


def cover_of(case: ReportedCase, touched: Sequence[Touched]) -> Cover:
    """The best that covers one of the files in which the test lies; `none` where it lies in no changed one."""
    found = {each.cover for each in touched if lies_in(case, each)}
    return "granted" if "granted" in found else "held" if "held" in found else "none"


def cover_of_gone(case: ReportedCase, touched: Sequence[Touched]) -> Cover:
    """The same of a test that is there no more."""
    waived = any(each.waived and lies_in(case, each) for each in touched)
    return "granted" if waived else cover_of(case, touched)


def owners_of(cases: Sequence[ReportedCase], changed: Mapping[str, Sequence[FileDiff]]) -> tuple[str, ...]:
    """
    Return the entries with a test of their own among these: a test in a file that no other entry changes.

    A test without a file is looked for in test files alone, by its class.
    """
    found = dict[str, None]()
    for case in cases:
        owners = [one for one, files in changed.items() if any(_holds(file, case) for file in files)]
        if len(owners) == 1:
            found[owners[0]] = None
    return tuple(found)


def _holds(file: FileDiff, case: ReportedCase) -> bool:
    kind = role(file.path)
    return bool(case.file or kind == "test") and lies_in(case, Touched(path=file.path, role=kind, cover="none"))


def find_renamed_id(case: ReportedCase, touched: Sequence[Touched]) -> str | None:
    """
    Return the id of the same test in a file that the entry has renamed, where its name tells the file.

    None where it was not renamed, and where more than one changed file may be its own.
    """
    file = case.file or _group(case)
    found = [each for each in touched if each.path == file] or [
        each for each in touched if each.path.endswith(f"/{file}") or (not case.file and _is_class_of(file, each.path))
    ]
    if len(found) != 1 or not found[0].now:
        return None
    old, new = found[0].path, found[0].now
    begins = case.id.startswith(file) and old.endswith(file)
    return _id_in_file(case.id, file, old, new) if begins else _id_in_class(case.id, old, new)


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
        now=file.path if file.old_path is not None else "",
        waived=not _WAIVES.isdisjoint(waive),
        gone=frozenset(word for line in file.removed for word in _NAME.findall(line.text)),
    )


def _group(case: ReportedCase) -> str:
    return case.id.rpartition("::")[0] or case.id


def _id_in_file(test: str, file: str, old: str, new: str) -> str | None:
    """The file's name begins the id; the runner ran where this name leads to the file from."""
    folder = old.removesuffix(file)
    return new.removeprefix(folder) + test.removeprefix(file) if new.startswith(folder) else None


def _id_in_class(test: str, old: str, new: str) -> str | None:
    """The class begins the id, and is called as the file is from some folder on."""
    stem, renamed = _stem(old), _stem(new)
    parts = _BETWEEN.split(test)
    count = _shared(tuple(parts[::2]), stem)
    kept = stem[: len(stem) - count]
    if not count or renamed[: len(kept)] != kept:
        return None
    between = parts[1] if count > 1 else "."
    return between.join(renamed[len(kept) :]) + "".join(parts[2 * count - 1 :])


def _is_class_of(group: str, path: str) -> bool:
    """`tests.test_a.TestX` of `tests/test_a.py`, `com.acme.FooTest$Inner` of `src/com/acme/FooTest.java`."""
    return _shared(tuple(_BETWEEN.split(group)[::2]), _stem(path)) > 0


def _stem(path: str) -> tuple[str, ...]:
    return PurePosixPath(path).with_suffix("").parts


def _shared(words: tuple[str, ...], stem: tuple[str, ...]) -> int:
    """How many words at the beginning are, at the most, the last ones of the file's name."""
    counts = range(min(len(words), len(stem)), 0, -1)
    return next((count for count in counts if words[:count] == stem[-count:]), 0)
