"""
The scripted model: replays turns that a person wrote, where their conditions hold.

    turns:
      - say: "I will read it first"
        calls: [{tool: read_file, path: src/x.py}]
      - when: {last_result_contains: "def old"}
        calls: [{tool: edit_file, path: src/x.py, old: "old", new: "new"}]
      - attempt: 2
        calls: [{tool: finish, summary: "renamed, at the second attempt"}]
      - pause_s: 5
        calls: [{tool: finish, summary: "renamed"}]

A script that begins with `family: NAME` counts as a model of that family, though its name is `scripted`. Several
scripts, separated by lines of `---`, are several models.

The script is read once in each conversation, downwards. For each question the model takes the next turn that fits:
one with this `attempt` and `phase`, and whose `when` holds. It never returns to turns it passed over. Where no turn is
left that fits, the model fails and says so.
"""

import re
import time
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, Field

from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn
from forgepool.workers.llm.provider import Hear, ModelFailed, ModelRequest, deaf
from forgepool.workers.schema.documents import load
from forgepool.workers.schema.mistakes import DocumentWrong, Slug
from forgepool.workers.schema.orders import PhaseName

MODEL = "scripted"

_ID = re.compile(r"scripted-(\d+)")
_APART = re.compile(r"^---[ \t]*(?:#.*)?$", re.MULTILINE)
_ASK_S = 0.1


class ScriptedCall(BaseModel):
    """A tool and, beside it, its arguments."""

    model_config = ConfigDict(frozen=True, extra="allow")

    tool: str = Field(min_length=1)


class When(BaseModel):
    """The conditions of a turn; all that are given must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    last_result_contains: str | None = None
    """A text in one of the results of the last calls."""
    last_result_is_error: bool | None = None
    """One of those results is an error, or none is."""
    shown_contains: str | None = None
    """A text anywhere on the user's side so far, the task card included."""


class ScriptedTurn(BaseModel):
    """One turn: text, calls, or both. A turn with neither is the empty turn that some models give."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    say: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    when: When | None = None
    attempt: int | None = Field(default=None, ge=1)
    """The attempt it is for; None is any."""
    phase: PhaseName | None = None
    """The phase it is for; None is any. A script with turns for `plan` goes through that phase first."""
    pause_s: float = Field(default=0.0, ge=0)
    """The seconds the model takes for the turn."""


class ScriptedTurns(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    turns: tuple[ScriptedTurn, ...] = Field(min_length=1)
    family: Slug = MODEL
    """The family it plays."""


def scripts_in(text: str) -> tuple[str, ...]:
    """
    Return the scripts of a text that holds several, each padded with empty lines so that its line numbers are
    right.
    """
    found: list[str] = []
    at = 0
    for end in (*(match.start() for match in _APART.finditer(text)), len(text)):
        if text[at:end].strip(" \t\r\n-"):
            found.append("\n" * text.count("\n", 0, at) + text[at:end].removeprefix("---"))
        at = end
    return tuple(found)


def read_script(text: str, name: str) -> ScriptedTurns:
    """
    Raises:
        DocumentWrong: the text is not a script; with every mistake's line.
    """
    return load(text, name, ScriptedTurns)


class ScriptedModel:
    """A provider without memory: the conversation tells where in the script it is."""

    def __init__(self, script: str, *, attempt: int, name: str = "script") -> None:
        """
        Raises:
            ModelFailed: the text is not a script.
        """
        try:
            self._script = read_script(script, name)
        except DocumentWrong as wrong:
            raise ModelFailed("; ".join(wrong.mistakes)) from wrong
        self._attempt = attempt

    @property
    def family(self) -> str:
        return self._script.family

    @property
    def plans(self) -> bool:
        """True where the script has turns for the phase `plan`."""
        return any(turn.phase == "plan" for turn in self._script.turns)

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        number = next_turn(self._script, self._attempt, request.turns, request.phase)
        if number is None:
            raise ModelFailed(_nothing_fits(request.turns))
        turn = self._script.turns[number]
        _pause(turn.pause_s, stop)
        calls = tuple(_call(call, number, place) for place, call in enumerate(turn.calls))
        parts: tuple[Part, ...] = (Text(text=turn.say),) if turn.say else ()
        return Turn(
            role="assistant",
            parts=parts + calls,
            id=f"scripted-{number}",
            model=MODEL,
            stop="calls" if calls else "end",
        )


def next_turn(script: ScriptedTurns, attempt: int, turns: tuple[Turn, ...], phase: PhaseName = "execute") -> int | None:
    """Return the index of the turn that fits the conversation so far; None when none fits."""
    taken = next((turn.id for turn in reversed(turns) if turn.role == "assistant"), "")
    match = _ID.fullmatch(taken)
    first = int(match[1]) + 1 if match else 0
    for number in range(first, len(script.turns)):
        turn = script.turns[number]
        fits = turn.attempt in (None, attempt) and turn.phase in (None, phase)
        if fits and (turn.when is None or _holds(turn.when, turns)):
            return number
    return None


def _holds(when: When, turns: tuple[Turn, ...]) -> bool:
    last = turns[-1].results if turns else ()
    texts = [result.text for result in last]
    errors = any(result.is_error for result in last)
    return (
        (when.last_result_contains is None or any(when.last_result_contains in text for text in texts))
        and (when.last_result_is_error is None or when.last_result_is_error == errors)
        and (when.shown_contains is None or any(when.shown_contains in text for text in _shown(turns)))
    )


def _shown(turns: tuple[Turn, ...]) -> list[str]:
    shown = [turn for turn in turns if turn.role == "user"]
    return [part.text for turn in shown for part in turn.parts if isinstance(part, Text | ToolResult)]


def _call(call: ScriptedCall, turn: int, place: int) -> ToolCall:
    arguments = dict(call.model_extra or {})
    return ToolCall(id=f"scripted-{turn}-{place}", name=call.tool, arguments=arguments)


def _pause(seconds: float, stop: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while (left_s := end - time.monotonic()) > 0 and not stop():
        time.sleep(min(left_s, _ASK_S))


def _nothing_fits(turns: tuple[Turn, ...]) -> str:
    shown = (_shown(turns) or ["nothing"])[-1].strip().splitlines() or ["an empty text"]
    return f"the script has no turn for what it was shown, which begins: {shown[0][:200]}; add one that fits"
