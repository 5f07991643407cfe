"""
Files that a text names: by path, by the end of a path, by name, or as a module.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from forgepool.workers.agents.briefing.hints.hint import Hint

_WORD = re.compile(r"`([^`\n]{1,200})`|([\w./@+-]{2,200})")
_TELLING = re.compile(r"/|\w\.\w|^\.\w|^[A-Z]")
"""A name that is no ordinary word: it has a slash, a dot, or a capital as in Makefile."""
_SOURCE = "the task's words"
_MOST_ALIKE = 3
"""Files of one name, beyond which the name says nothing."""


def find_named_files(text: str, paths: Sequence[str]) -> Iterator[Hint]:
    known = frozenset(paths)
    by_name = _grouped(paths, lambda path: path.rpartition("/")[2])
    by_module = _grouped(paths, lambda path: re.sub(r"(?:/__init__)?\.\w+$", "", path).replace("/", "."))
    for word in words(text):
        if not _TELLING.search(word):
            continue
        if word in known:
            yield Hint(path=word, confidence=0.95, reason="the task names it", source=_SOURCE)
        else:
            yield from _by_name(word, by_name.get(word.rpartition("/")[2], []))
            yield from _by_module(word, by_module)


def words(text: str) -> list[str]:
    """What could be a name of something, each once, in order."""
    found: dict[str, None] = {}
    for quoted, plain in _WORD.findall(text):
        for word in (quoted, *re.findall(r"[\w./@+-]{2,200}", quoted)) if quoted else (plain,):
            found.setdefault(word.strip().removeprefix("./").rstrip(".").rstrip("/"))
    return [word for word in found if word]


def _by_name(word: str, alike: Sequence[str]) -> Iterator[Hint]:
    if "/" in word:
        alike = [path for path in alike if path.endswith(f"/{word}")]
    if not 0 < len(alike) <= _MOST_ALIKE:
        return
    confidence = 0.85 if len(alike) == 1 else 0.75
    which = "" if len(alike) == 1 else f", as {len(alike)} files are called"
    for path in alike:
        yield Hint(path=path, confidence=confidence, reason=f"the task names {word}{which}", source=_SOURCE)


def _by_module(word: str, by_module: dict[str, list[str]]) -> Iterator[Hint]:
    """`pkg.part` and `pkg.part.name` are `pkg/part.py`, wherever the packages lie."""
    if "." not in word or "/" in word:
        return
    for module in (word, word.rpartition(".")[0]):
        if "." in module and len(found := by_module.get(module, [])) == 1:
            yield Hint(path=found[0], confidence=0.85, reason=f"the task names {word}", source=_SOURCE)
            return


def _grouped(paths: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        groups[key(path)].append(path)
    return groups
