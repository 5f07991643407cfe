"""One tree, with its paths found by name, by word, by what they define and by what they import."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from forgepool.workers.agents.briefing.prediction.facts import NOTHING, FileFacts

_TEST = re.compile(r"(?:^|/)(?:tests?|__tests__|spec)/|(?:^|[/_.-])(?:tests?|spec)[_.-]|(?:Tests?|Spec)\.\w+$")
_INDEX = frozenset({"__init__", "index", "mod", "lib", "main"})
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class IndexedTree:
    """A tree's paths, which may change from commit to commit."""

    def __init__(self, files: Mapping[str, str], facts: Mapping[str, FileFacts]) -> None:
        """`files` are ids of contents by path; `facts` are what is known of contents, by id."""
        self._facts = facts
        self.paths: dict[str, FileFacts] = {}
        self.by_name = _index()
        self.by_word = _index()
        self.by_module = _index()
        """By the last part of the module's path."""
        self.defining = _index()
        self.importing = _index()
        """Importers by the last part of what they import."""
        for path, content in files.items():
            self.put(path, content)

    def put(self, path: str, content: str) -> None:
        """Add the path, or replace what is at it."""
        self.drop(path)
        facts = self._facts.get(content, NOTHING)
        if facts.imports:
            folder = posixpath.dirname(path)
            facts = replace(facts, imports=frozenset(_anchored(name, folder) for name in facts.imports))
        self.paths[path] = facts
        for index, key in self._keys(path, facts):
            index[key].add(path)

    def drop(self, path: str) -> None:
        facts = self.paths.pop(path, None)
        if facts is not None:
            for index, key in self._keys(path, facts):
                index[key].discard(path)

    def _keys(self, path: str, facts: FileFacts) -> Iterator[tuple[dict[str, set[str]], str]]:
        yield self.by_name, path.rpartition("/")[2]
        yield self.by_module, _last(module_of(path))
        yield from ((self.by_word, word) for word in words_of_path(path))
        yield from ((self.defining, name) for name in facts.defines)
        yield from ((self.importing, _last(name)) for name in facts.imports)

    def importers(self, path: str) -> set[str]:
        """Return the files that import this one."""
        module = module_of(path)
        return {
            other
            for other in self.importing.get(_last(module), ())
            if other != path and any(_names(name, module) for name in self.paths[other].imports)
        }

    def imports(self, path: str) -> set[str]:
        """Return the files that this one imports."""
        found = set[str]()
        for name in self.paths[path].imports if path in self.paths else ():
            alike = self.by_module.get(_last(name), ())
            found.update(other for other in alike if other != path and _names(name, module_of(other)))
        return found

    def partners(self, path: str) -> set[str]:
        """Return the tests named after this file, or the files that this test is named after."""
        stem, test = _tested(path), is_test(path)
        alike = (self.by_module.get(name, ()) for name in _partner_names(stem, test=test))
        return {other for others in alike for other in others if is_test(other) != test and _tested(other) == stem}


def _index() -> dict[str, set[str]]:
    return defaultdict(set)


@lru_cache(maxsize=200_000)
def is_test(path: str) -> bool:
    return _TEST.search(path) is not None


@lru_cache(maxsize=200_000)
def module_of(path: str) -> str:
    """Return the path without its suffix; a package's own file stands for its folder."""
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0] or name
    return folder if stem in _INDEX and folder else posixpath.join(folder, stem)


def words_of_path(path: str) -> frozenset[str]:
    """Return the words that a sentence would use for the file: those of its name, or of a package's folder."""
    return frozenset(words_of_text(module_of(path).rpartition("/")[2]))


def words_of_text(text: str) -> Iterator[str]:
    """Return the words in lower case, compound names split, without a plural's s."""
    for piece in _PIECE.findall(text):
        word = piece.lower()
        if len(word) > 2:
            yield word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 4 else word


def _last(module: str) -> str:
    return module.rpartition("/")[2]


@lru_cache(maxsize=20_000)
def _anchored(name: str, folder: str) -> str:
    """Return the module of a relative import as a path from the root, which begins with a slash."""
    return posixpath.normpath(posixpath.join("/", folder, name)) if name.startswith(".") else name


def _names(name: str, module: str) -> bool:
    """Does an import of this name mean the module?"""
    rooted = f"/{module}"
    return rooted == name if name.startswith("/") else rooted.endswith(f"/{name}")


def _tested(path: str) -> str:
    """Return the name that a test and the file it tests share."""
    stem = _last(module_of(path))
    return re.sub(r"^tests?_|_tests?$|(?<=[a-z])(?:Tests?|Spec)$|^Test(?=[A-Z])", "", stem) if is_test(path) else stem


def _partner_names(stem: str, *, test: bool) -> Iterable[str]:
    if test:
        return (stem,)
    return (stem, f"test_{stem}", f"tests_{stem}", f"{stem}_test", f"{stem}_tests", f"{stem}Test", f"{stem}Spec")
