"""
A conversation written out for a model that summarises it, and what is said against its answer.
"""

import json
import re
from collections.abc import Iterator, Sequence

from workers.context.facts import failures, files, outcomes, said
from workers.context.gauge import Gauge
from workers.context.masks import before
from workers.context.profiles.outlines import ends
from workers.context.profiles.replacement import characters
from workers.context.state import Question, Reply, State
from workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn

SHORTEST_SUMMARY = 50
_TIGHTER = (16_000, 4_000, 1_000, 250)
_PATH = re.compile(r"(?<![\w./:-])[\w.-]{1,80}(?:/[\w.-]{1,80}){1,12}\.[A-Za-z]\w{0,7}\b")
_MOST_PATHS = 40
_SAID_TOKENS = 20_000
"""Of the users' own words, as in Codex."""
_ROUGHLY = 1.5
"""How much longer than asked for an answer may be: tokens are estimated here."""


def transcribed(turns: Sequence[Turn], *, most: int, each: int, result: int) -> str:
    """From the oldest, until `most` characters are full: at most `each` of a turn, `result` of a tool's result."""
    found: list[str] = []
    room = most
    for turn in turns:
        if room <= 0:
            break
        told = ends(f"[{turn.role}]\n" + "\n".join(_lines(turn, result)), each)[:room]
        room -= len(told) + len("\n\n")
        found.append(told)
    return "\n\n".join(found)


def whole(turns: Sequence[Turn], room: int) -> str:
    """Every turn; where `room` characters are too little, long ones lose their middle."""
    for each in (room, *_TIGHTER):
        text = transcribed(turns, most=room + 3, each=each, result=each)
        if len(text) <= room:
            return text
    return transcribed(turns, most=room, each=_TIGHTER[-1], result=_TIGHTER[-1])


def _lines(turn: Turn, result: int) -> Iterator[str]:
    for part in turn.parts:
        match part:
            case Text(text=text):
                yield text
            case ToolCall(name=name, arguments=arguments):
                yield f"call {name} {json.dumps(dict(arguments), ensure_ascii=False, default=str)}"
            case ToolResult(text=text, is_error=wrong):
                yield f"{'error' if wrong else 'result'}: {ends(text, result)}"


def refusal(
    reply: Reply, question: Question, gauge: Gauge, turns: Sequence[Turn], *, shortest: int = SHORTEST_SUMMARY
) -> str | None:
    """
    Why a summary is not used, as a clause: it is missing, hardly one, longer than it may be, or speaks of files that
    the conversation does not know.
    """
    text = reply.text.strip()
    if not text:
        return reply.why_not or "the summary is empty"
    if len(text) < shortest:
        return f"the summary has {len(text)} characters, fewer than {shortest}"
    if gauge.tokens(len(text)) > _ROUGHLY * question.max_output_tokens:
        return f"the summary is longer than the {question.max_output_tokens} tokens it may have"
    strange = _strange(text, turns)
    return (
        f"the summary speaks of files that are nowhere in the conversation: {', '.join(strange)}" if strange else None
    )


def with_facts(summary: str, state: State, cut: int) -> str:
    """A model's summary of what comes before the cut, and beside it what the harness knows, which overrides it."""
    deeds = state.deeds[: before(state, cut)]
    lines = [
        files(deeds),
        *(f"Ran: {line}" for line in outcomes(deeds)),
        *(f"Failed: {line}" for line in failures(deeds)),
        *_words(state.turns[1:cut], characters(state.gauge, _SAID_TOKENS)),
    ]
    known = "\n".join(lines)
    return f"{summary.strip()}\n\n## What the harness saw; it overrides the summary\n{known}"


def _words(turns: Sequence[Turn], room: int) -> list[str]:
    """What persons said, the newest of it that there is room for."""
    found: list[str] = []
    for text in reversed(list(said(turns))):
        room -= len(text)
        if room < 0:
            break
        found.append(f"The user said: {text}")
    return found[::-1]


def _strange(text: str, turns: Sequence[Turn]) -> list[str]:
    """The paths it names that nobody named before; none where those are at most half of them."""
    paths = list(dict.fromkeys(_PATH.findall(text)))[:_MOST_PATHS]
    names = {path: path.rpartition("/")[2] for path in paths}
    unknown = set(names.values())
    for turn in turns:
        for part in turn.parts:
            text = _text(part) if unknown else ""
            unknown = {name for name in unknown if name not in text}
    strange = [path for path in paths if names[path] in unknown]
    return strange[:5] if 2 * len(strange) > len(paths) else []


def _text(part: Part) -> str:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return text
        case ToolCall(arguments=arguments):
            return str(arguments)
        case _:
            return ""
