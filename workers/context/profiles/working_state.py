"""
The working state of a conversation: slots that rules fill, written as markdown.

It is a fold of the whole conversation, so that no rebuild can lose it. `soulforge` fills most slots, `remarks` those
from the model's sentences. The task is no slot, since its card is never cut.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from forgepool.workers.context.edits.prose import beginning, outline

LIST_LIMIT = 25
TOOL_RESULTS = 30
FILES = 100
"""Paths that are kept. Beyond them the longest untouched goes, files only read first."""
FILE_ACTIONS = 10
DETAIL_CHARACTERS = 12_000
"""Characters for details of files, newest first; further files get counts alone."""
_MARKS = {"done": "✓", "active": "▸", "skipped": "⊘", "pending": "○"}
_SHORTEST = 0.05
_LASTING = 4
"""The factor by which decisions, failures, discoveries and paths are kept longer than the rest."""

Status = Literal["pending", "active", "done", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    label: str
    status: Status = "pending"


@dataclass(slots=True, kw_only=True)
class FileNote:
    """The actions on one file with their counts; beyond ten, the oldest lose their details."""

    actions: dict[tuple[str, str], int] = field(default_factory=dict)
    written: bool = False
    text: str = ""
    """The text of its newest read."""

    def add(self, kind: str, detail: str = "") -> None:
        self.actions[kind, detail] = self.actions.get((kind, detail), 0) + 1
        if len(self.actions) > FILE_ACTIONS:
            self._merge_oldest()

    def _merge_oldest(self) -> None:
        """Drop the detail of the oldest action and keep its count."""
        kind, detail = next(((kind, detail) for kind, detail in self.actions if detail), next(iter(self.actions)))
        count = self.actions.pop((kind, detail))
        self.actions[kind, ""] = self.actions.get((kind, ""), 0) + count


@dataclass(slots=True, kw_only=True)
class SeenFailure:
    what: str
    times: int = 1
    passed_since: bool = False


@dataclass(slots=True, kw_only=True)
class WorkingState:
    most_tool_results: int = TOOL_RESULTS
    plan: str = ""
    """The committed plan."""
    steps: tuple[PlanStep, ...] = ()
    """The newest version of the agent's own list of things to do."""
    files: dict[str, FileNote] = field(default_factory=dict)
    """Files by path, the longest untouched first."""
    decisions: list[str] = field(default_factory=list)
    failures: dict[tuple[str, str], SeenFailure] = field(default_factory=dict)
    """Failures by subject and message."""
    discoveries: list[str] = field(default_factory=list)
    environment: list[str] = field(default_factory=list)
    tool_results: list[str] = field(default_factory=list)
    requirements: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def slots(self) -> int:
        """Count the filled slots, including the task and a committed plan."""
        lists = (self.decisions, self.discoveries, self.environment, self.tool_results, self.requirements, self.notes)
        filled = sum(map(len, lists)) + len(self.files) + len(self.failures) + len(self.steps)
        return 1 + bool(self.plan) + filled

    def touch(self, path: str) -> FileNote:
        """Return a file's note and make it the newest."""
        note = self.files.pop(path, None) or FileNote()
        self.files[path] = note
        if len(self.files) > FILES:
            others = [name for name in self.files if name != path]
            self.files.pop(next((name for name in others if not self.files[name].written), others[0]))
        return note

    def fail(self, subject: str, what: str) -> None:
        known = self.failures.pop((subject, what), None)
        self.failures[subject, what] = SeenFailure(what=what, times=known.times + 1 if known else 1)
        if len(self.failures) > LIST_LIMIT:
            self.failures.pop(next(iter(self.failures)))

    def succeed(self, subject: str) -> None:
        """Mark earlier failures of a subject as solved."""
        for (known, _), failure in self.failures.items():
            if known == subject:
                failure.passed_since = True

    def report(self, line: str) -> None:
        self.tool_results = [*self.tool_results, line][-self.most_tool_results :]


def remember(items: list[str], text: str) -> None:
    """Add a text once; beyond 25 the oldest goes."""
    if text not in items:
        items.append(text)
        del items[:-LIST_LIMIT]


def serialise_state(state: WorkingState, *, plan_above: bool = False, room: float = float("inf")) -> str:
    """
    Write the slots as markdown within `room` characters, in SoulForge's order.

    Where that is too little, the oldest items of each list go, but never a requirement.
    """
    share = 1.0
    while len(text := _serialised(state, share, plan_above)) > room and share > _SHORTEST:
        share *= 0.7
    return text


def _serialised(state: WorkingState, share: float, plan_above: bool) -> str:
    few = max(1, int(LIST_LIMIT * min(1.0, _LASTING * share)))
    fewer = max(1, int(LIST_LIMIT * share))
    sections = (
        ("Task", ["The task card at the beginning of this conversation; it stands word for word."]),
        ("User Requirements", [f"- {text}" for text in state.requirements]),
        ("Plan", _plan(state, plan_above)),
        ("Environment", [f"- {text}" for text in state.environment[-fewer:]]),
        ("Files Touched", _files(state.files, share)),
        ("Key Decisions", [f"- {text}" for text in state.decisions[-few:]]),
        ("Assistant Notes", [f"- {text}" for text in state.notes[-fewer:]]),
        ("Tool Results", [f"- {text}" for text in state.tool_results[-max(1, int(len(state.tool_results) * share)) :]]),
        ("Errors & Failures", _failures(state, few)),
        ("Discoveries", [f"- {text}" for text in state.discoveries[-few:]]),
    )
    return "\n\n".join(f"## {title}\n" + "\n".join(lines) for title, lines in sections if lines)


def _plan(state: WorkingState, above: bool) -> list[str]:
    committed = ["The committed plan stands above, with the task card."] if above else [state.plan]
    return [*(committed if state.plan else []), *(f"{_MARKS[step.status]} {step.label}" for step in state.steps)]


def _files(files: dict[str, FileNote], share: float) -> list[str]:
    """List files, the newest last, with details for the newest as far as these fit."""
    lines: list[str] = []
    room = DETAIL_CHARACTERS * share
    for path, note in list(files.items())[: -max(1, int(FILES * min(1.0, _LASTING * share))) - 1 : -1]:
        line = f"- `{path}`: {_full(note)}"
        room -= len(line)
        lines.append(line if room > 0 else f"- `{path}`: {_brief(note)}")
    return lines[::-1]


def _full(note: FileNote) -> str:
    said = [_counted(f"{kind} {detail}".rstrip(), count) for (kind, detail), count in note.actions.items()]
    if note.text and not note.written:
        said.append(outline(note.text))
    return "; ".join(said)


def _brief(note: FileNote) -> str:
    counts: dict[str, int] = {}
    for (kind, _), count in note.actions.items():
        counts[kind] = counts.get(kind, 0) + count
    return "; ".join(_counted(kind, count) for kind, count in counts.items())


def _counted(text: str, count: int) -> str:
    return f"{text} (x{count})" if count > 1 else text


def _failures(state: WorkingState, most: int) -> Sequence[str]:
    newest = list(state.failures.items())[-most:]
    return [f"- {_counted(subject, failure.times)}: {_told(failure)}" for (subject, _), failure in newest]


def _told(failure: SeenFailure) -> str:
    return f"{failure.what} (it has worked since)" if failure.passed_since else failure.what


_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_END = re.compile(r"(?<=[.!?])\s+|\n+")
_DECIDES = re.compile(
    r"\b(?:I['’]ll|let['’]s|we should|I['’]m going to|the approach is|decided to|choosing|using|switching to)\b"
    r".{10,120}",
    re.IGNORECASE,
)
_REASONS = re.compile(r"\b(?:because|since|the reason is)\b.{10,120}", re.IGNORECASE)
_FINDS = re.compile(
    r"\b(?:found that|discovered|it turns out|interestingly|the issue (?:is|was))\b.{10,150}", re.IGNORECASE
)
_FILLER = re.compile(
    r"(?:ok|okay|sure|let me|i['’]ll now|here['’]s|looking at|alright|got it|understood)\b", re.IGNORECASE
)
_LOOKS = re.compile(
    r"(?:(?:now|first|next|so|then|and|but)\b,? )?(?:I['’]ll|I will|let['’]s|I['’]m going to|we should|I need to) "
    r"(?:(?:also|now|first|just|quickly) )?(?:check|look|see|read|view|run|re-?run|search|find|list|examine|verify"
    r"|inspect|open|try|start by)\b",
    re.IGNORECASE,
)
"""Announcements of a step whose result is recorded anyway."""
_REASON_CHARACTERS = 240
_NOTE_CHARACTERS = 300
_LONG_NOTE_CHARACTERS = 500
_LONG_NOTE_SENTENCES = 5
_SHORTEST_SENTENCE = 15
_SHORTEST_NOTE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    decisions: tuple[str, ...] = ()
    discoveries: tuple[str, ...] = ()
    note: str = ""
    """All other text, within 300 characters, or five sentences within 500."""


def remarks(text: str) -> Remarks:
    decisions: list[str] = []
    discoveries: list[str] = []
    rest: list[str] = []
    for sentence in filter(None, map(_plain, _END.split(_FENCED.sub("\n", text)))):
        if _LOOKS.match(sentence):
            continue
        found, decided = _FINDS.search(sentence), _decision(sentence)
        if found is not None:
            discoveries.append(found.group())
        if decided is not None:
            decisions.append(decided)
        if found is None and decided is None:
            rest.append(sentence)
    return Remarks(decisions=tuple(decisions), discoveries=tuple(discoveries), note=_note(rest))


def _decision(sentence: str) -> str | None:
    if _FILLER.match(sentence):
        return None
    if (found := _DECIDES.search(sentence)) is not None:
        return found.group()
    return beginning(sentence, _REASON_CHARACTERS) if _REASONS.search(sentence) else None


def _note(sentences: list[str]) -> str:
    told = [sentence for sentence in sentences if not _FILLER.match(sentence)]
    whole = " ".join(told)
    if len(told) <= 3 and len(whole) <= _NOTE_CHARACTERS:
        return whole if len(whole) >= _SHORTEST_NOTE else ""
    long = [sentence for sentence in told if len(sentence) >= _SHORTEST_SENTENCE]
    return beginning(" ".join(long[:_LONG_NOTE_SENTENCES]), _LONG_NOTE_CHARACTERS)


def _plain(sentence: str) -> str:
    return " ".join(sentence.strip().lstrip("-*#> ").removeprefix("THOUGHT:").split())
