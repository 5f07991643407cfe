"""
The conversation of one agent with one model: ask, run the tools it calls, return their results, ask again.

It ends when the model ends it (`commit_plan`, `finish`, `ask`), or at a limit. Its change is checked elsewhere.
Everything goes into the transcript before anything follows from it, and the model is shown what the transcript holds.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from forgepool.workers.agents.builtin.permission import Rule
from forgepool.workers.agents.builtin.phases import facts
from forgepool.workers.context.transcript.entries import (
    Answered,
    Finished,
    Noted,
    PlanCommitted,
    ReportGiven,
    Transcript,
    TurnSaid,
    now,
)
from forgepool.workers.context.transcript.entries import QuestionTried as TriedEntry
from forgepool.workers.context.transcript.loop_detection import (
    MOST_EXPLORING,
    find_exploration_end,
    stuck,
    warning,
    was_told,
    was_warned,
)
from forgepool.workers.context.transcript.usage import LAST_TURNS, Meter, Price, to_spent
from forgepool.workers.context.view.live import Context
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, Usage, user
from forgepool.workers.llm.provider import LlmEvent, ModelFailed, ModelRequest, Provider, ProviderTry, Trouble, Waited
from forgepool.workers.schema.orders import PhaseName, add_spent
from forgepool.workers.schema.reports import LeadRequest
from forgepool.workers.tools.tool import (
    Ends,
    Finish,
    Parked,
    PersonAsked,
    Planned,
    Queued,
    Reported,
    Tool,
    ToolAnswer,
    carry_out,
)
from forgepool.workers.tools.workplace import Workplace
from forgepool.workers.workspace.checkpoints import Keeper

_NUDGE = (
    "[the harness] You called no tool. Go on with the work; when it is done, or cannot be done, say so with a tool."
)
_CUT_OFF = "[the harness] Your answer was cut off at its length limit. Go on from there, in shorter steps."
_MOST_SILENT = 2

Ending = Literal[
    "finished",
    "planned",
    "reported",
    "asked",
    "queued",
    "waiting",
    "explored",
    "turns",
    "failed",
    "refused",
    "overflow",
    "timeout",
    "stopped",
    "limits",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationBrief:
    """The parts of a conversation that stay the same from its first turn to its last."""

    phase: PhaseName
    system: tuple[str, ...]
    tools: tuple[Tool, ...]
    price: Price
    lasting: bool = False
    answers: bool = False
    """It ends with a report; exploring too long ends it no sooner."""
    one_call: bool = False
    """One call of a tool is all there is, and a second to mend a refused one."""
    open_ended: bool = False
    """True leaves the end of PLAN to its limits, however long it explores."""
    turns: int | None = None
    """The most turns of the model in the phase, in this conversation and those of the phase before it."""

    @property
    def like(self) -> ModelRequest:
        """The request that each of its questions extends."""
        offers = tuple(tool.offer for tool in self.tools)
        return ModelRequest(
            system=self.system, tools=offers, turns=(), phase=self.phase, lasting=self.lasting, must_call=self.one_call
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationOutcome:
    ended: Ending
    detail: str
    """One sentence; with `asked`, the question."""
    summary: str = ""
    """The model's claim; only with `finished`."""
    trouble: Trouble | None = None
    """The reason why there was no turn; only with `failed`."""
    resets_at: float | None = None
    request: LeadRequest | None = None
    """The request to the orchestrator; only with `waiting`."""


@dataclass(slots=True, kw_only=True)
class Talk:
    """A conversation under way, recorded in a transcript."""

    provider: Provider
    brief: ConversationBrief
    workplace: Workplace
    transcript: Transcript
    context: Context
    """The view of the transcript that the model is shown."""
    meter: Meter
    stop: Callable[[], bool]
    rule: Rule
    """Asked before a call is carried out."""
    keeper: Keeper = field(default_factory=Keeper)
    hide: Callable[[str], str] = str
    """Removes secrets from a tool's result before it is recorded."""
    _silent: int = 0
    _told_to_report: int = 0
    """The turn at which the model was told that it has explored enough; 0 before."""
    _changed: bool = False
    """True when tools may have changed files since the work was last kept."""

    def lead(self) -> ConversationOutcome:
        """Lead the conversation to its end, recording each turn and each result at once."""
        outcome: ConversationOutcome | None = None
        while outcome is None:
            outcome = self._over() or self._round()
            if outcome is None:
                self._keep()
        # A question or a tool that was cut short looks like a failure of its own; the limit is the truer answer.
        if outcome.ended == "failed":
            outcome = self._cut_short() or outcome
        self.transcript.append(
            Finished(
                at=now(),
                ended=outcome.ended,
                detail=outcome.detail,
                summary=outcome.summary,
                spent=self.meter.so_far,
                request=outcome.request,
            )
        )
        self._keep(phase_ends=True)
        return outcome

    def _keep(self, *, phase_ends: bool = False) -> None:
        """Keep the work, unless the round was cut short: it may be half done, so a resumed attempt begins before it."""
        if self._cut_short() is None:
            self.keeper.keep(changed=self._changed, phase_ends=phase_ends)
            self._changed = False

    def say(self, text: str) -> None:
        self.transcript.append(TurnSaid(at=now(), turn=user(Text(text=text))))

    def _over(self) -> ConversationOutcome | None:
        if (cut := self._cut_short()) is not None:
            return cut
        if (used := self.meter.find_used_up()) is not None:
            return ConversationOutcome(ended="limits", detail=used)
        if self.brief.one_call and self._asked() > 1:
            said = "; ".join(part.text for part in self.context.view.turns[-1].results) or "it called no tool"
            return ConversationOutcome(
                ended="failed", detail=f"its two calls brought nothing that counts; to the last: {said}"
            )
        return self._explored() or self._out_of_turns()

    def _out_of_turns(self) -> ConversationOutcome | None:
        most = self.brief.turns
        if most is None or facts(self.transcript.entries).own.turns < most:
            return None
        return ConversationOutcome(ended="turns", detail=f"it used its {most} turns")

    def _announce_limits(self) -> None:
        """Tell the model once that three quarters of a limit are used, and once that these are its last turns."""
        told = None if self.brief.one_call or not self._asked() else self.meter.find_warning(self.workplace.left_s())
        if told is not None and not was_told(self.transcript.entries, told.partition(":")[0]):
            self.say(told)

    def _explored(self) -> ConversationOutcome | None:
        """End PLAN where it learns nothing new, or takes too long."""
        if self.brief.phase != "plan" or self.brief.open_ended:
            return None
        most = self.brief.turns or MOST_EXPLORING
        if self.brief.turns is not None and self.brief.answers:
            most = max(1, most - LAST_TURNS)
        why = find_exploration_end(self.transcript.entries, most=most, made="report" if self.brief.answers else "plan")
        if why is None:
            return None
        return self._ask_for_report(why) if self.brief.answers else ConversationOutcome(ended="explored", detail=why)

    def _ask_for_report(self, why: str) -> ConversationOutcome | None:
        """Tell the model once to report now; end the conversation if it goes on exploring."""
        if not self._told_to_report:
            self._told_to_report = self._asked()
            self.say(f"[the harness] {why}. Call `report` now: say what you know, and what is missing.")
        elif self._asked() >= self._told_to_report + LAST_TURNS:
            return ConversationOutcome(ended="failed", detail=f"{why}; told to report, the agent went on exploring")
        return None

    def _cut_short(self) -> ConversationOutcome | None:
        if self.workplace.left_s() <= 0:
            return ConversationOutcome(
                ended="timeout", detail=f"the agent did not finish within {self.meter.limits.wall_s:g} s"
            )
        if self.stop():
            return ConversationOutcome(ended="stopped", detail="the agent was stopped")
        return None

    def _asked(self) -> int:
        """Count the model's turns in this conversation."""
        return sum(turn.role == "assistant" for turn in self.context.view.turns)

    def _round(self) -> ConversationOutcome | None:
        """Ask once and act on the answer; return an outcome when that ends the conversation."""
        self._announce_limits()
        turn = self._ask()
        if isinstance(turn, ConversationOutcome):
            return turn
        self.meter.count(turn.usage)
        self.transcript.append(TurnSaid(at=now(), turn=turn))
        self.context.catch_up()
        self._changed = self._changed or any(self._kind(call) not in ("read", "end") for call in turn.calls)
        return self._follow(turn)

    def _ask(self) -> Turn | ConversationOutcome:
        """Ask; when the conversation is too long for the model, shorten its view and ask once more."""
        self.context.prepare()
        # Shortening may have asked a model, and taken a while.
        answer = self._cut_short() or self._question()
        if isinstance(answer, ConversationOutcome) and answer.ended == "overflow" and self.context.note_overflow():
            answer = self._question()
        return answer

    def _question(self) -> Turn | ConversationOutcome:
        request = self.context.request
        room = self.meter.room(request, self.brief.price)
        if isinstance(room, str):
            return ConversationOutcome(ended="limits", detail=room)
        try:
            return self.provider.ask(
                replace(request, max_output_tokens=room), stop=self.workplace.stop, hear=self._hear
            )
        except ModelFailed as failed:
            if failed.trouble == "stopped":
                self._pay("a question was cut short", failed.usage)
            ended: Ending = "overflow" if failed.trouble == "overflow" else "failed"
            return ConversationOutcome(
                ended=ended, detail=str(failed), trouble=failed.trouble, resets_at=failed.resets_at
            )

    def _pay(self, why: str, usage: Usage) -> None:
        """Count usage that belongs to no turn."""
        if usage.input_tokens or usage.output_tokens:
            self.transcript.append(Noted(at=now(), text=why, usage=usage))
            self.meter.spent = add_spent(self.meter.spent, to_spent(usage))

    def _hear(self, event: LlmEvent) -> None:
        if isinstance(event, Waited):
            self.meter.waited_s += event.seconds
        elif isinstance(event, ProviderTry):
            self.transcript.append(
                TriedEntry(
                    at=now(),
                    model=event.model,
                    account=event.account,
                    trouble=event.trouble,
                    said=event.said,
                    status=event.status,
                    seconds=event.seconds,
                    wait_s=event.wait_s,
                    usage=event.usage,
                )
            )
            self.meter.spent = add_spent(self.meter.spent, to_spent(event.usage))

    def _follow(self, turn: Turn) -> ConversationOutcome | None:
        ends = self._carry_out_all(turn)
        if turn.stop == "refusal":
            return ConversationOutcome(
                ended="refused", detail=f"the model refused: {turn.text[:300] or 'it gave no reason'}"
            )
        if turn.stop == "overflow" and not self.context.note_overflow():
            return ConversationOutcome(
                ended="overflow", detail="the conversation filled the model's window while it answered"
            )
        if ends is not None:
            return self._ended(ends)
        if not turn.calls:
            return self._nudge(turn)
        self._silent = 0
        return self._judge()

    def _ended(self, ends: Ends) -> ConversationOutcome:
        match ends:
            case Finish(summary=summary):
                return ConversationOutcome(ended="finished", detail="the agent finished", summary=summary)
            case Planned(plan=plan, files=files):
                self.transcript.append(PlanCommitted(at=now(), plan=plan, files=files))
                return ConversationOutcome(ended="planned", detail="the agent committed to a plan")
            case Reported(report=report):
                self.transcript.append(ReportGiven(at=now(), report=report))
                return ConversationOutcome(ended="reported", detail="the agent reported", summary=report.summary)
            case PersonAsked(question=question):
                return ConversationOutcome(ended="asked", detail=question)
            case Parked(request=request):
                detail = f"waits for the reply to its request {request.number}, {request.do}"
                return ConversationOutcome(ended="waiting", detail=detail, request=request)
            case Queued(why=why):
                return ConversationOutcome(ended="queued", detail=why)

    def _nudge(self, turn: Turn) -> ConversationOutcome | None:
        """Answer a turn without a call, so many times in a row. Silence is never taken for success."""
        self._silent += 1
        if self._silent >= _MOST_SILENT:
            times = {2: "twice"}.get(self._silent, f"{self._silent} times in a row")
            return ConversationOutcome(ended="failed", detail=f"the model {times} answered without calling a tool")
        self.say(_CUT_OFF if turn.stop in ("max_tokens", "overflow") else _NUDGE)
        return None

    def _judge(self) -> ConversationOutcome | None:
        """Warn a conversation that goes in circles once; the next time, end it."""
        entries = self.transcript.entries
        why = stuck(entries, self.brief.phase)
        if why is None:
            return None
        if was_warned(entries):
            return ConversationOutcome(
                ended="failed", detail=f"the agent goes in circles, and went on when told so: {why}"
            )
        self.say(warning(why))
        return None

    def _carry_out_all(self, turn: Turn) -> Ends | None:
        """Give each call one result, in order; after a call that ends the conversation nothing more is run."""
        if any(self._kind(call) != "read" for call in turn.calls):
            self.keeper.settle()
        workplace = replace(self.workplace, iteration=self._asked())
        ends: Ends | None = None
        for call in turn.calls:
            began = time.monotonic()
            answer = self._answer(call, turn, workplace, ended=ends is not None)
            ends = ends or answer.ends
            self._tell(call, answer, workplace.iteration, time.monotonic() - began)
        return ends

    def _tell(self, call: ToolCall, answer: ToolAnswer, iteration: int, seconds: float) -> None:
        whole = self.hide(answer.text)
        text, how = self.context.shorten_result(call, whole, is_error=answer.is_error, iteration=iteration)
        result = ToolResult(call_id=call.id, text=text, is_error=answer.is_error)
        kept = whole if how else ""
        self.transcript.append(
            Answered(at=now(), iteration=iteration, seconds=seconds, result=result, whole=kept, shortened=how)
        )
        self.context.catch_up()

    def _answer(self, call: ToolCall, turn: Turn, workplace: Workplace, *, ended: bool) -> ToolAnswer:
        if turn.stop in ("max_tokens", "overflow"):
            why = "not run: the answer was cut off at its length limit; make shorter calls"
        elif turn.stop == "refusal":
            why = "not run: the answer was a refusal"
        elif ended:
            why = "not run: the conversation was ended by a call before"
        elif workplace.stop():
            why = "not run: the attempt is being stopped"
        else:
            return self._ruled(call) or carry_out(call, self.brief.tools, workplace)
        return ToolAnswer(text=why, is_error=True)

    def _ruled(self, call: ToolCall) -> ToolAnswer | None:
        """Return the policy's answer where it does not allow the call."""
        tool = self._tool(call)
        return None if tool is None or call.malformed is not None else self.rule(call, tool)

    def _tool(self, call: ToolCall) -> Tool | None:
        return next((tool for tool in self.brief.tools if tool.name == call.name), None)

    def _kind(self, call: ToolCall) -> str:
        tool = self._tool(call)
        return "read" if tool is None else tool.kind
