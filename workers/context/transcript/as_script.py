"""
A conversation as a script for the scripted model: what a model said once, said again.

The work's own conversation is recorded (EXECUTE, the last one begun), since a scripted model is led through that phase
alone. A turn keeps its text and its calls; reasoning only a vendor can read, usage and price are left out, and so is
what the tools answered: replayed, they answer for themselves.
"""

import re
from collections.abc import Iterable

import yaml

from forgepool.workers.context.transcript.entries import ConversationStarted, Entry, TurnSaid
from forgepool.workers.llm.messages import ToolCall, Turn

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_HEADER = """\
# Recorded from {model} ({order_id}), {turns}.
# A replay: no model is asked, whatever it is shown. The same calls are made again, in the same order; what the tools
# answer, and whether that makes sense, depends on the files they find. {left_out}Edit it freely: `when` and `attempt`
# make turns depend on what is shown.
"""


def as_script(entries: Iterable[Entry]) -> str:
    """The script as YAML, for `agent: {scripted: FILE}`. Of a conversation without a turn, one that says nothing."""
    started, turns = _last_conversation(entries)
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


def _last_conversation(entries: Iterable[Entry]) -> tuple[ConversationStarted | None, list[Turn]]:
    """The model's turns since the last EXECUTE began; since the last beginning, where there is no EXECUTE."""
    begun: list[tuple[ConversationStarted, list[Turn]]] = []
    for entry in entries:
        if isinstance(entry, ConversationStarted):
            begun.append((entry, []))
        elif isinstance(entry, TurnSaid) and entry.turn.role == "assistant" and begun:
            begun[-1][1].append(entry.turn)
    work = [one for one in begun if one[0].phase == "execute"] or begun
    return work[-1] if work else (None, [])


def _turn(turn: Turn) -> dict[str, object]:
    said: dict[str, object] = {"say": turn.text} if turn.text else {}
    calls = [_call(call) for call in turn.calls if call.malformed is None]
    if calls:
        said["calls"] = calls
    return said or {"say": ""}


def _call(call: ToolCall) -> dict[str, object]:
    return {"tool": call.name, **{name: value for name, value in call.arguments.items() if name != "tool"}}


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as they read, where YAML can say them so."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """
    Quoted, unless it is a plain word or lines that lose nothing by being written as they are.

    A script cannot have the character 0, as no file and no command can.
    """
    text = text.replace("\0", "\ufffd")
    lines = text.split("\n")
    block = len(lines) > 1 and all(line.isprintable() and line == line.rstrip() for line in lines)
    style = "|" if block else None if _WORD.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
