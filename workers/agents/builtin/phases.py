"""
The phase machine of the built-in agent: pure. What has happened so far in; the next step out.

PLAN and EXECUTE are conversations of their own, each begun afresh; VERIFY is the harness'. The steps follow from the
transcript alone, so another process that has the transcript goes on as this one would have, and no model can skip a
phase: it can only end its conversation, and what follows is decided here. COMMIT is whoever asked for the attempt.
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
"""Ends that another attempt takes as they are; what went wrong otherwise is what it is there to try again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCourse:
    """How an attempt is led."""

    plan_first: bool = True
    most_reds: int = 3
    """Times that VERIFY may send the work back; the next red one ends the attempt."""


@dataclass(slots=True, kw_only=True)
class Facts:
    """What the transcript says of where the attempt is."""

    phase: PhaseName | None = None
    """Of the conversation begun last."""
    ended: str = ""
    """How that conversation ended; empty while it is open."""
    detail: str = ""
    summary: str = ""
    """What the model claimed when it finished last."""
    plan: PlanCommitted | None = None
    questions: list[str] = field(default_factory=list)
    """What was asked of a person, oldest first."""
    overflows: int = 0
    """Times that EXECUTE's conversation grew too long."""
    reds: list[Verified] = field(default_factory=list)
    green: bool = False
    unjudged: bool = True
    """Whether something was said since the work was last verified."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A fresh conversation."""

    phase: PhaseName


@dataclass(frozen=True, slots=True)
class GoOn:
    """The conversation under way, with something new to say; or nothing, where it was interrupted."""

    phase: PhaseName
    say: str = ""
    stronger: bool = False
    """The model so far made no headway: a stronger one is to try, if there is one."""


@dataclass(frozen=True, slots=True)
class ForcePlan:
    """EXECUTE begins with a plan made of what was explored."""

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
    """An answer belongs to its own question: of several times that the same was asked, each to its own time."""
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
    """Back to EXECUTE with the failing output: a stronger model for the same failure again, and then no more."""
    prints = [red.fingerprint for red in found.reds]
    red = found.reds[-1]
    ended = "out_of_scope" if red.outside else "verify_failed"
    repeated = next((count for count, one in enumerate(reversed(prints)) if one != prints[-1]), len(prints))
    if len(prints) > course.most_reds:
        return End(ended, f"{red.detail}; so it was {len(prints)} times")
    if repeated > 2:
        return End(ended, f"{red.detail}; so it was {repeated} times, in the same way")
    said = f"[the harness] Your work was verified, and is not done: {red.detail}."
    output = f"\n\nThe end of what it printed:\n\n{red.output}" if red.output else ""
    return GoOn("execute", f"{said}{output}\n\nMend it, then call `finish` again.", stronger=repeated == 2)
