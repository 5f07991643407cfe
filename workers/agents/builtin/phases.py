"""
The phases of the built-in agent: decide the next step from the events so far. Pure.

PLAN and EXECUTE are separate conversations, each begun afresh; VERIFY runs the checks without a model. A task that
answers has one conversation, with the tools of PLAN, which ends with its report. The steps
follow from the transcript alone, so another process that has it continues in the same way. No model can skip a phase:
it can only end its conversation. Committing the work is the caller's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.workers.context.transcript.entries import (
    ConversationStarted,
    Entry,
    Finished,
    PlanCommitted,
    ReportGiven,
    Resumed,
    TurnSaid,
    Verified,
)
from forgepool.workers.schema.orders import PhaseName, Reply
from forgepool.workers.schema.reports import LeadReply, LeadRequest, Report

ENDED_WELL = "finished"
REPORTED = "reported"
WAITING = "waiting"
_LEADS_ON = (ENDED_WELL, REPORTED, WAITING, "planned", "asked", "explored", "overflow")
"""Ends that a resumed attempt takes as they are; it tries again after any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCourse:
    """The settings of the phases."""

    plan_first: bool = True
    answers: bool = False
    """PLAN ends with a report, and the attempt with it."""
    leads: bool = False
    """The conversation may rest for replies of the orchestrator."""
    most_reds: int = 3
    """Times that VERIFY may send the work back; the next failure ends the attempt."""


@dataclass(slots=True, kw_only=True)
class Facts:
    """The state of the attempt, as read from its transcript."""

    phase: PhaseName | None = None
    """The phase of the conversation begun last."""
    ended: str = ""
    """How that conversation ended; empty while it is open."""
    detail: str = ""
    summary: str = ""
    """The model's claim when it finished last."""
    plan: PlanCommitted | None = None
    report: Report | None = None
    request: LeadRequest | None = None
    """The request by which the conversation rests, or has rested last."""
    questions: list[str] = field(default_factory=list)
    """The questions to a person, oldest first."""
    overflows: int = 0
    """Times that EXECUTE's conversation grew too long."""
    reds: list[Verified] = field(default_factory=list)
    green: bool = False
    unjudged: bool = True
    """True when there was a turn since the work was last verified."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A fresh conversation."""

    phase: PhaseName


@dataclass(frozen=True, slots=True)
class GoOn:
    """The conversation under way goes on, with something new to say unless it was interrupted."""

    phase: PhaseName
    say: str = ""
    reply: LeadReply | None = None
    """The reply that a lead has waited for."""
    stronger: bool = False
    """A stronger model takes over, if there is one, since this one repeats its failure."""


@dataclass(frozen=True, slots=True)
class ForcePlan:
    """EXECUTE begins with a plan made from what PLAN explored."""

    why: str


@dataclass(frozen=True, slots=True)
class Verify:
    pass


@dataclass(frozen=True, slots=True)
class End:
    ended: str
    detail: str


Step = Begin | GoOn | ForcePlan | Verify | End


def facts(entries: Sequence[Entry]) -> Facts:
    state = Facts()
    for entry in entries:
        match entry:
            case ConversationStarted(phase=phase):
                state.phase, state.ended, state.detail = phase, "", ""
            case TurnSaid():
                state.ended, state.unjudged = "", True
            case Finished(ended=ended, detail=detail, summary=summary, request=request):
                state.ended, state.detail = ended, detail
                state.request = request or state.request
                state.summary = summary or state.summary
                state.questions += [detail] if ended == "asked" else []
                state.overflows += ended == "overflow" and state.phase == "execute"
            case Resumed():
                if state.ended not in _LEADS_ON:
                    state.ended = ""
            case PlanCommitted():
                state.plan = entry
            case Verified(ok=ok):
                state.green, state.unjudged = ok, False
                if not ok:
                    state.reds.append(entry)
            case _:
                pass
    state.report = _find_report(entries)
    return state


def _find_report(entries: Sequence[Entry]) -> Report | None:
    return next((entry.report for entry in reversed(entries) if isinstance(entry, ReportGiven)), None)


def next_step(
    state: Facts, course: PhaseCourse, replies: Sequence[Reply], lead_replies: Sequence[LeadReply] = ()
) -> Step:
    if state.phase is None:
        return Begin("plan" if course.plan_first or course.answers else "execute")
    if not state.ended:
        return GoOn(state.phase)
    if state.ended == "asked":
        return _asked(state, state.phase, replies)
    if state.ended == WAITING:
        return _waiting(state, state.phase, lead_replies)
    if course.answers:
        return _after_answer(state)
    if state.phase == "plan":
        return _after_plan(state)
    return _after_execute(state, course)


def _asked(state: Facts, phase: PhaseName, replies: Sequence[Reply]) -> Step:
    """Go on with a person's reply, if there is one; the nth reply to a question answers its nth asking."""
    fitting = [reply for reply in replies if reply.question == state.detail]
    times = state.questions.count(state.detail)
    if times > len(fitting):
        return End("asked", state.detail)
    reply = fitting[times - 1]
    by = f" ({reply.by})" if reply.by else ""
    return GoOn(phase, f"A person{by} answers your question:\n\n{reply.answer}")


def _waiting(state: Facts, phase: PhaseName, replies: Sequence[LeadReply]) -> Step:
    """Go on with the orchestrator's reply, if it is there."""
    number = state.request.number if state.request is not None else 0
    reply = next((reply for reply in replies if reply.number == number and number), None)
    return End(WAITING, state.detail) if reply is None else GoOn(phase, reply=reply)


def _after_answer(state: Facts) -> Step:
    if state.report is not None:
        return End(REPORTED, state.detail)
    if state.ended == "overflow":
        return End("failed", "the conversation outgrew the model's window before it reported; ask for less at once")
    return End(state.ended, state.detail)


def _after_plan(state: Facts) -> Step:
    if state.plan is not None:
        if not state.plan.files and not state.plan.synthetic:
            return End("no_change", f"the agent found nothing to change: {state.plan.plan[:500]}")
        return Begin("execute")
    if state.ended in ("explored", "overflow"):
        return ForcePlan(state.detail)
    if state.ended == ENDED_WELL:
        return End("failed", "the agent said that it was done before it had a plan")
    return End(state.ended, state.detail)


def _after_execute(state: Facts, course: PhaseCourse) -> Step:
    if state.ended == "overflow":
        if state.overflows > 1:
            return End("failed", "the conversation outgrew the model's window twice; make the task smaller")
        return Begin("execute")
    if state.ended != ENDED_WELL:
        return End(state.ended, state.detail)
    if state.unjudged:
        return Verify()
    if state.green:
        return End(ENDED_WELL, state.detail)
    return _after_red(state, course)


def _after_red(state: Facts, course: PhaseCourse) -> Step:
    """Return to EXECUTE with the failing output; a stronger model gets a repeated failure, and a third one ends it."""
    prints = [red.fingerprint for red in state.reds]
    red = state.reds[-1]
    ended = "out_of_scope" if red.outside else "verify_failed"
    repeated = next((count for count, each in enumerate(reversed(prints)) if each != prints[-1]), len(prints))
    if len(prints) > course.most_reds:
        return End(ended, f"{red.detail}; so it was {len(prints)} times")
    if repeated > 2:
        return End(ended, f"{red.detail}; so it was {repeated} times, in the same way")
    said = f"[the harness] Your work was verified, and is not done: {red.detail}."
    output = f"\n\nThe end of what it printed:\n\n{red.output}" if red.output else ""
    return GoOn("execute", f"{said}{output}\n\nMend it, then call `finish` again.", stronger=repeated == 2)
