"""
Models asked for a profile's sake: for a summary of a conversation, or of a part of it.

Whatever goes wrong is an answer, with the sentence why: a summary is never worth an attempt. A question about the
conversation as it is shown goes to the model that leads it, behind the turns that its provider has in its cache; any
other to the table's route `compact`, where there is one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from workers.context.state import Question, Reply
from workers.context.view import View
from workers.llm.messages import Text, Turn, user
from workers.llm.provider import ModelFailed, Provider, Request
from workers.meter import Meter, Price

_LONGEST_S = 120.0
_NO_TOOLS = "Answer with text alone; call no tool."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Somebody who can be asked, and what that costs."""

    provider: Provider
    price: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Summoner:
    leading: Asked
    """Who leads the conversation."""
    like: Request
    """With what that one is asked: its system prompt and tools."""
    compact: Callable[[], Asked | None]
    """Who is asked for summaries; None where there is nobody."""
    meter: Meter
    stop: Callable[[], bool]
    hide: Callable[[str], str] = str

    def ask(self, question: Question, view: View) -> Reply:
        if question.text:
            asked = self._compact()
            said = user(Text(text=self.hide(question.text)))
            request = Request(system=(question.instruction,), tools=(), turns=(said,), phase=self.like.phase)
        else:
            asked = self.leading
            request = replace(self.like, turns=_with(view.shown, question.instruction), lasting_parts=view.lasting)
        if isinstance(asked, str):
            return Reply(why_not=asked)
        return self._answer(asked, request, question)

    def _compact(self) -> Asked | str:
        try:
            return self.compact() or "no model is set for the route 'compact'; add one to models.yaml"
        except ModelFailed as failed:
            return str(failed)

    def _answer(self, asked: Asked, request: Request, question: Question) -> Reply:
        room = self.meter.room(request, asked.price)
        if isinstance(room, str):
            return Reply(why_not=f"it was not asked: {room}")
        most = min(question.max_output_tokens, room or question.max_output_tokens)
        until = time.monotonic() + _LONGEST_S
        try:
            turn = asked.provider.ask(
                replace(request, max_output_tokens=most), stop=lambda: self.stop() or time.monotonic() > until
            )
        except ModelFailed as failed:
            return Reply(why_not=str(failed), usage=failed.usage)
        return _reply(turn, self.hide)


def _with(turns: tuple[Turn, ...], instruction: str) -> tuple[Turn, ...]:
    last = turns[-1]
    said = Text(text=f"{instruction}\n\n{_NO_TOOLS}")
    return (*turns[:-1], last.model_copy(update={"parts": (*last.parts, said)}))


def _reply(turn: Turn, hide: Callable[[str], str]) -> Reply:
    text = hide(turn.text.strip())
    if turn.calls:
        return Reply(why_not="it called a tool where it was to answer", usage=turn.usage)
    if turn.stop != "end":
        return Reply(why_not=f"its answer ended by {turn.stop}", usage=turn.usage)
    return Reply(text=text, why_not="" if text else "its answer was empty", usage=turn.usage)
