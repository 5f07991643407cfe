"""Which names a change gave to things that had others."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from forgepool.supervisor.scans.source.places import is_code
from forgepool.worktrees.commits.diff import FileDiff

_WORD = re.compile(r"[^\W\d]\w*")
_DEFINES = re.compile(
    r"\b(?:def|class|function|func|fn|const|let|var|type|interface|struct|enum|trait|static|void|int|String|boolean)"
    r"\s+(?:\([^)]*\)\s*)?([^\W\d]\w*)|^\s*([A-Z][A-Z0-9_]+)\s*[:=]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renames:
    """Words of the lines that the change takes from code and adds to it, tests apart."""

    removed: frozenset[str]
    added: frozenset[str]
    retired: frozenset[str]
    """Names whose definitions are gone, with none in their place."""

    def are_renames(self, old: str, new: str) -> bool:
        """Did the code itself drop the one name and take up the other?"""
        return old in self.removed and new in self.added


def renames_in(files: Iterable[FileDiff]) -> Renames:
    """What a change's code says of names."""
    code = [file for file in files if is_code(file.old_path or file.path) or is_code(file.path)]
    removed = [line.text for file in code for line in file.removed]
    added = [line.text for file in code for line in file.added]
    return Renames(
        removed=_words(removed),
        added=_words(added),
        retired=_defined(removed) - _defined(added),
    )


def _words(lines: Iterable[str]) -> frozenset[str]:
    return frozenset(word for line in lines for word in _WORD.findall(line))


def _defined(lines: Iterable[str]) -> frozenset[str]:
    return frozenset(found[1] or found[2] for line in lines for found in _DEFINES.finditer(line))
