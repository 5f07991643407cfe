"""
The needs of an agent, as far as words tell: names and edited lines in a call that were shown before.

A need is lost where the request no longer shows it. This counts what would have to be read again, not failures.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pydantic import JsonValue

from forgepool.workers.context.transcript.names import input_text, names, part_text
from forgepool.workers.context.transcript.usage import length
from forgepool.workers.llm.messages import Part, ToolCall, ToolResult, Turn

_NUMBERED = re.compile(r"^\s*\d+\s*(?:[\t|:→-]|\s)\s?")
_CHANGED = re.compile(r"^[-+]")
"""The marks of diff lines, to which results are shortened."""
_OLD = ("old_string", "old_str", "old", "old_text")
_PATCH = "*** Begin Patch"
_REMOVED = re.compile(r"^-(.*)$", re.MULTILINE)
_GENERAL_PROJECTS = 3


@dataclass(frozen=True, slots=True)
class ShownSource:
    """A part of the conversation that showed something, and would be read again."""

    turn: int
    part: int
    """The indexes of the turn and the part."""
    characters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayNeed:
    name: str
    source: ShownSource
    """The newest result that shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditAnchor:
    """The text that an edit replaces."""

    lines: tuple[str, ...]
    source: ShownSource
    """The newest part that shows its longest line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The needs of all calls of one turn."""

    names: tuple[ReplayNeed, ...] = ()
    anchors: tuple[EditAnchor, ...] = ()
    """Edits whose lines the whole conversation shows."""

    @property
    def any(self) -> bool:
        return bool(self.names or self.anchors)

    @property
    def sources(self) -> frozenset[ShownSource]:
        return frozenset([*(each.source for each in self.names), *(each.source for each in self.anchors)])


@dataclass(frozen=True, slots=True)
class SeenWords:
    """The words of one text."""

    names: frozenset[str]
    lines: frozenset[str]


@lru_cache(maxsize=50_000)
def find_words(text: str) -> SeenWords:
    return SeenWords(names(text), frozenset(_lines(text)))


def general(projects: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """
    Return names for which no loss is counted, since results of three projects contain them.

    `projects` holds the texts of all results by project.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for project, texts in projects.items():
        for text in texts:
            for name in find_words(text).names:
                found[name].add(project)
    return frozenset({name for name, where in found.items() if len(where) >= _GENERAL_PROJECTS})


def needs(turns: Sequence[Turn], unimportant: frozenset[str]) -> dict[int, Needs]:
    """Return the needs by the model's turn, leaving out turns without any. `turns` are whole."""
    sources: dict[str, ShownSource] = {}
    lines: dict[str, ShownSource] = {}
    found: dict[int, Needs] = {}
    for place, turn in enumerate(turns):
        wanted = _wanted(turn.calls, sources, lines, unimportant)
        if wanted.any:
            found[place] = wanted
        for number, part in enumerate(turn.parts):
            text, source = find_words(part_text(part)), ShownSource(place, number, length(part))
            lines.update(dict.fromkeys(text.lines, source))
            if isinstance(part, ToolResult):
                sources.update(dict.fromkeys(text.names, source))
    return found


def _wanted(
    calls: Sequence[ToolCall],
    sources: Mapping[str, ShownSource],
    lines: Mapping[str, ShownSource],
    unimportant: frozenset[str],
) -> Needs:
    used = frozenset().union(*(names(input_text(call)) for call in calls)) - unimportant
    named = tuple(ReplayNeed(name=name, source=sources[name]) for name in sorted(used) if name in sources)
    olds = (old for call in calls if (old := anchor(call)) and all(line in lines for line in old))
    return Needs(names=named, anchors=tuple(EditAnchor(lines=old, source=lines[max(old, key=len)]) for old in olds))


def find_lost(wanted: Needs, visible: Sequence[SeenWords]) -> Needs:
    """Return the needs that none of the visible texts shows."""
    newest = visible[::-1]
    missing = tuple(need for need in wanted.names if not any(need.name in one.names for one in newest))
    gone = tuple(
        each for each in wanted.anchors if not all(any(line in one.lines for one in newest) for line in each.lines)
    )
    return Needs(names=missing, anchors=gone)


def words(part: Part) -> SeenWords:
    return find_words(part_text(part))


def anchor(call: ToolCall) -> tuple[str, ...]:
    """Return the lines an edit or patch replaces; none for other calls."""
    texts = [text for given in _givens(call.arguments) for text in _olds(given)]
    return tuple(dict.fromkeys(line.strip() for text in texts for line in text.splitlines() if line.strip()))


def _givens(arguments: Mapping[str, JsonValue]) -> Iterable[Mapping[str, JsonValue]]:
    """Yield the arguments, and those of each edit in a list of edits."""
    yield arguments
    several = arguments.get("edits")
    yield from (each for each in (several if isinstance(several, list) else []) if isinstance(each, dict))


def _olds(given: Mapping[str, JsonValue]) -> Iterable[str]:
    for name, value in given.items():
        if isinstance(value, str) and name in _OLD:
            yield value
        elif isinstance(value, str) and _PATCH in value:
            yield from _REMOVED.findall(value)


def _lines(text: str) -> Iterable[str]:
    for line in text.splitlines():
        if plain := line.strip():
            yield plain
            yield _NUMBERED.sub("", line).strip()
            yield _CHANGED.sub("", line).strip()
