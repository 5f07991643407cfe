"""
The models of one attempt: one for each phase's conversation, and others that are asked for summaries of it.

A question for a summary that gets no answer is a value that says why: a summary is never worth an attempt. A question
about the conversation as it is shown goes to the model that leads it, whose provider has the turns in its cache. Any
other goes to the table's route `compact`, where there is one. The chain that leads the conversation asks neither: a
model that cannot sum a conversation up may go on with it all the same.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from forgepool.workers.agents.families import families_of
from forgepool.workers.context.edits.state import SummaryQuestion, SummaryReply, nobody
from forgepool.workers.context.transcript.usage import Meter, Price, sum_usages, to_spent
from forgepool.workers.context.view.live import Before
from forgepool.workers.llm.messages import Text, Turn, Usage, user
from forgepool.workers.llm.provider import LlmEvent, ModelFailed, ModelRequest, Provider, ProviderTry
from forgepool.workers.llm.routing.chain import ModelChain, Patience
from forgepool.workers.llm.routing.open import open_models
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.llm.scripted import MODEL, ScriptedModel
from forgepool.workers.schema.orders import BuiltinAgent, PhaseName, WorkOrder, add_spent
from forgepool.workers.schema.settings import Settings

_SCRIPTED_WINDOW = 200_000
_BESIDE = Patience(attempts=2, total_s=60.0, longest_wait_s=10.0)
"""For models that are asked for summaries, which an attempt can do without."""
LONGEST_S = 120.0
"""Seconds until a question for a summary counts as not answered."""
_NO_TOOLS = "Answer with text alone; call no tool."
_NO_LEADER = "the model that leads the conversation answers no questions about it"
COMPACT_ROUTE = "compact"
"""The route in the user's model table to the model that writes summaries of conversations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryModel:
    """A model that can be asked for summaries, and its price."""

    provider: Provider
    price: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseModel:
    """The model that leads a phase's conversation."""

    provider: Provider
    name: str
    family: str
    price: Price
    window_tokens: int


@dataclass(frozen=True, slots=True)
class OneModel:
    """The scripted model, for every phase."""

    model: ScriptedModel

    def families(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the script's declared family, and the families by name of other models that took part."""
        own = [self.model.family] if MODEL in (names := tuple(names)) else []
        return tuple(dict.fromkeys((*own, *families_of(name for name in names if name != MODEL))))

    def open(self, phase: PhaseName, *, stronger: bool, own: str | None = None) -> PhaseModel:
        return PhaseModel(
            provider=self.model,
            name=MODEL,
            family=MODEL,
            price=lambda given, answered: 0.0,
            window_tokens=_SCRIPTED_WINDOW,
        )

    def beside(self, phase: PhaseName, model: str) -> SummaryModel | None:
        """Return None: a script gives its own next turn, whatever it is asked."""
        return None

    def compact(self) -> SummaryModel | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableModels:
    """The models that the user's table names for the task."""

    order: WorkOrder
    agent: BuiltinAgent
    table: Table
    settings: Settings

    def families(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the families of models, given the names under which they answered."""
        return families_of(names, self.table)

    def open(self, phase: PhaseName, *, stronger: bool, own: str | None = None) -> PhaseModel:
        """
        Return the model for a phase. `own` is the one that its workflow or its skill names; a plan's choice counts
        for more.

        Raises:
            ModelFailed: no model can be asked; the sentence says why.
        """
        named = self.agent.models.get(phase) or self.agent.model or own
        chain = self._chain(self.order.type, phase, model=named, escalated=stronger)
        first = chain.contenders[0].candidate
        name = chain.model or first.model
        return PhaseModel(
            provider=chain,
            name=name,
            family=self.table.family(name) or first.family,
            price=chain.price,
            window_tokens=self.table.models[name].window_tokens,
        )

    def beside(self, phase: PhaseName, model: str) -> SummaryModel | None:
        """Return the model that leads a conversation, for a question about it; raises ModelFailed as `open` does."""
        chain = self._chain(self.order.type, phase, model=model)
        # Other models have nothing of the conversation in their caches.
        own = tuple(contender for contender in chain.contenders if contender.candidate.model == model)
        chain = replace(chain, contenders=own, patience=_BESIDE)
        return SummaryModel(provider=chain, price=chain.price)

    def compact(self) -> SummaryModel | None:
        """Return the model that writes summaries, or None where the user has set none; raises ModelFailed too."""
        if COMPACT_ROUTE not in self.table.routes:
            return None
        chain = replace(self._chain(COMPACT_ROUTE, "execute"), patience=_BESIDE)
        return SummaryModel(provider=chain, price=chain.price)

    def _chain(
        self, task_type: str, phase: PhaseName, *, model: str | None = None, escalated: bool = False
    ) -> ModelChain:
        return open_models(
            self.table,
            task_type=task_type,
            phase=phase,
            model=model,
            escalated=escalated,
            capped=self.order.limits.cost_usd is not None,
            closed=self.order.closed_accounts,
            run=self.order.run,
            settings=self.settings,
        )


Models = OneModel | TableModels


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryAsker:
    """Asks models for summaries of a conversation, within the attempt's limits."""

    leading: Callable[[], SummaryModel | None]
    """The model that leads the conversation; None where it answers no questions."""
    compact: Callable[[], SummaryModel | None]
    """The model that is set for summaries; None where none is."""
    meter: Meter
    """Counts the usage of each question."""
    stop: Callable[[], bool]
    hide: Callable[[str], str] = str
    longest_s: float = LONGEST_S

    def ask(self, question: SummaryQuestion, request: ModelRequest, before: Before) -> SummaryReply | str:
        """Return the reply, or a sentence why no model was asked. `request` is the conversation's next one."""
        try:
            asked = self._model_for(question)
        except ModelFailed as failed:
            return str(failed)
        if isinstance(asked, str):
            return asked
        request = self._about(question, request)
        room = self.meter.room(request, asked.price)
        if isinstance(room, str):
            return f"no model was asked: {room}"
        if not before():
            return "no model was asked: the hub could not record that it would be"
        most = min(question.max_output_tokens, room or question.max_output_tokens)
        reply = self._answer(asked.provider, replace(request, max_output_tokens=most))
        self.meter.spent = add_spent(self.meter.spent, to_spent(reply.usage))
        return reply

    def _model_for(self, question: SummaryQuestion) -> SummaryModel | str:
        if question.text:
            return self.compact() or nobody(question).why_not
        return self.leading() or _NO_LEADER

    def _about(self, question: SummaryQuestion, request: ModelRequest) -> ModelRequest:
        if not question.text:
            last = request.turns[-1]
            said = Text(text=f"{question.instruction}\n\n{_NO_TOOLS}")
            asking = last.model_copy(update={"parts": (*last.parts, said)})
            return replace(request, turns=(*request.turns[:-1], asking))
        turn = user(Text(text=self.hide(question.text)))
        return ModelRequest(system=(self.hide(question.instruction),), tools=(), turns=(turn,), phase=request.phase)

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


def _reply(turn: Turn, hide: Callable[[str], str]) -> SummaryReply:
    if turn.calls:
        return SummaryReply(why_not="it called a tool where it was to answer")
    if turn.stop != "end":
        return SummaryReply(why_not=f"its answer ended by {turn.stop}")
    text = hide(turn.text.strip())
    return SummaryReply(text=text, why_not="" if text else "its answer was empty")
