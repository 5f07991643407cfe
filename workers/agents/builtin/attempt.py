"""
One attempt of the built-in agent, led from phase to phase.

What comes next is decided in `workers.agents.builtin.phases` from the transcript alone; here it is done: a
conversation begun or gone on with, a plan made up where exploring led to none, the work verified. The same for an
attempt that begins and for one that another process left in the middle.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

from forgepool.workers.agents.briefing.card_sections import CardTooLarge
from forgepool.workers.agents.briefing.hints import render_hints
from forgepool.workers.agents.briefing.model_hints import Guess
from forgepool.workers.agents.briefing.task_card import full_result
from forgepool.workers.agents.builtin.loop import ConversationBrief, ConversationOutcome, Talk
from forgepool.workers.agents.builtin.models import Models, PhaseModel, SummaryAsker
from forgepool.workers.agents.builtin.permission import Rulings
from forgepool.workers.agents.builtin.phases import (
    Begin,
    End,
    Facts,
    ForcePlan,
    GoOn,
    PhaseCourse,
    Verify,
    facts,
    next_step,
)
from forgepool.workers.agents.builtin.prompts import Opening, Room, TaskWords
from forgepool.workers.agents.builtin.toolbox import Toolbox
from forgepool.workers.agents.contract import AgentAnswer, AgentEnding, Assignment
from forgepool.workers.agents.lead.rules import read_standing
from forgepool.workers.context.edits.state import Profile
from forgepool.workers.context.profile_switch import tell_filled, tell_rebuilt
from forgepool.workers.context.transcript.entries import (
    ConversationStarted,
    Noted,
    PlanCommitted,
    Rebuilt,
    Transcript,
    TurnSaid,
    now,
)
from forgepool.workers.context.transcript.exchanges import exchanges, find_missing
from forgepool.workers.context.transcript.summary import summarise_entries, synthetic_plan
from forgepool.workers.context.transcript.usage import Meter, count_fixed_characters, to_spent
from forgepool.workers.context.view.archive import Archive
from forgepool.workers.context.view.live import ADVISORY, Context, in_force
from forgepool.workers.llm.messages import Text, user
from forgepool.workers.llm.provider import ModelFailed, ModelRequest
from forgepool.workers.schema.orders import PhaseName, add_spent
from forgepool.workers.schema.reports import LeadReply, LeadSaid
from forgepool.workers.tools.endings import COMPACT, FINISH
from forgepool.workers.tools.files.text_file import read_text, show_text
from forgepool.workers.tools.workplace import ToolRefused, Workplace
from forgepool.workers.workspace.checkpoints import HubKeeper
from forgepool.workers.workspace.resume import attempts_in
from forgepool.workers.workspace.workspace import AcceptanceFinding, Workspace

_FLUSH_S = 60.0
_SECURE_S = 15.0
"""Longest wait for the hub to record what must be done only once."""
_PARTING_S, _STOPPED_S = 15.0, 2.0
"""Longest wait at an end that no attempt resumes, and of an attempt that is stopped."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    assignment: Assignment
    workspace: Workspace
    course: PhaseCourse
    models: Models
    words: TaskWords
    hints: Callable[[], Guess]
    """Called when PLAN begins."""
    toolbox: Toolbox
    transcript: Transcript
    keeper: HubKeeper
    meter: Meter
    workplace: Workplace
    stop: Callable[[], bool]
    profile: Profile
    """The context profile of its conversations, until the transcript names another."""
    wanted: Callable[[], str | None] = lambda: None
    """Returns the profile that a person wants from now on, or None."""
    hide: Callable[[str], str] = str
    """Removes secrets from a text."""
    _model: PhaseModel | None = field(default=None)
    _family: str = ""
    """The family of the model that began the conversation: the tools stay, whichever model goes on with it."""
    _stronger: bool = False
    _last: ConversationOutcome | None = None

    def lead(self) -> AgentAnswer:
        """Go from step to step until there is an answer. Then only the tools' own processes may still run."""
        while True:
            order = self.assignment.order
            step = next_step(facts(self.transcript.entries), self.course, order.replies, order.lead)
            try:
                answer = self._take(step)
            except (ModelFailed, CardTooLarge) as failed:
                # A card too large is a person's to mend, like a key that is missing.
                trouble = failed.trouble if isinstance(failed, ModelFailed) else "unavailable"
                answer = self._answer(
                    "failed", str(failed), ConversationOutcome(ended="failed", detail="", trouble=trouble)
                )
            if answer is not None:
                return answer

    def say(self, *texts: str) -> None:
        """Add a message from the harness, which the model gets before its next turn."""
        self.transcript.append(TurnSaid(at=now(), turn=user(*(Text(text=text) for text in texts))))

    def _take(self, step: Begin | GoOn | ForcePlan | Verify | End) -> AgentAnswer | None:
        match step:
            case Begin(phase=phase):
                self._begin(phase)
            case GoOn(phase=phase, say=say, reply=reply, stronger=stronger):
                if reply is not None:
                    self._hear(reply)
                self._go_on(phase, say, stronger=stronger)
            case ForcePlan(why=why):
                self._force_plan(why)
            case Verify():
                return self._verify()
            case End(ended=ended, detail=detail):
                return self._answer(_ending(ended), detail, self._last)
            case _:
                assert_never(step)
        return None

    def _begin(self, phase: PhaseName) -> None:
        model = self._open(phase, stronger=self._stronger)
        self._family = model.family
        compact = (self.wanted() or in_force(self.transcript.entries, self.profile.name)) == ADVISORY
        offered = self.toolbox.tools(phase, model.family, compact=compact)
        tools = tuple(tool.name for tool in offered)
        like = ModelRequest(
            system=self.words.system(phase), tools=tuple(tool.offer for tool in offered), turns=(), phase=phase
        )
        fixed = count_fixed_characters(like)
        room = Room(window_tokens=model.window_tokens, model=model.name, fixed_characters=fixed)
        opening = self._opening(phase, room)
        if opening.shortened:
            short = ", ".join(opening.shortened)
            self.transcript.append(Noted(at=now(), text=f"told in short, for want of room in the window: {short}"))
        self.transcript.append(
            ConversationStarted(
                at=now(),
                order_id=self.assignment.order.order_id,
                model=model.name,
                system=self.words.system(phase),
                tools=tools,
                phase=phase,
            )
        )
        self.say(*opening.parts)
        self._talk(phase, model)

    def _present(self, path: str) -> str | None:
        try:
            return self.hide(show_text(read_text(self.workplace.path(path), path, self.workplace)))
        except (ToolRefused, OSError):
            return None

    def _opening(self, phase: PhaseName, room: Room) -> Opening:
        """Raises CardTooLarge."""
        if phase == "execute":
            self.keeper.settle()
            entries = self.transcript.entries
            changed = self.workspace.list_changed() if entries else ()
            return self.words.to_execute(entries, changed, self._present, room)
        # What it cannot look at is not worth a call.
        guess = Guess() if self.words.one_call else self.hints()
        if guess.hints or guess.model:
            by = f", by {guess.model}" if guess.model else ""
            self.transcript.append(Noted(at=now(), text=f"{len(guess.hints)} file hints{by}", usage=guess.usage))
            self.meter.spent = add_spent(self.meter.spent, to_spent(guess.usage))
        return self.words.to_plan(render_hints(guess.hints), room)

    def _hear(self, reply: LeadReply) -> None:
        """Tell a lead the reply that it has waited for, with the whole result that it has asked to read."""
        text = f"[the harness] The reply to your request {reply.number}:\n\n{reply.text}"
        for prior in self.assignment.order.priors:
            if prior.task == reply.read:
                text += f"\n\n{full_result(prior, self.workspace.mirror.git)}"
        turn = user(Text(text=self.hide(text)))
        self.transcript.append(TurnSaid(at=now(), turn=turn, reply=reply.model_copy(update={"text": ""})))

    def _go_on(self, phase: PhaseName, say: str, *, stronger: bool) -> None:
        if stronger and not self._stronger:
            self._stronger, self._model = True, None
            note = "the same failure again: a stronger model goes on, if there is one"
            self.transcript.append(Noted(at=now(), text=note))
        model = self._model or self._open(phase, stronger=self._stronger)
        if say:
            self.say(say)
        self._talk(phase, model)

    def _open(self, phase: PhaseName, *, stronger: bool) -> PhaseModel:
        self._model = self.models.open(phase, stronger=stronger)
        return self._model

    def _talk(self, phase: PhaseName, model: PhaseModel) -> None:
        family = self._family or model.family
        brief = ConversationBrief(
            phase=phase,
            system=self.words.system(phase),
            tools=self.toolbox.tools(phase, family, compact=self._has_compact()),
            price=model.price,
            lasting=phase == "execute",
            answers=self.course.answers,
            one_call=self.words.one_call,
            open_ended=self.course.leads,
        )
        self._last = Talk(
            provider=model.provider,
            brief=brief,
            workplace=self.workplace,
            transcript=self.transcript,
            context=self._context(model, brief),
            meter=self.meter,
            stop=self.stop,
            rule=Rulings(
                policy=self.toolbox.policy.during(phase),
                root=self.workplace.root,
                unattended=self.assignment.order.unattended,
                replies=self.assignment.order.replies,
                transcript=self.transcript,
            ),
            keeper=self.keeper,
            hide=self.hide,
        ).lead()

    def _context(self, model: PhaseModel, brief: ConversationBrief) -> Context:
        """Build the model's view of the conversation, and restore the parts dropped from it to this host's archive."""
        asker = SummaryAsker(
            leading=lambda: self.models.beside(brief.phase, self._answered_last() or model.name),
            compact=self.models.compact,
            meter=self.meter,
            stop=self.workplace.stop,
            hide=self.hide,
        )
        context = Context(
            transcript=self.transcript,
            profile=self.profile,
            like=brief.like,
            window_tokens=model.window_tokens,
            archive=Archive(self.workplace),
            ask=asker.ask,
            wanted=self.wanted,
            current=self._present,
            told=self._tell_rebuilt,
            filled=partial(self._tell_filled, model.window_tokens),
            secure=self._secure,
            unseen=self._stronger and self._answered_last() not in ("", model.name),
            root=self.words.root,
            tests=self.words.tests,
        )
        context.restore()
        return context

    def _has_compact(self) -> bool:
        """Return whether the conversation began with the compact tool: its tools stay, whatever the profile."""
        began = next(
            (entry for entry in reversed(self.transcript.entries) if isinstance(entry, ConversationStarted)), None
        )
        return began is not None and COMPACT in began.tools

    def _answered_last(self) -> str:
        """Return the model that answered last in this conversation; empty where none has."""
        return next((turn.model for turn in reversed(self.transcript.turns) if turn.role == "assistant"), "")

    def _secure(self) -> bool:
        """Push the transcript as it is now, for an attempt that resumes; return whether the hub has it."""
        self.keeper.keep(changed=False)
        return self.keeper.flush(wait_s=_SECURE_S)

    def _tell_rebuilt(self, entry: Rebuilt) -> None:
        order = self.assignment.order
        tell_rebuilt(self.workspace.settings.broker_url, order.run, order.order_id, order.token, entry)

    def _tell_filled(self, window_tokens: int, profile: str, tokens: int) -> None:
        order, broker_url = self.assignment.order, self.workspace.settings.broker_url
        tell_filled(broker_url, order.run, order.order_id, order.token, profile, tokens, window_tokens)

    def _force_plan(self, why: str) -> None:
        summary = summarise_entries(self.transcript.entries, root=self.words.root, tests=self.words.tests)
        plan = synthetic_plan(summary, self.words.card.whole, why=why)
        self.transcript.append(PlanCommitted(at=now(), plan=plan, files=(), synthetic=True))

    def _verify(self) -> AgentAnswer | None:
        # A background command could change the files while they are checked, and after.
        self.toolbox.background.stop_all()
        self.keeper.settle()
        red = self.toolbox.red.confirmed if self.toolbox.red else None
        # The test that was seen to fail must be seen to pass.
        also = (red.command,) if red else ()
        state = facts(self.transcript.entries)
        finding: AcceptanceFinding = self.workspace.verify(
            also=also,
            stop=self.workplace.stop,
            left_s=self.workplace.left_s,
            planned=state.plan.files if state.plan else (),
            claims=state.summary,
        )
        if finding.verdict == "infrastructure":
            return self._answer("not_started", finding.detail, None)
        if finding.verdict == "stopped":
            late = self.workplace.left_s() <= 0
            return self._answer("timeout" if late else "stopped", finding.detail, None)
        self.transcript.append(replace(finding, output=self.hide(finding.output)).entry)
        self.keeper.keep(changed=True)
        return None

    def _answer(self, ended: AgentEnding, detail: str, last: ConversationOutcome | None) -> AgentAnswer:
        state, answered = facts(self.transcript.entries), self.transcript.models
        if last is not None and last.trouble == "no_turn":
            ended, detail = self._without_a_turn(state, detail)
        answer = AgentAnswer(
            ended=ended,
            detail=detail,
            log_tail=state.reds[-1].output if ended in ("verify_failed", "out_of_scope") and state.reds else "",
            claimed_summary=state.summary,
            spent=self.meter.so_far,
            models=answered,
            families=self.models.families(answered),
            planned=state.plan.files if state.plan else (),
            missing=find_missing(self.transcript.entries),
            nothing_to_do=ended == "no_change" and state.plan is not None and not state.plan.files,
            report=state.report if ended == "reported" else None,
            lead=self._lead_said(state, ended) if self.course.leads else None,
            trouble=last.trouble if last and ended == "failed" else None,
            resets_at=last.resets_at if last and ended == "failed" else None,
            includes=attempts_in(self.transcript.entries, but=self.assignment.order.attempt),
        )
        goes_on = ended in ("asked", "waiting") or answer.trouble is not None
        if goes_on or (self.workplace.left_s() > 0 and not self.stop()):
            self.keeper.keep(changed=False)
        wait_s = _STOPPED_S if self.stop() else _PARTING_S
        kept = self.keeper.flush(wait_s=_FLUSH_S if goes_on else wait_s)
        return replace(answer, resumable=kept and goes_on)

    def _lead_said(self, state: Facts, ended: AgentEnding) -> LeadSaid:
        notes = read_standing(self.transcript.entries).notes
        return LeadSaid(request=state.request if ended == "waiting" else None, notes=tuple(notes))

    def _without_a_turn(self, state: Facts, detail: str) -> tuple[AgentEnding, str]:
        """Answer for a script that ran out of turns: it leaves the work as the harness found it."""
        if state.reds:
            red = state.reds[-1]
            return ("out_of_scope" if red.outside else "verify_failed"), red.detail
        done = exchanges(self.transcript.entries)
        if done and done[-1].call.name == FINISH and not done[-1].worked and self.workspace.why_unchanged() is not None:
            return "no_change", "the agent ended well and changed no file that git keeps"
        return "failed", detail


def _ending(ended: str) -> AgentEnding:
    """Map the end of the last conversation to that of the attempt."""
    match ended:
        case "finished" | "timeout" | "stopped" | "limits" | "refused" | "asked" | "queued" | "waiting":
            return ended
        case "reported" | "no_change" | "verify_failed" | "out_of_scope":
            return ended
        case _:
            return "failed"
