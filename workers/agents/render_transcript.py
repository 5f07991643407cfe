"""
Renders a transcript for people: phases, numbered turns, a line for each call, beginnings of results.

Each line has a kind, which a terminal may show as a colour.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

from pydantic import JsonValue

from forgepool.workers.context.transcript.entries import (
    Answered,
    CallJudged,
    CheckpointKept,
    ConversationStarted,
    Entry,
    Finished,
    Noted,
    PlanCommitted,
    Profiled,
    QuestionTried,
    Rebuilt,
    ReportGiven,
    Resumed,
    Summoned,
    TurnSaid,
    Undone,
    Verified,
)
from forgepool.workers.llm.messages import Opaque, Part, Text, ToolCall, ToolResult, Turn, Usage
from forgepool.workers.schema.orders import Spent

_Beside = (
    QuestionTried
    | CallJudged
    | PlanCommitted
    | ReportGiven
    | Verified
    | Undone
    | Noted
    | Profiled
    | Summoned
    | Rebuilt
    | CheckpointKept
    | Resumed
)

LineKind = Literal["phase", "model", "text", "call", "result", "error", "note", "quiet"]

_TELLING = ("path", "command", "pattern", "glob", "name", "symbol", "question", "summary", "plan", "url", "folder")
"""Arguments by which a person recognises a call, the most telling first."""
_MOST_ARGUMENT = 100
_TAIL_CHARACTERS = 16_000


@dataclass(frozen=True, slots=True)
class NarratedLine:
    kind: LineKind
    text: str


def narrate_entries(entries: Iterable[Entry], *, most_lines: int | None = None) -> str:
    """Return the transcript as text; longer parts are cut to `most_lines`, if given."""
    return "".join(f"{line.text}\n" for line in lines(entries, most_lines=most_lines))


def write_log(entries: Iterable[Entry], log: Path, hide: Callable[[str], str] = str) -> str:
    """Write the rendered transcript where a command's log would be, and return its end."""
    text = hide(narrate_entries(entries))
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text, encoding="utf-8", errors="replace")
    return text[-_TAIL_CHARACTERS:]


def lines(entries: Iterable[Entry], *, most_lines: int | None, skip: int = 0) -> Iterator[NarratedLine]:
    """
    Yield the transcript line by line, with longer texts, results and outputs cut to `most_lines`.

    `skip` leaves out the lines of that many entries; their turns still count for the numbers.
    """
    narrator = _Narrator(most_lines)
    for number, entry in enumerate(entries):
        rendered = list(narrator.render(entry))
        if number >= skip:
            yield from rendered


@dataclass(slots=True)
class _Narrator:
    """Renders one entry after the other; remembers the count of turns."""

    most_lines: int | None
    turns: int = 0

    def render(self, entry: Entry) -> Iterator[NarratedLine]:
        match entry:
            case ConversationStarted():
                yield NarratedLine("phase", f"=== {entry.phase_name.upper()} of {entry.order_id} at {_clock(entry.at)}")
                yield NarratedLine("quiet", f"    {entry.model}, with {', '.join(entry.tools) or 'no tools'}")
            case TurnSaid(turn=turn):
                yield from self._turn(turn)
            case Answered(result=result):
                yield from self._result(result, f" in {entry.seconds:.1f} s" if entry.seconds >= 1 else "")
                if entry.shortened:
                    yield NarratedLine("quiet", f"    ({_shortened(entry)})")
            case Finished():
                yield NarratedLine("phase", f"=== {entry.ended}: {entry.detail} ({_spent(entry.spent)})")
            case _:
                yield from self._beside(entry)

    def _beside(self, entry: _Beside) -> Iterator[NarratedLine]:
        """Render an entry that is no part of the conversation."""
        match entry:
            case QuestionTried():
                yield NarratedLine("note", f"    {_tried(entry)}")
            case CallJudged(decision=decision):
                kind: LineKind = "quiet" if decision in ("allow", "audit") else "note"
                yield NarratedLine(
                    kind, f"    ({decision} {entry.tool}: {_short(entry.reason)}; {entry.rule or 'no rule'})"
                )
            case PlanCommitted() | ReportGiven():
                yield from self._committed(entry)
            case Verified() | Undone():
                yield from self._judged(entry)
            case Rebuilt():
                yield NarratedLine("phase", f"=== {_rebuilt(entry)}")
            case Profiled(profile=name, by=by):
                yield NarratedLine("note", f"    (context profile {name}{f', chosen by {by}' if by else ''})")
            case Summoned() | CheckpointKept():
                return
            case Noted(text=text):
                yield NarratedLine("note", f"    ({text})")
            case Resumed():
                yield NarratedLine("phase", f"=== gone on with as {entry.order_id} at {_clock(entry.at)}")
            case other:
                assert_never(other)

    def _judged(self, entry: Verified | Undone) -> Iterator[NarratedLine]:
        if isinstance(entry, Undone):
            yield NarratedLine("error", f"=== undone, the files are as the phase found them: {entry.why}")
            return
        yield NarratedLine("phase" if entry.ok else "error", f"=== VERIFY: {entry.detail or 'all is well'}")
        yield from self._cut("result", "    | ", entry.output, last=True)

    def _committed(self, entry: PlanCommitted | ReportGiven) -> Iterator[NarratedLine]:
        if isinstance(entry, ReportGiven):
            yield NarratedLine("phase", f"=== the report, which cites {len(entry.report.evidence)}")
            yield from self._cut("text", "    ", entry.report.summary)
            return
        made = "a plan made by the harness" if entry.synthetic else "the plan"
        yield NarratedLine("phase", f"=== {made}, for {', '.join(entry.files) or 'no file in particular'}")
        yield from self._cut("text", "    ", entry.plan)

    def _turn(self, turn: Turn) -> Iterator[NarratedLine]:
        if turn.role == "user":
            yield NarratedLine("model", "--- told")
        else:
            self.turns += 1
            yield NarratedLine("model", f"--- {self.turns}. {turn.model or 'the model'}{_odd_stop(turn)}")
        for part in turn.parts:
            yield from self._part(part)
        if turn.role == "assistant" and turn.usage != Usage(cost_usd=turn.usage.cost_usd):
            yield NarratedLine("quiet", f"    {_usage(turn.usage)}")

    def _part(self, part: Part) -> Iterator[NarratedLine]:
        match part:
            case Text(text=text):
                yield from self._cut("text", "", text)
            case ToolCall():
                yield NarratedLine("call", f"> {_call(part)}")
            case ToolResult():
                yield from self._result(part, "")
            case Opaque():
                yield NarratedLine("quiet", "    (reasoning only its vendor can read)")
            case other:
                assert_never(other)

    def _result(self, result: ToolResult, took: str) -> Iterator[NarratedLine]:
        if took:
            yield NarratedLine("quiet", f"   {took}")
        if result.is_error:
            yield from self._cut("error", "! ", result.text)
        else:
            yield from self._cut("result", "< ", result.text)

    def _cut(self, kind: LineKind, mark: str, text: str, *, last: bool = False) -> Iterator[NarratedLine]:
        """Yield the first lines of a text, or the last ones, and the count of the others."""
        whole = text.rstrip("\n").split("\n") if text.strip() else []
        most = self.most_lines
        more = 0 if most is None else max(0, len(whole) - most)
        note = NarratedLine("quiet", f"{mark}... {more:,} more {'line' if more == 1 else 'lines'}")
        if last and more:
            yield note
        for line in whole[more:] if last else whole[: len(whole) - more]:
            yield NarratedLine(kind, f"{mark}{line}")
        if more and not last:
            yield note


def _shortened(entry: Answered) -> str:
    return f"shortened when it entered, {entry.shortened}: of {len(entry.whole):,} characters"


def _rebuilt(entry: Rebuilt) -> str:
    asked = (
        f"; {entry.calls} call{'' if entry.calls == 1 else 's'} to a model: {_usage(entry.usage)}"
        if entry.calls
        else ""
    )
    if entry.edit is None:
        return f"the context stays as it is ({entry.profile}, {entry.cause}): {entry.why}{asked}"
    before, after = entry.before_tokens / entry.window_tokens, entry.after_tokens / entry.window_tokens
    sizes = f"{entry.before_tokens:,} -> {entry.after_tokens:,} tokens ({before:.0%} -> {after:.0%} of the window)"
    where = f"; {_steps(entry.dropped)} can be read in {entry.archive}" if entry.dropped else ""
    return f"context rebuilt ({entry.profile}, {entry.cause}): {sizes}: {entry.why}{where}{asked}"


def _steps(steps: tuple[int, ...]) -> str:
    """Return numbers as ranges: `steps 1-4, 7, 9-12`."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and step == runs[-1][-1] + 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    ranges = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
    return f"step{'' if len(steps) == 1 else 's'} {ranges}"


def _call(call: ToolCall) -> str:
    """Return the tool, its most telling argument, and the others by name."""
    if call.malformed is not None:
        return f"{call.name} (malformed: {_short(call.malformed)})"
    telling = next((name for name in _TELLING if name in call.arguments), next(iter(call.arguments), None))
    if telling is None:
        return call.name
    rest = [f"{name}={_value(call.arguments, name)}" for name in call.arguments if name != telling]
    return " ".join((call.name, _value(call.arguments, telling), *([f"({', '.join(rest)})"] if rest else ())))


def _value(arguments: Mapping[str, JsonValue], name: str) -> str:
    value = arguments[name]
    return _short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    """Return a text on one line, cut where it is long."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _MOST_ARGUMENT else f"{plain[:_MOST_ARGUMENT]}... ({len(text):,} characters)"


def _odd_stop(turn: Turn) -> str:
    return "" if turn.stop in ("end", "calls") else f" (ended by {turn.stop})"


def _usage(usage: Usage) -> str:
    cached = f" ({usage.hit_rate:.0%} cached)" if usage.cached_tokens else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out, {_cost(usage.cost_usd)}"


def _spent(spent: Spent) -> str:
    turns = f"{spent.turns} turn{'' if spent.turns == 1 else 's'}, {spent.seconds:.1f} s"
    return turns if not spent.tokens else f"{turns}, {spent.tokens:,} tokens, {_cost(spent.cost_usd)}"


def _cost(cost_usd: float | None) -> str:
    return "cost unknown" if cost_usd is None else f"{cost_usd:.4f} USD"


def _tried(entry: QuestionTried) -> str:
    status = "" if entry.status is None else f" {entry.status}"
    then = "no further try" if entry.wait_s is None else f"again in {entry.wait_s:.1f} s"
    return f"({entry.model}: {entry.trouble}{status} after {entry.seconds:.1f} s, {_short(entry.said)}; {then})"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
