"""
The exchanges of a transcript, each tool call with its one result, and the transcript as a script to replay.

They come from the transcript, not from a view: a model may be shown only a part of it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, Entry, TurnSaid, Undone
from forgepool.workers.llm.messages import ToolCall, ToolResult, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExchange:
    iteration: int
    """The number of the model's turn among the given entries, from 1."""
    call: ToolCall
    result: ToolResult
    """The result as the tool gave it, not as the model may see it."""

    @property
    def worked(self) -> bool:
        return not self.result.is_error


def exchanges(entries: Iterable[Entry]) -> list[ToolExchange]:
    """Return the exchanges, oldest first, without calls that a killed worker left unanswered."""
    found: list[ToolExchange] = []
    iteration = 0
    waiting: dict[str, ToolCall] = {}
    for entry in entries:
        if isinstance(entry, TurnSaid) and entry.turn.role == "assistant":
            iteration += 1
            waiting = {call.id: call for call in entry.turn.calls}
        elif isinstance(entry, Answered) and (call := waiting.pop(entry.result.call_id, None)) is not None:
            found.append(ToolExchange(iteration=iteration, call=call, result=_whole(entry)))
    return found


def _whole(entry: Answered) -> ToolResult:
    return entry.result.model_copy(update={"text": entry.whole}) if entry.whole else entry.result


def iterations(entries: Iterable[Entry]) -> int:
    """Return how often the model has answered."""
    return sum(isinstance(entry, TurnSaid) and entry.turn.role == "assistant" for entry in entries)


def under_way(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries of the current conversation."""
    for at in range(len(entries) - 1, -1, -1):
        if isinstance(entries[at], ConversationStarted):
            return entries[at:]
    return entries


def find_missing(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the gaps that an agent named in the forms that were accepted."""
    given = [exchange.call.arguments.get("missing") for exchange in exchanges(entries) if exchange.worked]
    gaps = dict.fromkeys(str(one)[:1_000] for each in given if isinstance(each, list) for one in each)
    return tuple(gaps)[:50]


def text_argument(arguments: Mapping[str, object], name: str) -> str:
    """Return an argument as text; empty where the model sent none, or something else."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_HEADER = """\
# Recorded from {model} ({order_id}), {turns}.
# A replay: no model is asked, whatever it is shown. The same calls are made again, in the same order; what the tools
# answer, and whether that makes sense, depends on the files they find. {left_out}Edit it freely: `when` and `attempt`
# make turns depend on what is shown.
"""


def as_script(entries: Iterable[Entry]) -> str:
    """
    Return the conversation as the YAML of `agent: {scripted: FILE}`. Without turns the script says nothing.

    It holds the phases that change files, but for those undone, as one: a scripted model goes through EXECUTE alone.
    Reasoning only a vendor can read, usage, prices and the tools' results are left out.
    """
    started, turns = _work(entries)
    models = dict.fromkeys(turn.model for turn in turns if turn.model)
    malformed = sum(call.malformed is not None for turn in turns for call in turn.calls)
    header = _HEADER.format(
        model=", ".join(models) or (started.model if started else "no model"),
        order_id=started.order_id if started else "no conversation",
        turns=f"{len(turns)} turn{'' if len(turns) == 1 else 's'}",
        left_out=f"{malformed} malformed call(s) are left out. " if malformed else "",
    )
    script = {"turns": [_turn(turn) for turn in turns] or [{"say": ""}]}
    return header + yaml.dump(script, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


_BETWEEN = ("finish", "confirm_red_phase")
"""Tools by which a phase comes to its end; a script has only one phase."""


def _work(entries: Iterable[Entry]) -> tuple[ConversationStarted | None, list[Turn]]:
    """Return the model's turns in each EXECUTE that was not undone, or in the last conversation where there is none."""
    begun: list[tuple[ConversationStarted, list[Turn]]] = []
    for entry in entries:
        if isinstance(entry, ConversationStarted):
            begun.append((entry, []))
        elif isinstance(entry, Undone) and begun:
            begun = [one for one in begun if one[0].phase_name != begun[-1][0].phase_name]
        elif isinstance(entry, TurnSaid) and entry.turn.role == "assistant" and begun:
            begun[-1][1].append(entry.turn)
    work = [one for one in begun if one[0].phase == "execute"] or begun[-1:]
    if not work:
        return None, []
    earlier = [_without_ends(turn) for _, turns in work[:-1] for turn in turns]
    return work[-1][0], [*(turn for turn in earlier if turn.calls), *work[-1][1]]


def _without_ends(turn: Turn) -> Turn:
    parts = (part for part in turn.parts if not (isinstance(part, ToolCall) and part.name in _BETWEEN))
    return turn.model_copy(update={"parts": tuple(parts)})


def _turn(turn: Turn) -> dict[str, object]:
    said: dict[str, object] = {"say": turn.text} if turn.text else {}
    calls = [_call(call) for call in turn.calls if call.malformed is None]
    if calls:
        said["calls"] = calls
    return said or {"say": ""}


def _call(call: ToolCall) -> dict[str, object]:
    return {"tool": call.name, **{name: value for name, value in call.arguments.items() if name != "tool"}}


class _Dumper(yaml.SafeDumper):
    """A dumper that writes text of several lines as it reads, where YAML can."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """
    Quote a text, unless it is a plain word or lines that YAML can hold unchanged.

    The character 0 is replaced: no file and no command can hold it.
    """
    text = text.replace("\0", "\ufffd")
    lines = text.split("\n")
    block = len(lines) > 1 and all(line.isprintable() and line == line.rstrip() for line in lines)
    style = "|" if block else None if _WORD.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
