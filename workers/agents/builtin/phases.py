"""
The phases of the built-in agent: decide the next step from the events so far. Pure.

A workflow is a sequence of phases, each with an artifact that the next one needs. By default they are PLAN and EXECUTE.
Each phase has a conversation, begun afresh; after a change, VERIFY runs the checks without a model. A task that answers
and names no workflow has one phase, with the tools of PLAN, which ends with its report. The steps follow from the
transcript alone, so another process that has it continues in the same way. No model can skip a phase: it can only end
its conversation. Committing the work is the caller's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.workers.agents.builtin.workflow import WorkflowPhase
from forgepool.workers.context.transcript.entries import (
    Answered,
    ConversationStarted,
    Entry,
    Finished,
    PlanCommitted,
    ReportGiven,
    Resumed,
    TurnSaid,
    Undone,
    Verified,
)
from forgepool.workers.context.transcript.exchanges import text_argument
from forgepool.workers.llm.messages import Turn
from forgepool.workers.schema.orders import Reply
from forgepool.workers.schema.reports import LeadReply, LeadRequest, Report
from forgepool.workers.tools.commands.red_phase import CONFIRM

ENDED_WELL = "finished"
REPORTED = "reported"
WAITING = "waiting"
OUT_OF_TURNS = "turns"
_LEADS_ON = (ENDED_WELL, REPORTED, WAITING, "planned", "asked", "explored", "overflow")
"""Ends that a resumed attempt takes as they are; it tries again after any other."""
_FROM_OUTSIDE = ("stopped", "queued")
_ENDS = (*_FROM_OUTSIDE, "refused", "timeout", "limits", OUT_OF_TURNS)
"""Ends of a conversation that are the attempt's, too; any other is a failure."""

PLAN = WorkflowPhase(name="plan", artifact="plan")
EXECUTE = WorkflowPhase(name="execute", artifact="change")
_ANSWER = WorkflowPhase(name="plan", artifact="report")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCourse:
    """The settings of the phases."""

    plan_first: bool = True
    answers: bool = False
    """The attempt ends with a report."""
    leads: bool = False
    """The conversation may rest for replies of the orchestrator."""
    most_reds: int = 3
    """Times that VERIFY may send the work back; the next failure ends the attempt."""
    workflow: tuple[WorkflowPhase, ...] = ()
    """The phases that the task names; empty for the usual ones."""

    @property
    def phases(self) -> tuple[WorkflowPhase, ...]:
        if self.workflow:
            return self.workflow
        if self.answers:
            return (_ANSWER,)
        return (PLAN, EXECUTE) if self.plan_first else (EXECUTE,)

    def find(self, name: str) -> WorkflowPhase | None:
        return next((phase for phase in self.phases if phase.name == name), None)


@dataclass(frozen=True, slots=True)
class ConfirmedTest:
    """A test that the harness saw fail."""

    command: str
    output: str


Handed = PlanCommitted | Report | ConfirmedTest | Undone | str
"""The artifact of a phase, as it is handed on; of a change, the model's summary."""


@dataclass(slots=True, kw_only=True)
class PhaseFacts:
    """The state of one phase, over all of its conversations."""

    name: str = ""
    files: str = ""
    """The tree of the files as it began, if it may be undone."""
    summary_before: str = ""
    turns: int = 0
    made: bool = False
    """True once it has committed its plan, or given its report."""
    undone: str | None = None
    """Why its changes were taken back; None where they were not."""
    overflows: int = 0
    """Times that its conversation grew too long."""
    reds: list[Verified] = field(default_factory=list)
    green: bool = False
    unjudged: bool = True
    """True when there was a turn since the work was last verified."""


@dataclass(slots=True, kw_only=True)
class Facts:
    """The state of the attempt, as read from its transcript."""

    own: PhaseFacts = field(default_factory=PhaseFacts)
    """The phase of the conversation begun last; without a name before the first one."""
    ended: str = ""
    """How that conversation ended; empty while it is open."""
    detail: str = ""
    summary: str = ""
    """The model's claim when it finished last."""
    plan: PlanCommitted | None = None
    """The plan committed last."""
    report: Report | None = None
    request: LeadRequest | None = None
    """The request by which the conversation rests, or has rested last."""
    questions: list[str] = field(default_factory=list)
    """The questions to a person, oldest first."""
    confirming: dict[str, str] = field(default_factory=dict)
    """The commands of the last turn that are to be seen failing, by the ids of their calls."""
    handed: dict[str, Handed] = field(default_factory=dict)
    """The artifacts so far, by the names of their phases."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A fresh conversation."""

    phase: str


@dataclass(frozen=True, slots=True)
class GoOn:
    """The conversation under way goes on, with something new to say unless it was interrupted."""

    phase: str
    say: str = ""
    reply: LeadReply | None = None
    """The reply that a lead has waited for."""
    stronger: bool = False
    """A stronger model takes over, if there is one, since this one repeats its failure."""


@dataclass(frozen=True, slots=True)
class ForcePlan:
    """The next phase begins with a plan made from what this one explored."""

    why: str


@dataclass(frozen=True, slots=True)
class Verify:
    pass


@dataclass(frozen=True, slots=True)
class Undo:
    """The files become again as the phase found them."""

    why: str


@dataclass(frozen=True, slots=True)
class End:
    ended: str
    detail: str


Step = Begin | GoOn | ForcePlan | Verify | Undo | End


def facts(entries: Sequence[Entry]) -> Facts:
    state = Facts()
    for entry in entries:
        _take(state, entry)
    return state


def _take(state: Facts, entry: Entry) -> None:
    match entry:
        case ConversationStarted():
            _enter(state, entry)
        case TurnSaid(turn=turn):
            _hear(state, turn)
        case Answered(result=result) if result.call_id in state.confirming:
            _see(state, state.confirming[result.call_id], entry)
        case Finished():
            _finish(state, entry)
        case Resumed() if state.ended not in _LEADS_ON:
            state.ended = ""
        case PlanCommitted():
            state.plan, state.own.made = entry, True
            state.handed[state.own.name] = entry
        case ReportGiven(report=report):
            state.report, state.own.made = report, True
            state.handed[state.own.name] = report
        case Verified(ok=ok):
            state.own.green, state.own.unjudged = ok, False
            state.own.reds += [] if ok else [entry]
        case Undone(why=why):
            state.own.undone, state.summary = why, state.own.summary_before
            state.handed[state.own.name] = entry
        case _:
            pass


def _hear(state: Facts, turn: Turn) -> None:
    state.ended, state.own.unjudged = "", True
    if turn.role == "assistant":
        state.own.turns += 1
        calls = [call for call in turn.calls if call.name == CONFIRM]
        state.confirming = {call.id: text_argument(call.arguments, "command") for call in calls}


def _see(state: Facts, command: str, entry: Answered) -> None:
    if not entry.result.is_error:
        state.handed[state.own.name] = ConfirmedTest(command, entry.whole or entry.result.text)


def _enter(state: Facts, entry: ConversationStarted) -> None:
    """Begin a conversation: of the same phase, or of another one, whose facts are all its own."""
    if entry.phase_name != state.own.name:
        state.own = PhaseFacts(name=entry.phase_name, files=entry.files, summary_before=state.summary)
    state.ended, state.detail = "", ""


def _finish(state: Facts, entry: Finished) -> None:
    state.ended, state.detail = entry.ended, entry.detail
    state.request = entry.request or state.request
    state.summary = entry.summary or state.summary
    state.questions += [entry.detail] if entry.ended == "asked" else []
    state.own.overflows += entry.ended == "overflow"
    if entry.ended == ENDED_WELL and not isinstance(state.handed.get(state.own.name), ConfirmedTest):
        state.handed[state.own.name] = entry.summary


def next_step(
    state: Facts, course: PhaseCourse, replies: Sequence[Reply], lead_replies: Sequence[LeadReply] = ()
) -> Step:
    if not state.own.name:
        return Begin(course.phases[0].name)
    phase = course.find(state.own.name)
    if phase is None:
        return End(
            "failed",
            f"its workflow lacks the interrupted phase '{state.own.name}'; `forgepool retry` starts it again",
        )
    if state.own.undone is not None:
        return _advance(f"phase '{phase.name}' was undone: {state.own.undone}", phase, course)
    if not state.ended:
        return GoOn(phase.name)
    if state.ended == "asked":
        return _asked(state, phase.name, replies)
    if state.ended == WAITING:
        return _waiting(state, phase.name, lead_replies)
    match phase.artifact:
        case "report":
            return _after_report(state, phase, course)
        case "plan":
            return _after_plan(state, phase, course)
        case "failing-test" | "change":
            return _after_work(state, phase, course)


def _advance(detail: str, phase: WorkflowPhase, course: PhaseCourse) -> Step:
    """Begin the next phase, or end the attempt after the last one."""
    rest = course.phases[course.phases.index(phase) + 1 :]
    if rest:
        return Begin(rest[0].name)
    return End(REPORTED if phase.artifact == "report" else ENDED_WELL, detail)


def _fail(state: Facts, phase: WorkflowPhase, course: PhaseCourse, why: str = "") -> End:
    """End the attempt in a phase that has not produced its artifact."""
    detail = why or state.detail
    ended = state.ended if not why and state.ended in _ENDS else "failed"
    if course.workflow and ended not in _FROM_OUTSIDE:
        detail = f"phase '{phase.name}' ended without its artifact, a {phase.artifact}: {detail}"
    return End("limits" if ended == OUT_OF_TURNS else ended, detail)


def _asked(state: Facts, phase: str, replies: Sequence[Reply]) -> Step:
    """Go on with a person's reply, if there is one; the nth reply to a question answers its nth asking."""
    fitting = [reply for reply in replies if reply.question == state.detail]
    times = state.questions.count(state.detail)
    if times > len(fitting):
        return End("asked", state.detail)
    reply = fitting[times - 1]
    by = f" ({reply.by})" if reply.by else ""
    return GoOn(phase, f"A person{by} answers your question:\n\n{reply.answer}")


def _waiting(state: Facts, phase: str, replies: Sequence[LeadReply]) -> Step:
    """Go on with the orchestrator's reply, if it is there."""
    number = state.request.number if state.request is not None else 0
    reply = next((reply for reply in replies if reply.number == number and number), None)
    return End(WAITING, state.detail) if reply is None else GoOn(phase, reply=reply)


def _after_report(state: Facts, phase: WorkflowPhase, course: PhaseCourse) -> Step:
    if state.own.made:
        return _advance(state.detail, phase, course)
    if state.ended == "overflow":
        why = "the conversation outgrew the model's window before it reported; ask for less at once"
        return _fail(state, phase, course, why)
    return _fail(state, phase, course)


def _after_plan(state: Facts, phase: WorkflowPhase, course: PhaseCourse) -> Step:
    if state.own.made and state.plan is not None:
        before = course.phases[: course.phases.index(phase)]
        if not state.plan.files and not state.plan.synthetic and all(one.kind == "plan" for one in before):
            return End("no_change", f"the agent found nothing to change: {state.plan.plan[:500]}")
        return _advance(state.detail, phase, course)
    if state.ended in ("explored", "overflow") and phase.on_failure != "stop":
        return ForcePlan(state.detail)
    if state.ended == ENDED_WELL:
        return _fail(state, phase, course, "the agent said that it was done before it had a plan")
    return _fail(state, phase, course)


def _after_work(state: Facts, phase: WorkflowPhase, course: PhaseCourse) -> Step:
    if state.ended == "overflow" and state.own.overflows < 2:
        return Begin(phase.name)
    if state.ended in ("overflow", OUT_OF_TURNS):
        too_long = "the conversation outgrew the model's window twice; make the task smaller"
        failed = _fail(state, phase, course, too_long if state.ended == "overflow" else "")
        return Undo(failed.detail) if phase.on_failure == "undo" else failed
    if state.ended != ENDED_WELL:
        return _fail(state, phase, course)
    if phase.artifact == "failing-test":
        if not isinstance(state.handed.get(phase.name), ConfirmedTest):
            return _fail(state, phase, course, "the harness saw no test fail")
        return _advance(state.detail, phase, course)
    if state.own.unjudged:
        return Verify()
    if state.own.green:
        return _advance(state.detail, phase, course)
    return _after_red(state, phase, course)


def count_rounds(state: Facts, course: PhaseCourse) -> int | None:
    """Return how often the target's checks have sent the phase's work back; None where a red does not do that."""
    phase = course.find(state.own.name)
    mends = phase is not None and phase.on_failure in (None, "mend")
    return sum(red.by_checks for red in state.own.reds) if mends else None


def _after_red(state: Facts, phase: WorkflowPhase, course: PhaseCourse) -> Step:
    """
    Return to the phase with the output; a stronger model gets a repeated failure, and a third one ends it.

    Reds of the target's checks end nothing: they are bounded by rounds, and then the gate judges.
    """
    red = state.own.reds[-1]
    prints = [each.fingerprint for each in state.own.reds if each.by_checks == red.by_checks]
    ended = "out_of_scope" if red.outside else "verify_failed"
    if phase.on_failure == "undo":
        return Undo(red.detail)
    if phase.on_failure == "stop":
        return End(ended, f"{red.detail}; phase '{phase.name}' stops at that")
    repeated = next((count for count, each in enumerate(reversed(prints)) if each != prints[-1]), len(prints))
    if len(prints) > course.most_reds and not red.by_checks:
        return End(ended, f"{red.detail}; so it was {len(prints)} times")
    if repeated > 2 and not red.by_checks:
        return End(ended, f"{red.detail}; so it was {repeated} times, in the same way")
    said = f"[the harness] Your work was verified, and is not done: {red.detail}."
    output = f"\n\nThe end of what it printed:\n\n{red.output}" if red.output else ""
    return GoOn(phase.name, f"{said}{output}\n\nMend it, then call `finish` again.", stronger=repeated == 2)
