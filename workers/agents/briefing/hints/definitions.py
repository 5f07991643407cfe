"""
Where the identifiers that a text names are defined, by one `git grep` over the commit.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from forgepool.workers.agents.briefing.hints.hint import Hint
from forgepool.worktrees.git.git import CommitId, Git

_MOST_NAMES = 20
_MOST_PLACES = 4
"""Files that define one name, beyond which the name says nothing."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,60}")
_MIXED = re.compile(r"[A-Z]+[a-z0-9]+\w*[A-Z]|[a-z0-9]+[A-Z]|\w_\w")
"""CamelCase, camelCase, snake_case."""
_KEYWORDS = (
    "def|class|function|func|fn|struct|interface|trait|enum|type|impl|module|mod|record|protocol|object|union|namespace"
    "|const|let|var|val|static|macro_rules!|#define|create table|CREATE TABLE"
)


def find_definitions(text: str, git: Git, base: CommitId, *, timeout_s: float = 1.0) -> Iterator[Hint]:
    """
    Raises:
        GitFailed: git was not done in time, or the commit cannot be read.
    """
    names = identifiers(text)
    if not names:
        return
    files: dict[str, set[str]] = defaultdict(set)
    for path, line in _definitions(names, git, base, timeout_s):
        for name in names:
            if re.search(rf"\b{name}\b", line):
                files[name].add(path)
    for name, paths in files.items():
        if len(paths) <= _MOST_PLACES:
            for path in sorted(paths):
                yield Hint(path=path, confidence=0.8, reason=f"defines {name}", source="symbol definitions")


def identifiers(text: str) -> tuple[str, ...]:
    """What is written as one in backticks, and words that no plain sentence has; the first twenty."""
    quoted = [name for part in re.findall(r"`([^`\n]{1,200})`", text) for name in _IDENTIFIER.findall(part)]
    mixed = [name for name in _IDENTIFIER.findall(text) if _MIXED.search(name)]
    return tuple(dict.fromkeys([*quoted, *mixed]))[:_MOST_NAMES]


def _definitions(names: tuple[str, ...], git: Git, base: CommitId, timeout_s: float) -> Iterator[tuple[str, str]]:
    """Path and text of each line that defines one of the names."""
    either = "|".join(names)
    keyword = rf"(^|[^A-Za-z0-9_])({_KEYWORDS})[[:space:]]+(\([^)]*\)[[:space:]]*)?({either})([^A-Za-z0-9_]|$)"
    assigned = rf"^({either})[[:space:]]*(:[^=]*)?="
    argv = ("grep", "-I", "-z", "-E", "-e", keyword, "-e", assigned, base)
    yield from _parsed(git.run(*argv, ok=(0, 1), timeout_s=timeout_s).text, base)


def _parsed(said: str, base: str) -> Iterator[tuple[str, str]]:
    for line in said.splitlines():
        name, _, text = line.partition("\0")
        yield name.removeprefix(f"{base}:"), text
