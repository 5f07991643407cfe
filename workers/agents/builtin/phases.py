"""
The phases of the built-in agent: decide the next step from the events so far. Pure.

PLAN and EXECUTE are separate conversations, each begun afresh; VERIFY runs the checks without a model. The steps
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
    Resumed,
    TurnSaid,
    Verified,
)
from forgepool.workers.schema.orders import PhaseName, Reply

ENDED_WELL = "finished"
_LEADS_ON = (ENDED_WELL, "planned", "asked", "explored", "overflow")
"""Ends that a resumed attempt takes as they are; it tries again after any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCourse:
    """The settings of the phases."""

    plan_first: bool = True
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
    found = Facts()
    for entry in entries:
        match entry:
            case ConversationStarted(phase=phase):
                found.phase, found.ended, found.detail = phase, "", ""
            case TurnSaid():
                found.ended, found.unjudged = "", True
            case Finished(ended=ended, detail=detail, summary=summary):
                found.ended, found.detail = ended, detail
                found.summary = summary or found.summary
                found.questions += [detail] if ended == "asked" else []
                found.overflows += ended == "overflow" and found.phase == "execute"
            case Resumed():
                if found.ended not in _LEADS_ON:
                    found.ended = ""
            case PlanCommitted():
                found.plan = entry
            case Verified(ok=ok):
                found.green, found.unjudged = ok, False
                if not ok:
                    found.reds.append(entry)
            case _:
                pass
    return found


def next_step(found: Facts, course: PhaseCourse, replies: Sequence[Reply]) -> Step:
    if found.phase is None:
        return Begin("plan" if course.plan_first else "execute")
    if not found.ended:
        return GoOn(found.phase)
    if found.ended == "asked":
        return _asked(found, found.phase, replies)
    if found.phase == "plan":
        return _after_plan(found)
    return _after_execute(found, course)


def _asked(found: Facts, phase: PhaseName, replies: Sequence[Reply]) -> Step:
    """Go on with a person's reply, if there is one; the nth reply to a question answers its nth asking."""
    fitting = [reply for reply in replies if reply.question == found.detail]
    times = found.questions.count(found.detail)
    if times > len(fitting):
        return End("asked", found.detail)
    reply = fitting[times - 1]
    by = f" ({reply.by})" if reply.by else ""
    return GoOn(phase, f"A person{by} answers your question:\n\n{reply.answer}")


def _after_plan(found: Facts) -> Step:
    if found.plan is not None:
        if not found.plan.files and not found.plan.synthetic:
            return End("no_change", f"the agent found nothing to change: {found.plan.plan[:500]}")
        return Begin("execute")
    if found.ended in ("explored", "overflow"):
        return ForcePlan(found.detail)
    if found.ended == ENDED_WELL:
        return End("failed", "the agent said that it was done before it had a plan")
    return End(found.ended, found.detail)


def _after_execute(found: Facts, course: PhaseCourse) -> Step:
    if found.ended == "overflow":
        if found.overflows > 1:
            return End("failed", "the conversation outgrew the model's window twice; make the task smaller")
        return Begin("execute")
    if found.ended != ENDED_WELL:
        return End(found.ended, found.detail)
    if found.unjudged:
        return Verify()
    if found.green:
        return End(ENDED_WELL, found.detail)
    return _after_red(found, course)


def _after_red(found: Facts, course: PhaseCourse) -> Step:
    """Return to EXECUTE with the failing output; a stronger model gets a repeated failure, and a third one ends it."""
    prints = [red.fingerprint for red in found.reds]
    red = found.reds[-1]
    ended = "out_of_scope" if red.outside else "verify_failed"
    repeated = next((count for count, each in enumerate(reversed(prints)) if each != prints[-1]), len(prints))
    if len(prints) > course.most_reds:
        return End(ended, f"{red.detail}; so it was {len(prints)} times")
    if repeated > 2:
        return End(ended, f"{red.detail}; so it was {repeated} times, in the same way")
    said = f"[the harness] Your work was verified, and is not done: {red.detail}."
    output = f"\n\nThe end of what it printed:\n\n{red.output}" if red.output else ""
    return GoOn("execute", f"{said}{output}\n\nMend it, then call `finish` again.", stronger=repeated == 2)
