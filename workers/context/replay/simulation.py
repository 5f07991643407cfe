"""
One recording under one profile: at each of its calls the profile is asked, its view is priced, and what the call needed
is looked for in it.

What the agent did is as it was recorded. Two moments are guessed at: a first failing test counts as the red phase that
our own agents confirm, and a cache is cold where the recorded times say that nobody asked for longer than it keeps
things. A phase, a resumed run and another profile never happen here.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forgepool.workers.context.edits.state import Cause, Moment, Profile, SummaryQuestion, SummaryReply
from forgepool.workers.context.history.actions import Deed
from forgepool.workers.context.history.calls import read_tool_call
from forgepool.workers.context.history.names import part_text
from forgepool.workers.context.history.token_estimate import Gauge, length, turn_length
from forgepool.workers.context.replay.cost import Block, Cashier, Prices, ReplayBill, tokens
from forgepool.workers.context.replay.needs import Needs, SeenWords, ShownSource, find_lost, words
from forgepool.workers.context.replay.recording import Recording
from forgepool.workers.context.replay.summaries import summary
from forgepool.workers.context.shorten.new_results import Birth, Births, Entering
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.view.view import ContextView
from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn, Usage
from forgepool.workers.tools.commands.red_phase import CONFIRM
from forgepool.workers.tools.endings import COMPACT

SYSTEM_TOKENS = 2_500
"""Assumed of a recording without its system prompt, tools included."""
WINDOW_TOKENS = 200_000
REFETCH_OUTPUT_TOKENS = 60
REFETCH_CARRIED_CALLS = 10
"""What is lost costs one call more, which reads the context, says so much, and leaves what it fetched for so long."""
_ARCHIVE = "/tmp/outputs/steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTerms:
    """What all rows of a comparison have in common."""

    prices: Prices
    window_tokens: int = WINDOW_TOKENS
    ttl_s: float | None = None
    """How long a cache keeps what nobody asks for; None is for ever."""


@dataclass(slots=True, kw_only=True)
class ReplayOutcome:
    """Of one recording, under one profile."""

    bill: ReplayBill = field(default_factory=ReplayBill)
    refetch_usd: float = 0.0
    rebuilds: int = 0
    model_calls: int = 0
    """Of models asked for a summary."""
    needs: int = 0
    needs_lost: int = 0
    calls_with_needs: int = 0
    calls_hit: int = 0
    anchors: int = 0
    anchors_lost: int = 0
    refused: list[str] = field(default_factory=list)
    """What the profile proposed and could not be shown: a defect of the profile, of which nothing was used."""
    spent_usd: list[float] = field(default_factory=list)
    """After each call, without refetching."""


def system_characters(recording: Recording) -> int:
    return len(recording.system) or int(SYSTEM_TOKENS * 4)


def simulate(
    recording: Recording,
    wanted: Mapping[int, Needs],
    profile: Profile,
    terms: ReplayTerms,
    *,
    birth: Birth | None = None,
    messages_cached: bool = True,
) -> ReplayOutcome:
    """`wanted` are the needs of the recording's turns. Without `birth` results enter as they are."""
    run = _Run(
        recording=recording,
        profile=profile,
        terms=terms,
        births=Births(birth) if birth is not None else None,
        messages_cached=messages_cached,
    )
    for place, turn in enumerate(recording.turns):
        if turn.role == "assistant":
            run.call(place, turn, wanted.get(place, Needs()))
        else:
            run.hear(turn)
    return run.outcome


@dataclass(slots=True, kw_only=True)
class _Run:
    recording: Recording
    profile: Profile
    terms: ReplayTerms
    births: Births | None
    messages_cached: bool
    outcome: ReplayOutcome = field(default_factory=ReplayOutcome)
    _view: ContextView = field(init=False)
    _cashier: Cashier = field(init=False)
    _shown: list[SeenWords] = field(default_factory=list)
    _taken: tuple[int, int] = (0, 0)
    """Turns of the view of which the request has all parts, and parts of the next one."""
    _fired: set[str] = field(default_factory=set)
    _is_red: bool = False
    _last_at: float | None = None

    def __post_init__(self) -> None:
        system = system_characters(self.recording)
        gauge = Gauge(window_tokens=self.terms.window_tokens, fixed_characters=system)
        self._view = ContextView(gauge=gauge, archive=_ARCHIVE)
        self._cashier = Cashier(
            system_characters=system,
            automatic=self.terms.prices.automatic,
            messages_cached=self.messages_cached,
            bill=self.outcome.bill,
        )

    def hear(self, turn: Turn) -> None:
        for part in turn.parts:
            if isinstance(part, ToolResult):
                self._answer(part)
            else:
                self._view.say(Turn(role="user", parts=(part,)))

    def call(self, place: int, turn: Turn, wanted: Needs) -> None:
        cause = self._cause(place)
        if cause == "cold":
            self._cashier.forget()
            self._taken = (0, 0)
        self._take_shown()
        self._propose(cause)
        if self._view.state().share > 1:
            self._propose("overflow")
        self._cashier.ask(turn_length(turn))
        self._judge(wanted)
        self.outcome.spent_usd.append(self.outcome.bill.cost_usd(self.terms.prices))
        # What its provider counted was another view's size.
        self._view.say(turn.model_copy(update={"usage": Usage()}))
        self._last_at = self.recording.times[place]

    def _answer(self, result: ToolResult) -> None:
        born = self._born(result)
        before = len(self._view.deeds)
        self._view.answer(result.model_copy(update={"text": born}) if born != result.text else result, result.text)
        if self.births is not None and len(self._view.deeds) > before:
            self.births.take(self._view.deeds[-1])

    def _born(self, result: ToolResult) -> str:
        call = self._called(result.call_id)
        if self.births is None or call is None:
            return result.text
        told = read_tool_call(call)
        entering = Entering(
            call=call,
            text=result.text,
            action=told.action,
            reads=told.reads,
            writes=told.writes,
            failed=result.is_error,
            iteration=sum(turn.role == "assistant" for turn in self._view.turns),
            shown_from=find_shown_from(self._view.edit, self._view.deeds),
            spill=lambda text: f"{_ARCHIVE}/step-{len(self._view.deeds) + 1}.txt",
        )
        return self.births.shorten_result(entering).text

    def _called(self, call_id: str) -> ToolCall | None:
        last = next((turn for turn in reversed(self._view.turns[-2:]) if turn.role == "assistant"), None)
        return next((call for call in last.calls if call.id == call_id), None) if last else None

    def _cause(self, place: int) -> Cause:
        newest = [deed for deed in self._view.deeds[-20:] if deed.turn >= len(self._view.turns) - 2]
        if any(deed.call.name == COMPACT and not deed.failed for deed in newest):
            return "wish"
        if not self._is_red and any(_is_red(deed) for deed in newest):
            self._is_red = True
            return "red"
        return "cold" if self._is_cold(place) else "call"

    def _is_cold(self, place: int) -> bool:
        heard = self.recording.times[place - 1] if place else None
        now = heard if heard is not None else self.recording.times[place]
        if self.terms.ttl_s is None or now is None or self._last_at is None:
            return False
        return now - self._last_at > self.terms.ttl_s

    def _propose(self, cause: Cause) -> None:
        moment = Moment(cause=cause, ask=self._reply, fired=frozenset(self._fired))
        proposal = self._view.propose(self.profile, moment)
        if isinstance(proposal, str):
            self.outcome.refused.append(proposal)
            return
        if proposal is None:
            return
        if proposal.once:
            self._fired.add(proposal.once)
        if proposal.edit == self._view.edit:
            return
        self._view.use(proposal.edit)
        self.outcome.rebuilds += 1
        self._cashier.begin()
        self._taken = (0, 0)
        self._take_shown()

    def _reply(self, question: SummaryQuestion) -> SummaryReply:
        if question.once:
            if question.once in self._fired:
                return SummaryReply(why_not="it was asked already")
            self._fired.add(question.once)
        reply = summary(question, self._view.turns, self._view.deeds)
        self.outcome.model_calls += 1
        self._cashier.aside(
            live=not question.text,
            characters=len(question.instruction) + len(question.text),
            output_characters=len(reply.text),
        )
        return reply

    def _take_shown(self) -> None:
        """Into the request, what of the view is not in it yet."""
        if self._taken == (0, 0):
            self._shown.clear()
        view, lasting = self._view.shown, self._lasting()
        turns, parts = self._taken
        for place in range(turns, len(view)):
            for part in view[place].parts[parts if place == turns else 0 :]:
                self._shown.append(words(part))
                self._cashier.add(_block(part, mark=len(self._shown) == lasting))
        self._taken = (len(view) - 1, len(view[-1].parts)) if view else (0, 0)

    def _lasting(self) -> int | None:
        """The number of the part at which what outlasts a rebuild ends, where the cache is told to hold that."""
        return self._view.lasting if self._view.turns else None

    def _judge(self, wanted: Needs) -> None:
        if not wanted.any:
            return
        missing = find_lost(wanted, self._shown)
        self.outcome.calls_with_needs += 1
        self.outcome.needs += len(wanted.names)
        self.outcome.anchors += len(wanted.anchors)
        self.outcome.needs_lost += len(missing.names)
        self.outcome.anchors_lost += len(missing.anchors)
        if missing.any:
            self.outcome.calls_hit += 1
            self.outcome.refetch_usd += refetch_usd(missing.sources, self._cashier.prompt_tokens, self.terms.prices)


def refetch_usd(sources: frozenset[ShownSource], context_tokens: float, prices: Prices) -> float:
    fetched = tokens(sum(source.characters for source in sources))
    carried = fetched * (prices.written + REFETCH_CARRIED_CALLS * prices.cached)
    return (context_tokens * prices.cached + REFETCH_OUTPUT_TOKENS * prices.output + carried) / 1_000_000


def find_shown_from(edit: Edit, deeds: Sequence[Deed]) -> int:
    """The first step from which on every result is shown as it was born."""
    masked = max(edit.results, default=0)
    return max(masked, bisect_left(deeds, edit.cut, key=_turn)) + 1


def _turn(deed: Deed) -> int:
    return deed.turn


def _is_red(deed: Deed) -> bool:
    if deed.call.name == CONFIRM:
        return not deed.result.is_error
    return deed.failed and (deed.action == "test" or "test" in deed.does)


def _block(part: Part, *, mark: bool) -> Block:
    text = part_text(part)
    match part:
        case ToolCall(name=name):
            key = hash(("call", name, text))
        case Text():
            key = hash(("text", text))
        case ToolResult():
            key = hash(("result", text))
        case _:
            key = hash(("opaque", str(part.block)))
    return Block(key=key, characters=length(part), mark=mark)
