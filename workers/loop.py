"""
The conversation of one agent with one model: ask, run the tools it calls, tell it what came of them, ask
again.

It ends when the model calls `finish`, or at a limit. What is said to be done is a claim; whether there is a
change and whether it is any good is found out elsewhere.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn, user
from workers.llm.provider import ModelFailed, Provider, Request
from workers.messages import Limits, Spent
from workers.tools.tool import Answer, Tool, carry_out
from workers.tools.workplace import Workplace
from workers.transcript import Answered, Finished, Said, Started, Transcript, now

_NUDGE = "You called no tool. Go on with the work, or call `finish` with a summary if everything is done."

Ending = Literal["finished", "failed", "timeout", "stopped", "limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What a conversation is about: the same from its first turn to its last."""

    order_id: str
    model: str
    system: tuple[str, ...]
    card: str
    """The task, as the first thing the model is told."""
    tools: tuple[Tool, ...]
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    ended: Ending
    detail: str
    """One sentence."""
    summary: str = ""
    """What the model claims; only with `finished`."""
    spent: Spent = field(default_factory=Spent)


@dataclass(slots=True, kw_only=True)
class _State:
    """Where the conversation is. Lives as long as `converse`."""

    turns: list[Turn] = field(default_factory=list)
    asked: int = 0
    nudged: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0


def converse(
    provider: Provider,
    brief: Brief,
    workplace: Workplace,
    transcript: Transcript,
    *,
    stop: Callable[[], bool],
) -> Outcome:
    """
    Leads a conversation to its end, every turn and every result in the transcript as soon as there is one.
    """
    began = time.monotonic()
    state = _State()
    ends_at = began + brief.limits.wall_s
    workplace = replace(
        workplace,
        left_s=lambda: ends_at - time.monotonic(),
        stop=lambda: stop() or time.monotonic() >= ends_at,
    )
    names = tuple(tool.name for tool in brief.tools)
    transcript.append(Started(at=now(), order_id=brief.order_id, model=brief.model, system=brief.system, tools=names))
    _say(state, transcript, user(Text(text=brief.card)))
    outcome: Outcome | None = None
    while outcome is None:
        outcome = _over(state, brief, workplace, stop) or _round(provider, brief, workplace, transcript, state)
    # A question or a tool that was cut short looks like a failure of its own; the limit is the truer answer.
    if outcome.ended == "failed":
        outcome = _cut_short(brief, workplace, stop) or outcome
    spent = Spent(
        seconds=time.monotonic() - began,
        turns=state.asked,
        input_tokens=state.input_tokens,
        output_tokens=state.output_tokens,
        cost_usd=state.cost_usd,
    )
    transcript.append(Finished(at=now(), ended=outcome.ended, detail=outcome.detail, spent=spent))
    return replace(outcome, spent=spent)


def _over(state: _State, brief: Brief, workplace: Workplace, stop: Callable[[], bool]) -> Outcome | None:
    if (cut := _cut_short(brief, workplace, stop)) is not None:
        return cut
    if brief.limits.turns is not None and state.asked >= brief.limits.turns:
        return Outcome(ended="limits", detail=f"the agent used its {brief.limits.turns} turns without finishing")
    return None


def _cut_short(brief: Brief, workplace: Workplace, stop: Callable[[], bool]) -> Outcome | None:
    if workplace.left_s() <= 0:
        return Outcome(ended="timeout", detail=f"the agent did not finish within {brief.limits.wall_s:g} s")
    if stop():
        return Outcome(ended="stopped", detail="the agent was stopped")
    return None


def _round(
    provider: Provider, brief: Brief, workplace: Workplace, transcript: Transcript, state: _State
) -> Outcome | None:
    """One question and what follows from its answer; an outcome when that is the end."""
    offers = tuple(tool.offer for tool in brief.tools)
    try:
        turn = provider.ask(Request(system=brief.system, tools=offers, turns=tuple(state.turns)), stop=workplace.stop)
    except ModelFailed as failed:
        return Outcome(ended="failed", detail=str(failed))
    state.asked += 1
    _count(state, turn)
    _say(state, transcript, turn)
    if turn.stop == "refusal":
        return Outcome(ended="failed", detail=f"the model refused: {turn.text[:300]}")
    if not turn.calls:
        return _nudge(state, transcript)
    at = replace(workplace, iteration=state.asked)
    return _carry_out_all(turn, brief.tools, at, transcript, state)


def _nudge(state: _State, transcript: Transcript) -> Outcome | None:
    """A turn without a call is answered once. Never: silence taken for success."""
    if state.nudged:
        return Outcome(ended="failed", detail="the model twice answered without calling a tool")
    state.nudged = True
    _say(state, transcript, user(Text(text=_NUDGE)))
    return None


def _carry_out_all(
    turn: Turn, tools: tuple[Tool, ...], workplace: Workplace, transcript: Transcript, state: _State
) -> Outcome | None:
    """Each call gets its one result, in the order of the calls; after `finish` nothing more is run."""
    results: list[Part] = []
    summary: str | None = None
    for call in turn.calls:
        began = time.monotonic()
        answer = _answer(call, turn, tools, workplace, finished=summary is not None)
        summary = answer.summary if summary is None else summary
        result = ToolResult(call_id=call.id, text=answer.text, is_error=answer.is_error)
        seconds = time.monotonic() - began
        transcript.append(Answered(at=now(), iteration=workplace.iteration, seconds=seconds, result=result))
        results.append(result)
    state.turns.append(user(*results))
    if summary is None:
        return None
    return Outcome(ended="finished", detail="the agent finished", summary=summary)


def _answer(call: ToolCall, turn: Turn, tools: tuple[Tool, ...], workplace: Workplace, *, finished: bool) -> Answer:
    if turn.stop == "max_tokens":
        return Answer(text="not run: the answer was cut off at its length limit; make shorter calls", is_error=True)
    if finished:
        return Answer(text="not run: the work was finished by the call before", is_error=True)
    if workplace.stop():
        return Answer(text="not run: the attempt is being stopped", is_error=True)
    return carry_out(call, tools, workplace)


def _say(state: _State, transcript: Transcript, turn: Turn) -> None:
    transcript.append(Said(at=now(), turn=turn))
    state.turns.append(turn)


def _count(state: _State, turn: Turn) -> None:
    state.input_tokens += turn.usage.input_tokens
    state.output_tokens += turn.usage.output_tokens
    known = state.cost_usd is not None and turn.usage.cost_usd is not None
    state.cost_usd = (state.cost_usd or 0.0) + (turn.usage.cost_usd or 0.0) if known else None
