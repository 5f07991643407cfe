"""
Models asked for a profile's sake: for a summary of a conversation, or of a part of it.

Whatever goes wrong is an answer, with the sentence why: a summary is never worth an attempt. A question about the
conversation as it is shown goes to the model that leads it, behind the turns that its provider has in its cache; any
other to the table's route `compact`, where there is one. Neither is asked by the chain that leads the conversation: who
cannot sum it up may go on with it all the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from forgepool.workers.context.edits.state import SummaryQuestion, SummaryReply, nobody
from forgepool.workers.context.transcript.usage import Meter, Price, add_spent, sum_usages, to_spent
from forgepool.workers.context.view.live import Before
from forgepool.workers.llm.messages import Text, Turn, Usage, user
from forgepool.workers.llm.provider import LlmEvent, ModelFailed, ModelRequest, Provider, ProviderTry

LONGEST_S = 120.0
"""Seconds until a question counts as not answered."""
_NO_TOOLS = "Answer with text alone; call no tool."
_NO_LEADER = "nobody who leads the conversation can be asked about it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryModel:
    """Somebody who can be asked, and what that costs."""

    provider: Provider
    price: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Summoner:
    leading: Callable[[], SummaryModel | None]
    """Who leads the conversation; None where that is nobody who answers questions."""
    compact: Callable[[], SummaryModel | None]
    """Who is asked for summaries; None where nobody is."""
    meter: Meter
    """Charged with whatever is asked."""
    stop: Callable[[], bool]
    hide: Callable[[str], str] = str
    longest_s: float = LONGEST_S

    def ask(self, question: SummaryQuestion, request: ModelRequest, before: Before) -> SummaryReply | str:
        """A sentence where nobody was asked. `request` is the next one of the conversation."""
        try:
            asked = self._whom(question)
        except ModelFailed as failed:
            return str(failed)
        if isinstance(asked, str):
            return asked
        request = self._about(question, request)
        room = self.meter.room(request, asked.price)
        if isinstance(room, str):
            return f"no model was asked: {room}"
        if not before():
            return "no model was asked: that it would be could not be written down in the hub"
        most = min(question.max_output_tokens, room or question.max_output_tokens)
        reply = self._answer(asked.provider, replace(request, max_output_tokens=most))
        self.meter.spent = add_spent(self.meter.spent, to_spent(reply.usage))
        return reply

    def _whom(self, question: SummaryQuestion) -> SummaryModel | str:
        if question.text:
            return self.compact() or nobody(question).why_not
        return self.leading() or _NO_LEADER

    def _about(self, question: SummaryQuestion, request: ModelRequest) -> ModelRequest:
        if not question.text:
            return replace(request, turns=_with(request.turns, question.instruction))
        said = user(Text(text=self.hide(question.text)))
        return ModelRequest(system=(self.hide(question.instruction),), tools=(), turns=(said,), phase=request.phase)

    def _answer(self, provider: Provider, request: ModelRequest) -> SummaryReply:
        until = time.monotonic() + self.longest_s
        tries: list[Usage] = []

        def hear(event: LlmEvent) -> None:
            if isinstance(event, ProviderTry):
                tries.append(event.usage)

        try:
            turn = provider.ask(request, stop=lambda: self.stop() or time.monotonic() > until, hear=hear)
        except ModelFailed as failed:
            if failed.trouble != "stopped":
                return SummaryReply(why_not=str(failed), usage=sum_usages(tries))
            late = f"it had not answered after {self.longest_s:g} s"
            why = late if time.monotonic() > until else str(failed)
            return SummaryReply(why_not=why, usage=sum_usages([*tries, failed.usage]))
        return replace(_reply(turn, self.hide), usage=sum_usages([*tries, turn.usage]))


def _with(turns: tuple[Turn, ...], instruction: str) -> tuple[Turn, ...]:
    last = turns[-1]
    said = Text(text=f"{instruction}\n\n{_NO_TOOLS}")
    return (*turns[:-1], last.model_copy(update={"parts": (*last.parts, said)}))


def _reply(turn: Turn, hide: Callable[[str], str]) -> SummaryReply:
    if turn.calls:
        return SummaryReply(why_not="it called a tool where it was to answer")
    if turn.stop != "end":
        return SummaryReply(why_not=f"its answer ended by {turn.stop}")
    text = hide(turn.text.strip())
    return SummaryReply(text=text, why_not="" if text else "its answer was empty")
