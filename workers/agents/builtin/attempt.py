"""
One attempt of the built-in agent, led from phase to phase.

`workers.agents.builtin.phases` decides the next step from the transcript alone, and this module takes it. So an attempt
that begins and one that another process has left in its middle are the same.
"""

from collections.abc import Callable, Mapping
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
    Step,
    Undo,
    Verify,
    count_rounds,
    facts,
    next_step,
)
from forgepool.workers.agents.builtin.prompts import Opening, Room, TaskWords
from forgepool.workers.agents.builtin.toolbox import Toolbox
from forgepool.workers.agents.builtin.workflow import WorkflowPhase
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
    Undone,
    now,
)
from forgepool.workers.context.transcript.exchanges import exchanges, find_missing
from forgepool.workers.context.transcript.summary import summarise_entries, synthetic_plan
from forgepool.workers.context.transcript.usage import Meter, count_fixed_characters, to_spent
from forgepool.workers.context.view.archive import Archive
from forgepool.workers.context.view.live import ADVISORY, Context, in_force
from forgepool.workers.llm.messages import Text, user
from forgepool.workers.llm.provider import ModelFailed, ModelRequest
from forgepool.workers.schema.orders import add_spent
from forgepool.workers.schema.reports import LeadReply, LeadSaid
from forgepool.workers.tools.endings import COMPACT, FINISH
from forgepool.workers.tools.files.text_file import read_text, show_text
from forgepool.workers.tools.workplace import ToolRefused, Workplace
from forgepool.workers.workspace.checkpoints import HubKeeper
from forgepool.workers.workspace.resume import attempts_in
from forgepool.workers.workspace.workspace import AcceptanceFinding, Workspace
from forgepool.worktrees.git.git import TreeId

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
    words: Mapping[str, TaskWords]
    """The texts of each phase, by its name."""
    hints: Callable[[], Guess]
    """Called when a first phase that explores begins."""
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
        self.keeper.hold(facts(self.transcript.entries).own.files)
        while True:
            order = self.assignment.order
            step = next_step(facts(self.transcript.entries), self.course, order.replies, order.lead)
            try:
                answer = self._take(step)
            except (ModelFailed, CardTooLarge) as failed:
                # A card too large is a person's to mend, like a key that is missing.
                trouble = failed.trouble if isinstance(failed, ModelFailed) else "unavailable"
                outcome = ConversationOutcome(ended="failed", detail="", trouble=trouble)
                answer = self._answer("failed", str(failed), outcome)
            if answer is not None:
                return answer

    def say(self, *texts: str) -> None:
        """Add a message from the harness, which the model gets before its next turn."""
        self.transcript.append(TurnSaid(at=now(), turn=user(*(Text(text=text) for text in texts))))

    def _take(self, step: Step) -> AgentAnswer | None:
        match step:
            case Begin(phase=name):
                self._begin(self.words[name])
            case GoOn(phase=name, say=say, reply=reply, stronger=stronger):
                if reply is not None:
                    self._hear(reply)
                self._go_on(self.words[name], say, stronger=stronger)
            case ForcePlan(why=why):
                self._force_plan(why)
            case Verify():
                return self._verify()
            case Undo(why=why):
                self._undo(why)
            case End(ended=ended, detail=detail):
                return self._answer(_ending(ended), detail, self._last)
            case _:
                assert_never(step)
        return None

    def _begin(self, words: TaskWords) -> None:
        phase = words.phase
        model = self._open(words, stronger=self._stronger)
        self._family = model.family
        compact = (self.wanted() or in_force(self.transcript.entries, self.profile.name)) == ADVISORY
        offered = self.toolbox.tools(phase, words.skill, model.family, compact=compact)
        system = words.system()
        like = ModelRequest(system=system, tools=tuple(tool.offer for tool in offered), turns=(), phase=phase.kind)
        fixed = count_fixed_characters(like)
        room = Room(window_tokens=model.window_tokens, model=model.name, fixed_characters=fixed)
        opening = self._opening(words, room)
        if opening.shortened:
            short = ", ".join(opening.shortened)
            self.transcript.append(Noted(at=now(), text=f"told in short, for want of room in the window: {short}"))
        self.transcript.append(
            ConversationStarted(
                at=now(),
                order_id=self.assignment.order.order_id,
                model=model.name,
                system=system,
                tools=tuple(tool.name for tool in offered),
                phase=phase.kind,
                name=phase.name if phase.name != phase.kind else "",
                files=self._hold_files(phase),
            )
        )
        self.say(*opening.parts)
        self._talk(words, model)

    def _hold_files(self, phase: WorkflowPhase) -> str:
        """Keep the files as a phase finds them, if it may be undone; the hub has them as long as the phase lasts."""
        own = facts(self.transcript.entries).own
        files = own.files if own.name == phase.name else ""
        if phase.on_failure == "undo" and not files:
            files = self.workspace.checkout.snapshot()
        self.keeper.hold(files)
        return files

    def _present(self, path: str) -> str | None:
        try:
            return self.hide(show_text(read_text(self.workplace.path(path), path, self.workplace)))
        except (ToolRefused, OSError):
            return None

    def _opening(self, words: TaskWords, room: Room) -> Opening:
        """Raises CardTooLarge."""
        entries = self.transcript.entries
        if words.phase.kind == "execute" or facts(entries).own.name:
            self.keeper.settle()
            changed = self.workspace.list_changed() if entries else ()
            return words.to_follow(entries, changed, self._present, room)
        # What it cannot look at is not worth a call.
        guess = Guess() if words.one_call else self.hints()
        if guess.hints or guess.model:
            by = f", by {guess.model}" if guess.model else ""
            self.transcript.append(Noted(at=now(), text=f"{len(guess.hints)} file hints{by}", usage=guess.usage))
            self.meter.spent = add_spent(self.meter.spent, to_spent(guess.usage))
        return words.to_explore(render_hints(guess.hints), room)

    def _hear(self, reply: LeadReply) -> None:
        """Tell a lead the reply that it has waited for, with the whole result that it has asked to read."""
        text = f"[the harness] The reply to your request {reply.number}:\n\n{reply.text}"
        for prior in self.assignment.order.priors:
            if prior.task == reply.read:
                text += f"\n\n{full_result(prior, self.workspace.mirror.git)}"
        turn = user(Text(text=self.hide(text)))
        self.transcript.append(TurnSaid(at=now(), turn=turn, reply=reply.model_copy(update={"text": ""})))

    def _go_on(self, words: TaskWords, say: str, *, stronger: bool) -> None:
        if stronger and not self._stronger:
            self._stronger, self._model = True, None
            note = "the same failure again: a stronger model goes on, if there is one"
            self.transcript.append(Noted(at=now(), text=note))
        model = self._model or self._open(words, stronger=self._stronger)
        if say:
            self.say(say)
        self._talk(words, model)

    def _open(self, words: TaskWords, *, stronger: bool) -> PhaseModel:
        own = words.phase.model or (words.skill.model if words.skill else None)
        self._model = self.models.open(words.phase.kind, stronger=stronger, own=own)
        return self._model

    def _talk(self, words: TaskWords, model: PhaseModel) -> None:
        phase, family = words.phase, self._family or model.family
        brief = ConversationBrief(
            phase=phase.kind,
            system=words.system(),
            tools=self.toolbox.tools(phase, words.skill, family, compact=self._has_compact()),
            price=model.price,
            lasting=phase.kind == "execute",
            answers=phase.artifact == "report",
            one_call=words.one_call,
            open_ended=self.course.leads,
            turns=phase.turns,
        )
        self._last = Talk(
            provider=model.provider,
            brief=brief,
            workplace=self.workplace,
            transcript=self.transcript,
            context=self._context(words, model, brief),
            meter=self.meter,
            stop=self.stop,
            rule=Rulings(
                policy=self.toolbox.policy.during(phase.kind),
                root=self.workplace.root,
                tmp=self.workplace.tmp if self.workplace.confined.level == "bubblewrap" else None,
                unattended=self.assignment.order.unattended,
                replies=self.assignment.order.replies,
                transcript=self.transcript,
            ),
            keeper=self.keeper,
            hide=self.hide,
        ).lead()

    def _context(self, words: TaskWords, model: PhaseModel, brief: ConversationBrief) -> Context:
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
            root=words.root,
            tests=words.tests,
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
        entries = self.transcript.entries
        words = self.words[facts(entries).own.name]
        summary = summarise_entries(entries, root=words.root, tests=words.tests)
        plan = synthetic_plan(summary, words.card.whole, why=why)
        self.transcript.append(PlanCommitted(at=now(), plan=plan, files=(), synthetic=True))

    def _undo(self, why: str) -> None:
        self.toolbox.background.stop_all()
        self.keeper.settle()
        self.workspace.checkout.take(TreeId(facts(self.transcript.entries).own.files))
        self.transcript.append(Undone(at=now(), why=why))
        self.keeper.keep(changed=True, phase_ends=True)

    def _verify(self) -> AgentAnswer | None:
        # A background command could change the files while they are checked, and after.
        self.toolbox.background.stop_all()
        self.keeper.settle()
        # A test that was seen to fail must be seen to pass.
        also = tuple({red.confirmed.command: None for red in self.toolbox.reds.values() if red.confirmed})
        state = facts(self.transcript.entries)
        finding: AcceptanceFinding = self.workspace.verify(
            also=also,
            stop=self.workplace.stop,
            left_s=self.workplace.left_s,
            planned=state.plan.files if state.plan else (),
            claims=state.summary,
            rounds=count_rounds(state, self.course),
        )
        if finding.verdict == "infrastructure":
            return self._answer("not_started", finding.detail, None)
        if finding.verdict == "stopped":
            return self._answer("stopped" if self.workplace.left_s() > 0 else "timeout", finding.detail, None)
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
            log_tail=state.own.reds[-1].output if ended in ("verify_failed", "out_of_scope") and state.own.reds else "",
            claimed_summary=state.summary,
            spent=self.meter.so_far,
            waited_s=self.meter.waited_s,
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
        kept = self.keeper.flush(wait_s=_FLUSH_S if goes_on else _STOPPED_S if self.stop() else _PARTING_S)
        return replace(answer, resumable=kept and goes_on)

    def _lead_said(self, state: Facts, ended: AgentEnding) -> LeadSaid:
        notes = read_standing(self.transcript.entries).notes
        return LeadSaid(request=state.request if ended == "waiting" else None, notes=tuple(notes))

    def _without_a_turn(self, state: Facts, detail: str) -> tuple[AgentEnding, str]:
        """Answer for a script that ran out of turns: it leaves the work as the harness found it."""
        if state.own.reds:
            red = state.own.reds[-1]
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
