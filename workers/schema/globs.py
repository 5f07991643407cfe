"""
The globs of plans, gate files and policies: which paths a glob covers. `orchestrator.plan.overlap` compares two globs.

Paths are relative to the repository's root, separated by `/`; case matters, as it does to git. In a glob

    *  ?          any run of characters, one character, never `/`; hidden files are not special.
    **            as a whole segment: any number of segments, also none.
    [a-z] [!a-z]  one character of these, or none of these, never `/`.
    {a,b/c}       one of these, nested if need be.
    src/          everything below `src`.

A glob also covers everything below its matches, as in a .gitignore, unless its last segment looks like a file: it has
an extension, or is one of a few known names. So `src` covers `src/a.py`. `Tree` tells files from folders where the
tree is known. A trailing slash always means a folder.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise, takewhile
from typing import Self, TypeVar

Charset = tuple[tuple[int, int], ...]
"""Disjoint ranges of code points in ascending order, without `/`."""
Unit = TypeVar("Unit")

_ANY: Charset = ((0, 0x2E), (0x30, 0x10FFFF))
_LAST = 0x10FFFF
SPECIAL = re.compile(r"[*?\[{}\\]")
ATOM = re.compile(r"\[[!^]?+\]?+[^\]/]*\]|.", re.DOTALL)
"""A character class, whose first `]` may be a member, or any single character."""


class BadGlob(ValueError):
    """A glob that cannot be read; the message says what is wrong and what would be right."""

    def __init__(self, glob: str, wrong: str) -> None:
        super().__init__(f"glob '{glob}': {wrong}")
        self.glob = glob


@dataclass(frozen=True)
class Wild:
    """A segment with wildcards. A unit is a set of characters, or None for `*`; `**` has no units."""

    text: str
    units: tuple[Charset | None, ...] = field(compare=False)

    @cached_property
    def regex(self) -> str:
        """A regular expression whose groups are atomic, so that no name takes exponential time."""
        runs = [""]
        for unit in self.units:
            if unit is None:
                runs.append("")
            else:
                runs[-1] += _class_regex(unit)
        if not any(runs):
            return "[^/]+"
        first, *middle = runs
        last = [f"[^/]*{middle.pop()}"] if middle else []
        return "".join([first, *(f"(?>[^/]*?{run})" for run in middle), *last])

    @cached_property
    def names(self) -> re.Pattern[str]:
        return re.compile(self.regex)

    @cached_property
    def ends(self) -> tuple[str, str]:
        """The literal text before the first wildcard, and the text after the last wildcard reversed."""
        return _literal_start(self.units), _literal_start(self.units[::-1])


Segment = str | Wild
DEEP = Wild("**", ())
"""Any number of segments, including none. The only instance, so it is compared by identity."""


@lru_cache(maxsize=65536)
def segment(glob: str, text: str) -> Segment:
    """
    Read one segment of a glob.

    Raises:
        BadGlob: `**` is not alone, or a class is unclosed, empty, backwards, or of a kind that is not known.
    """
    if text == "**":
        return DEEP
    if not SPECIAL.search(text):
        return text
    atoms = ATOM.findall(text)
    if any(one == two == "*" for one, two in pairwise(atoms)):
        raise BadGlob(glob, "'**' must be a whole segment; write **/*.py instead of **.py")
    units = tuple(_unit(glob, atom) for atom in atoms)
    if all(unit and len(unit) == 1 and unit[0][0] == unit[0][1] for unit in units):
        return "".join(chr(unit[0][0]) for unit in units if unit)
    return Wild(text, units)


def has_extension(name: Segment) -> bool:
    """Report whether a name has a literal `.` after its first character."""
    return "." in (name[1:] if isinstance(name, str) else ATOM.findall(name.text)[1:])


def names_meet(a: Segment, b: Segment) -> bool:
    """Report whether one name can match both segments. Neither of them is `**`."""
    if isinstance(a, str):
        return a == b if isinstance(b, str) else b.names.fullmatch(a) is not None
    if isinstance(b, str):
        return a.names.fullmatch(b) is not None
    for one, other in zip(a.ends, b.ends, strict=True):
        if not (one.startswith(other) or other.startswith(one)):
            return False
    return _wilds_meet(a, b)


def meet_in_order(a: Sequence[Unit], b: Sequence[Unit], star: Unit, one_meets: Callable[[Unit, Unit], bool]) -> bool:
    """
    Report whether two sequences have a common reading; `star` stands for any run of units.

    `row[j]` tells whether the units of `a` read so far and the first j units of `b` have a common reading.
    """
    row = [True]
    for unit in b:
        row.append(row[-1] and unit is star)
    for mine in a:
        new = [row[0] and mine is star]
        for at, theirs in enumerate(b):
            if mine is star or theirs is star:
                new.append(row[at + 1] or new[at])
            else:
                new.append(row[at] and one_meets(mine, theirs))
        if True not in new:
            return False
        row = new
    return row[-1]


@lru_cache(maxsize=65536)
def _wilds_meet(a: Wild, b: Wild) -> bool:
    return meet_in_order(a.units, b.units, None, _units_meet)


def _literal_start(units: Sequence[Charset | None]) -> str:
    text = ""
    for unit in units:
        if not unit or len(unit) > 1 or unit[0][0] != unit[0][1]:
            break
        text += chr(unit[0][0])
    return text


def _units_meet(a: Charset | None, b: Charset | None) -> bool:
    return a is not None and b is not None and bool(_both(a, b))


def _unit(glob: str, atom: str) -> Charset | None:
    match atom:
        case "*":
            return None
        case "?":
            return _ANY
        case "[":
            raise BadGlob(glob, "'[' is not closed; write [[] for a real one")
        case _ if len(atom) == 1:
            return ((ord(atom), ord(atom)),)
        case _:
            return _charset(glob, atom)


def _charset(glob: str, atom: str) -> Charset:
    inside = atom[1:-1]
    if "[:" in inside:
        raise BadGlob(glob, "classes like [:alpha:] are not known; write the ranges, as in [a-z]")
    negated, ranges = inside[0] in "!^", list[tuple[int, int]]()
    for first, last in re.findall(r"(.)(?:-(.))?", inside[negated:], re.DOTALL):
        if last and last < first:
            raise BadGlob(glob, f"the range {first}-{last} is empty; write {last}-{first}")
        ranges.append((ord(first), ord(last or first)))
    others = _complement(ranges)
    if not (found := _both(others if negated else _complement(others), _ANY)):
        raise BadGlob(glob, f"no name has a character of {atom}; name one that a name can have")
    return found


def _complement(ranges: Iterable[tuple[int, int]]) -> Charset:
    found, at = list[tuple[int, int]](), 0
    for low, high in sorted(ranges):
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    return (*found, (at, _LAST)) if at <= _LAST else tuple(found)


def _both(a: Charset, b: Charset) -> Charset:
    pairs = ((max(x[0], y[0]), min(x[1], y[1])) for x in a for y in b)
    return tuple((low, high) for low, high in pairs if low <= high)


def _class_regex(unit: Charset) -> str:
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in unit) + "]"


_MOST_ALTERNATIVES = 1024
_LEADING = re.compile(r"(?:\.?/)+")
# Files nearly everywhere, though without an extension; a wrong guess costs a trailing slash in the plan.
_FILE_NAMES = frozenset(
    {"Makefile", "Dockerfile", "Containerfile", "Jenkinsfile", "Procfile", "Vagrantfile", "Gemfile", "Rakefile"}
    | {"Pipfile", "Justfile", "LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS", "CHANGELOG", "README"}
    | {"CONTRIBUTING", "CODEOWNERS", "VERSION", ".gitignore", ".gitattributes", ".gitmodules", ".mailmap"}
    | {".dockerignore", ".editorconfig", ".env", ".npmrc", ".nvmrc"}
)


@dataclass(frozen=True)
class Way:
    """One alternative of a glob's braces, as segments; the last is `**` where it covers all that lies below."""

    segments: tuple[Segment, ...]

    @cached_property
    def head(self) -> tuple[str, ...]:
        """The literal segments before the first wildcard."""
        return tuple(map(str, takewhile(lambda name: isinstance(name, str), self.segments)))

    @cached_property
    def literal(self) -> str | None:
        """The only path it names, a file's or a folder's; None where it has wildcards."""
        rest = self.segments[len(self.head) :]
        return "/".join(self.head) if self.head and rest in ((), (DEEP,)) else None

    @cached_property
    def tail(self) -> str | None:
        """The last name of every path it covers; None where that may differ."""
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
    """A glob that `parse` has read."""

    text: str
    ways: tuple[Way, ...]

    def __hash__(self) -> int:
        return hash(self.text)

    def matches(self, path: str) -> bool:
        path = normal(path)
        return any(way.matches(path) for way in self.ways)


@dataclass(frozen=True)
class Tree:
    """The files of a tree and the folders that hold them."""

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
        """Decide for each literal path of a pattern whether it is a file or a folder, where this tree has it."""
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
    Read a glob. With `below=False` a last segment with wildcards matches files alone: `src/*` does not cover
    `src/sub/a.py`. A plain name or a trailing slash still covers all that lies below.

    Raises:
        BadGlob: it leaves the repository, is unclosed, empty, negated or escaped.
    """
    if wrong := _wrong_at_sight(glob):
        raise BadGlob(glob, wrong)
    texts = _alternatives(glob) if SPECIAL.search(glob) else [glob]
    return Pattern(glob, tuple(dict.fromkeys(_way(glob, text, below) for text in texts)))


def escape(path: str) -> str:
    """Return a glob for one real path (`pages/[id].tsx`), with `?` for a character no glob can spell."""
    text = SPECIAL.sub(lambda found: "?" if found[0] == "\\" else f"[{found[0]}]", path)
    return "?" + text[1:] if text[:1] in ("!", "~", " ") else text


def exactly(path: str) -> Pattern:
    """Return the pattern that covers this one path and nothing below it."""
    return Pattern(escape(path), (Way(tuple(normal(path).split("/"))),))


def normal(path: str) -> str:
    """Return the path without a leading `./` or `/`; "", which no glob covers, where it leaves the repository."""
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
    """Return the segment at this place as a regular expression, with its separators."""
    name, rest = segments[at], segments[at + 1 :]
    if name is DEEP:
        return "(?:[^/]+/)*" if rest else "(?:/.+)?" if at else ".+"
    text = re.escape(name) if isinstance(name, str) else name.regex
    return text + ("" if rest in ((), (DEEP,)) else "/")
