"""The names in a text, identifiers and paths, and the count of needed names that a view did not show."""

import builtins
import json
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources

from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
# Looks behind, so that a long run of letters without a slash is gone through once and not from each letter on.
_PATH = re.compile(r"(?<![A-Za-z0-9_.-])[A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+)+")
_BEFORE = r"export|default|public|private|protected|static|async|pub(?:\([^)]*\))?"
_KINDS = r"def|class|function|func|fn|struct|enum|trait|interface|type|impl|module|macro_rules!"
_DEFINED = re.compile(
    rf"^[ \t]*(?:\d+[\t:|→-]?[ \t]*)?(?:(?:{_BEFORE})\s+)*(?:{_KINDS})\s+(?:\([^)\n]*\)\s*)?([A-Za-z_]\w*)",
    re.MULTILINE,
)
_LANGUAGES = frozenset([*keyword.kwlist, *dir(builtins), "self", "args", "kwargs", "null", "true", "false"])


@cache
def general_names() -> frozenset[str]:
    """
    Return names that say nothing about their origin: keywords, built-ins, and names that are common in the recorded
    runs of three unrelated projects (django, pytest, sphinx).
    """
    listed = resources.files("forgepool.workers.context").joinpath("general_names.txt").read_text(encoding="utf-8")
    return _LANGUAGES | frozenset(listed.split())


@lru_cache(maxsize=20_000)
def names(text: str) -> frozenset[str]:
    """Return the identifiers of four or more characters and the paths in a text."""
    paths = (path.removeprefix("./").rstrip("/.") for path in _PATH.findall(text))
    return frozenset([*_NAME.findall(text), *(path for path in paths if "/" in path)]) - general_names()


def find_definitions(text: str) -> list[str]:
    """Return the names of the functions, classes and types defined in a piece of code, in order."""
    return list(dict.fromkeys(_DEFINED.findall(text)))


def input_text(call: ToolCall) -> str:
    """Return a call's arguments as text, without JSON syntax."""
    return "\n".join(value if isinstance(value, str) else json.dumps(value) for value in call.arguments.values())


def part_text(part: Part) -> str:
    """Return the text of a part; empty for blocks only their vendor understands."""
    match part:
        case Text(text=text) | ToolResult(text=text):
            return text
        case ToolCall():
            return input_text(part)
        case _:
            return ""


@dataclass(slots=True)
class Losses:
    calls: int = 0
    """Model turns that needed a name from an earlier result."""
    hit: int = 0
    """The number of those turns that needed a name the view did not show."""
    _sources: set[str] = field(default_factory=set)
    _newest: dict[str, int] = field(default_factory=dict)
    """The index of the newest turn that holds each name."""
    _head: frozenset[str] = frozenset()
    _cut: int = 1

    def take(self, place: int, turn: Turn) -> None:
        """Take a turn, or a piece of a user's turn."""
        if turn.role == "assistant":
            self._judge(turn)
        for part in turn.parts:
            found = names(part_text(part))
            self._newest.update(dict.fromkeys(found, place))
        for result in turn.results:
            self._sources |= names(result.text)

    def take_edit(self, edit: Edit, turns: Sequence[Turn]) -> None:
        """Take a new edit. Masked results count as shown."""
        opening = turns[0].parts[: edit.opening] if turns else ()
        shown = [*opening, *(part for turn in edit.head for part in turn.parts)]
        self._head = frozenset().union(*(names(part_text(part)) for part in shown))
        self._cut = edit.cut

    def _judge(self, turn: Turn) -> None:
        needed = [name for call in turn.calls for name in names(input_text(call)) if name in self._sources]
        if needed:
            self.calls += 1
            self.hit += any(self._newest[name] < self._cut and name not in self._head for name in needed)
