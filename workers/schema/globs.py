"""
One glob, read: which paths does it cover? Pure; no tree is looked at. Whether two meet is
`orchestrator.plan.overlap`'s.

Paths are relative to the repository's root, separated by `/`; case matters, as it does to git. In a glob

    *  ?          any run of characters, one character, never `/`; hidden files are not special
    **            as a whole segment: any number of segments, also none
    [a-z] [!a-z]  one character of these, or none of these, never `/`
    {a,b/c}       one of these, nested if need be
    src/          everything below `src`

A glob also covers what lies below the things it matches, as in a .gitignore, unless its last segment reads
as the name of a file: it has an extension, or is one of a few known names. So `src` covers `src/a.py`, yet
`src/a.py` does not meet `**/*.md` for the sake of a directory that somebody might call `a.py`. Where the
tree is known, `Tree` says of a literal name which it is; a trailing slash always says "directory".
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

from forgepool.workers.schema.segments import ATOM, DEEP, SPECIAL, BadGlob, Segment, has_extension, segment

_MOST_ALTERNATIVES = 1024
_LEADING = re.compile(r"(?:\.?/)+")
# Files nearly everywhere, though without an extension; a wrong guess costs a trailing slash in the plan.
_FILE_NAMES = frozenset(
    {
        "Makefile",
        "Dockerfile",
        "Containerfile",
        "Jenkinsfile",
        "Procfile",
        "Vagrantfile",
        "Gemfile",
        "Rakefile",
    }
    | {"Pipfile", "Justfile", "LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS", "CHANGELOG", "README"}
    | {"CONTRIBUTING", "CODEOWNERS", "VERSION", ".gitignore", ".gitattributes", ".gitmodules", ".mailmap"}
    | {".dockerignore", ".editorconfig", ".env", ".npmrc", ".nvmrc"}
)


@dataclass(frozen=True)
class Way:
    """One reading of a glob, its braces expanded: segments, `**` last where it covers what is below."""

    segments: tuple[Segment, ...]

    @cached_property
    def head(self) -> tuple[str, ...]:
        """The literal segments before the first wildcard."""
        names: list[str] = []
        for name in self.segments:
            if not isinstance(name, str):
                break
            names.append(name)
        return tuple(names)

    @cached_property
    def literal(self) -> str | None:
        """The one name it gives, which may be a directory's; None where there are wildcards."""
        rest = self.segments[len(self.head) :]
        return "/".join(self.head) if self.head and rest in ((), (DEEP,)) else None

    @cached_property
    def tail(self) -> str | None:
        """The name all that it covers ends in; None where that may differ."""
        return last if isinstance(last := self.segments[-1], str) else None

    @cached_property
    def regex(self) -> re.Pattern[str]:
        parts = [_regex_of(self.segments, at) for at in range(len(self.segments))]
        return re.compile("".join(parts), re.DOTALL)

    def matches(self, path: str) -> bool:
        name = self.literal
        if name is None:
            return self.regex.fullmatch(path) is not None
        return path == name or (self.tail is None and path.startswith(name) and path[len(name)] == "/")


@dataclass(frozen=True)
class Pattern:
    """A glob, read. Made by `parse`."""

    text: str
    ways: tuple[Way, ...]

    def __hash__(self) -> int:
        return hash(self.text)

    def matches(self, path: str) -> bool:
        path = normal(path)
        return any(way.matches(path) for way in self.ways)


@dataclass(frozen=True)
class Tree:
    """The files of a tree, and the directories they make."""

    files: frozenset[str]
    directories: frozenset[str]

    @classmethod
    def of(cls, files: Iterable[str]) -> Self:
        kept, directories = frozenset(files), set[str]()
        for name in kept:
            while (cut := name.rfind("/")) > 0 and (name := name[:cut]) not in directories:
                directories.add(name)
        return cls(kept, frozenset(directories))

    def settle(self, pattern: Pattern) -> Pattern:
        """The same pattern, its literal names known for directories or files where this tree has them."""
        return Pattern(pattern.text, tuple(self._settled(way, pattern.text) for way in pattern.ways))

    def _settled(self, way: Way, text: str) -> Way:
        if way.literal in self.directories:
            return Way((*way.head, DEEP))
        if way.literal in self.files and not text.endswith("/"):
            return Way(way.head)
        return way


@lru_cache(maxsize=65536)
def parse(glob: str, *, below: bool = True) -> Pattern:
    """
    The pattern of a glob. With `below=False` one that selects files: a last segment with wildcards matches
    names alone (`src/*` does not select `src/sub/a.py`); a plain name or a trailing slash still means all
    below.

    Raises:
        BadGlob: it leaves the repository, is unclosed, empty, negated or escaped.
    """
    if wrong := _wrong_at_sight(glob):
        raise BadGlob(glob, wrong)
    texts = _alternatives(glob) if SPECIAL.search(glob) else [glob]
    return Pattern(glob, tuple(dict.fromkeys(_way(glob, text, below) for text in texts)))


def escape(path: str) -> str:
    """A glob for one real path (`pages/[id].tsx`); `?` stands for what no glob can spell, as a backslash."""
    text = SPECIAL.sub(lambda found: "?" if found[0] == "\\" else f"[{found[0]}]", path)
    return "?" + text[1:] if text[:1] in ("!", "~", " ") else text


def exactly(path: str) -> Pattern:
    """The pattern that covers this one file and nothing below it, whatever its name looks like."""
    return Pattern(escape(path), (Way(tuple(normal(path).split("/"))),))


def normal(path: str) -> str:
    """The path without a leading `./` or `/`; "" where it leaves the repository, as nothing covers that."""
    if ".." in path and ".." in path.split("/"):
        return ""
    return path[found.end() :] if path[:1] in ("/", ".") and (found := _LEADING.match(path)) else path


def _wrong_at_sight(glob: str) -> str | None:
    if not glob.strip():
        return "it is empty; name a file, a directory or a pattern"
    if "\\" in glob:
        return "a backslash neither separates nor escapes here; write / between folders, [*] for a real *"
    if glob[0] == "!":
        return "a pattern cannot be taken back; list only what the task touches"
    if glob[0] == "~" or re.match(r"[A-Za-z]:/", glob):
        return "it lies outside the repository; write it relative to the repository's root"
    return None


def _alternatives(glob: str) -> list[str]:
    """The texts a glob stands for, its braces multiplied out."""
    outer: list[tuple[list[str], list[str]]] = []
    done: list[str] = []
    texts = [""]
    for atom in ATOM.findall(glob):
        if atom == "{":
            outer.append((done, texts))
            done, texts = [], [""]
        elif atom == "," and outer:
            done, texts = done + texts, [""]
        elif atom == "}":
            inner = _closed(glob, done, texts, bool(outer))
            done, texts = outer.pop()
            texts = [text + way for text in texts for way in inner]
        else:
            texts = [text + atom for text in texts]
        if len(texts) + len(done) > _MOST_ALTERNATIVES:
            raise BadGlob(glob, f"its braces stand for more than {_MOST_ALTERNATIVES} patterns; use wildcards")
    if outer:
        raise BadGlob(glob, "'{' is not closed; write [{] for a real one")
    return texts


def _closed(glob: str, done: list[str], texts: list[str], is_open: bool) -> list[str]:
    if not is_open:
        raise BadGlob(glob, "'}' closes nothing; write [}] for a real one")
    if not done:
        raise BadGlob(glob, "braces need two alternatives, as in {a,b}; write [{] and [}] for real ones")
    return done + texts


def _way(glob: str, text: str, below: bool) -> Way:
    if not text:
        raise BadGlob(glob, "one of its alternatives is empty; name a file or a directory in each")
    segments: list[Segment] = []
    for name in text.split("/"):
        if name == "..":
            raise BadGlob(glob, "'..' leaves the folder; write the path from the repository's root")
        if name not in ("", ".") and not (name == "**" and segments and segments[-1] is DEEP):
            segments.append(segment(glob, name))
    if not segments or text.endswith("/") or _may_be_directory(segments[-1], below):
        segments.append(DEEP)
    return Way(tuple(segments[:-1] if segments[-2:] == [DEEP, DEEP] else segments))


def _may_be_directory(last: Segment, below: bool) -> bool:
    if isinstance(last, str):
        return not has_extension(last) and last not in _FILE_NAMES
    return below and not has_extension(last)


def _regex_of(segments: tuple[Segment, ...], at: int) -> str:
    """The segment at this place as a regular expression, with the separators it brings."""
    name, rest = segments[at], segments[at + 1 :]
    if name is DEEP:
        return "(?:[^/]+/)*" if rest else "(?:/.+)?" if at else ".+"
    text = re.escape(name) if isinstance(name, str) else name.regex
    return text + ("" if rest in ((), (DEEP,)) else "/")
