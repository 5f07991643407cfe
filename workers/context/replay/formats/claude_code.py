"""
Claude Code's session files: one recording between compactions, and one for each sub-agent.

Thinking, display-only entries, answers the program made up (API errors), and what a person took back by continuing from
an earlier point are left out.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import Field, JsonValue

from forgepool.workers.context.replay.formats.forms import (
    Content,
    File,
    Form,
    call_named,
    fit_form,
    parse_json,
    text_of,
)
from forgepool.workers.context.replay.recording import Assembly, BadRecording, Recording, number_name, project_named
from forgepool.workers.llm.messages import Part, Text, Turn, Usage

_TOLD = ("user", "assistant", "system", "attachment")
_MADE_UP = "<synthetic>"
_COMMANDS = ("<command-", "<local-command-")
"""The beginnings of texts that report commands to the program."""


class _Cached(Form):
    for_1h: int | None = Field(None, alias="ephemeral_1h_input_tokens")


class _Usage(Form):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _Cached | None = None
    output_tokens: int | None = None


class _Block(Form):
    type: str
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, JsonValue] | None = None
    tool_use_id: str | None = None
    content: Content = None
    is_error: bool | None = None


class _Message(Form):
    id: str | None = None
    model: str | None = None
    content: str | Sequence[_Block | str]
    usage: _Usage | None = None


class _Attachment(Form):
    type: str = ""
    prompt: Content = None


class _Record(Form):
    type: str
    subtype: str | None = None
    uuid: str | None = None
    parent: str | None = Field(None, alias="parentUuid")
    agent: str | None = Field(None, alias="agentId")
    caller: str | None = Field(None, alias="parent_tool_use_id")
    sidechain: bool | None = Field(None, alias="isSidechain")
    meta: bool | None = Field(None, alias="isMeta")
    summary: bool | None = Field(None, alias="isCompactSummary")
    failed: bool | None = Field(None, alias="isApiErrorMessage")
    cwd: str | None = None
    timestamp: str | None = None
    message: _Message | None = None
    attachment: _Attachment | None = None

    @property
    def answer(self) -> bool:
        """Report whether a model wrote it."""
        return (
            self.type == "assistant" and self.message is not None and not self.failed and self.message.model != _MADE_UP
        )

    @property
    def prompt(self) -> bool:
        """Report whether a person wrote it, rather than a tool or the program."""
        return self.type == "user" and not self.meta and not self.summary and not self._results

    @property
    def boundary(self) -> bool:
        return (self.type == "system" and self.subtype == "compact_boundary") or bool(self.summary)

    @property
    def uprooted(self) -> bool:
        """Report whether a person started over with it."""
        return self.prompt and self.uuid is not None and self.parent is None and "parent" in self.model_fields_set

    @property
    def at(self) -> float | None:
        try:
            return datetime.fromisoformat(self.timestamp).timestamp() if self.timestamp else None
        except (ValueError, OverflowError, OSError):
            return None

    @property
    def answer_id(self) -> str:
        return (self.message.id if self.message else None) or ""

    @property
    def blocks(self) -> Sequence[_Block]:
        if self.message is None:
            return ()
        content = self.message.content
        whole = [content] if isinstance(content, str) else content
        return [_Block(type="text", text=block) if isinstance(block, str) else block for block in whole]

    @property
    def _results(self) -> bool:
        return any(block.type == "tool_result" for block in self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Thread:
    suffix: str
    """The suffix of the file's name; empty for the main conversation."""
    records: list[_Record]


def read_claude_code(file: File) -> list[Recording]:
    """
    Read the recordings of a session. An incomplete last line is left out.

    Raises:
        BadRecording: another line is no JSON object, or not of the form.
    """
    records = list(_records(file))
    if not any(record.type in ("user", "assistant") for record in records):
        raise BadRecording(
            f"{file.path}: JSON lines of no form known here; those of Claude Code have a user and a model"
        )
    found: list[Recording] = []
    for thread in _threads(records):
        assembled = [_assembled(segment, file.name) for segment in _segments(_gone_on_with(thread.records))]
        kept = [recording for recording in assembled if recording is not None]
        name = f"{file.name}{thread.suffix}"
        found += [replace(recording, name=number_name(name, number)) for number, recording in enumerate(kept)]
    return found


def _records(file: File) -> Iterator[_Record]:
    lines = file.data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{file.path}:{number}"
        try:
            value = parse_json(line)
        except ValueError as wrong:
            if number == len(lines):
                return
            raise BadRecording(f"{where}: not JSON; each line of a session of Claude Code is an object") from wrong
        if not isinstance(value, dict):
            raise BadRecording(f"{where}: not an object; each line of a session of Claude Code is one")
        if value.get("type") in _TOLD:
            yield fit_form(_Record, value, where, "a line of a session of Claude Code")
        elif isinstance(uuid := value.get("uuid"), str):
            yield _Record(type="", uuid=uuid)


def _threads(records: Sequence[_Record]) -> list[_Thread]:
    """Return the conversations, the main one first, or the first sub-agent's in a file without one."""
    found: dict[str, list[_Record]] = defaultdict(list)
    roots: dict[str, str] = {}
    for record in records:
        key = ""
        if record.sidechain or record.caller:
            key = record.agent or record.caller or roots.get(record.parent or "", record.uuid or "side")
            roots[record.uuid or ""] = key
        found[key].append(record)
    answered = [key for key in found if any(record.answer for record in found[key])]
    sides = [key for key in answered if key]
    if "" in answered:
        suffixes = {"": "", **{key: f"#side{number}" for number, key in enumerate(sides, start=1)}}
    else:
        suffixes = {key: f"#side{number}" if number else "" for number, key in enumerate(sides)}
    return [_Thread(suffix=suffix, records=found[key]) for key, suffix in suffixes.items()]


def _gone_on_with(records: Sequence[_Record]) -> list[_Record]:
    """Remove duplicate lines, and answers that a person's later prompt went back behind."""
    places: dict[str, int] = {}
    kept: list[_Record] = []
    for record in records:
        if record.uuid is not None and record.uuid in places:
            continue
        place = places.get(record.parent or "")
        if record.prompt and place is not None and _behind(kept, place, record.parent):
            del kept[place + 1 :]
        if record.uuid is not None:
            places[record.uuid] = len(kept)
        kept.append(record)
    return kept


def _behind(kept: Sequence[_Record], place: int, uuid: str | None) -> bool:
    """Report whether a model gave another answer after this record."""
    if place >= len(kept) or kept[place].uuid != uuid:
        return False
    return any(record.answer and record.answer_id != kept[place].answer_id for record in kept[place + 1 :])


def _segments(records: Sequence[_Record]) -> list[list[_Record]]:
    found: list[list[_Record]] = [[]]
    answered = False
    for record in records:
        if record.boundary or (record.uprooted and answered):
            found.append([])
            answered = False
        answered = answered or record.answer
        found[-1].append(record)
    return found


def _assembled(records: Sequence[_Record], name: str) -> Recording | None:
    """Assemble a recording; None where the model never answered."""
    assembly, newest = Assembly(), ""
    opening = _opening(records)
    for record in sorted(opening, key=_rank):
        _hear(assembly, record)
    for record in records[len(opening) :]:
        if record.answer:
            assembly.answer(_turn(record), record.at, more=record.answer_id != "" and record.answer_id == newest)
            newest = record.answer_id
        elif record.type in ("user", "attachment"):
            _hear(assembly, record)
    if not assembly.answered:
        return None
    folder = next((record.cwd for record in records if record.cwd), "").replace("\\", "/").rstrip("/")
    project = folder.rpartition("/")[2] or project_named(name)
    return assembly.recording(name=name, format="claude-code", project=project)


def _opening(records: Sequence[_Record]) -> Sequence[_Record]:
    first = next((place for place, record in enumerate(records) if record.answer), len(records))
    return records[:first]


def _rank(record: _Record) -> int:
    """Rank a record of the opening: the task, then additions of the program, then commands to it."""
    if any((block.text or "").lstrip().startswith(_COMMANDS) for block in record.blocks):
        return 2
    return 1 if record.meta or record.type == "attachment" else 0


def _hear(assembly: Assembly, record: _Record) -> None:
    if record.type == "attachment" and record.attachment and record.attachment.type == "queued_command":
        assembly.hear(text_of(record.attachment.prompt), record.at)
    if record.type != "user":
        return
    for block in record.blocks:
        if block.type == "tool_result":
            text = text_of(block.content)
            assembly.result(text, call_id=block.tool_use_id or "", is_error=bool(block.is_error), at=record.at)
        else:
            assembly.hear(f"[{block.type}]" if block.text is None else block.text, record.at)


def _turn(record: _Record) -> Turn:
    message = record.message
    parts: list[Part] = []
    for block in record.blocks:
        if block.type == "tool_use":
            parts.append(call_named(block.name or "", block.input, block.id or ""))
        elif block.type == "text" and (block.text or "").strip():
            parts.append(Text(text=block.text or ""))
    model = (message.model if message else None) or ""
    usage = _usage((message.usage if message else None) or _Usage())
    return Turn(role="assistant", parts=tuple(parts), id=record.answer_id, model=model, usage=usage)


def _usage(usage: _Usage) -> Usage:
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Usage(
        input_tokens=(usage.input_tokens or 0) + cached + written,
        cached_tokens=cached,
        written_tokens=written,
        written_1h_tokens=(usage.cache_creation.for_1h or 0) if usage.cache_creation else 0,
        output_tokens=usage.output_tokens or 0,
        cost_usd=None,
    )
