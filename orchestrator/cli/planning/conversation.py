"""A conversation about a plan, led in this process: with the planner, who reads the base, or with the critic."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.orchestrator.cli.output.say import tell_slow
from forgepool.orchestrator.run.hub import Hub
from forgepool.supervisor.review.panel import Seat
from forgepool.workers.agents.briefing.system_prompt import builtin_skill, narrow_tools
from forgepool.workers.agents.builtin.loop import ConversationBrief, ConversationOutcome, Talk
from forgepool.workers.agents.builtin.permission import Rulings
from forgepool.workers.agents.builtin.toolbox import serve_tools
from forgepool.workers.agents.render_transcript import narrate_entries
from forgepool.workers.context.edits.state import Profile
from forgepool.workers.context.transcript.entries import ConversationStarted, Transcript, now
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.context.view.archive import Archive
from forgepool.workers.context.view.live import Context, choose_profile
from forgepool.workers.llm.messages import ToolCall, Turn
from forgepool.workers.llm.provider import Hear, ModelRequest, deaf
from forgepool.workers.policy.layers import Policy, offerable
from forgepool.workers.policy.sources import policy_at
from forgepool.workers.sandbox.sandbox_profile import Shelter, private
from forgepool.workers.schema.orders import Limits
from forgepool.workers.schema.settings import Settings
from forgepool.workers.tools.tool import Tool, ToolAnswer
from forgepool.workers.tools.toolset import reading
from forgepool.workers.tools.workplace import Workplace
from forgepool.worktrees.checkouts.checkout import lease_checkout
from forgepool.worktrees.git.git import CommitId

SKILL = "planner"
_WALL_S = 3600.0
_EXPLORED = (
    "[the harness] Exploring has ended: {why}. Nothing more can be read. Write the plan now, with `write_plan`, from "
    "what you know; what you could not find out is a question in the task that it concerns."
)
_NO_MORE = "not run: exploring has ended; write the plan now, with `write_plan`"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningSite:
    """The checkout and the tools that the conversations about a plan share."""

    workplace: Workplace
    policy: Policy
    profile: Profile
    served: tuple[Tool, ...]
    """Tools for exploring that other programs serve."""
    folder: Path
    """The folder of the transcripts and drafts."""
    stop: Callable[[], bool]
    hide: Callable[[str], str]

    def reading_tools(self, ending: Tool) -> tuple[Tool, ...]:
        """Return the tools of an agent that explores, as far as the policy and the skill permit them, and `ending`."""
        tools = offerable(reading(self.served, (ending,)), self.policy.during("plan"))
        return narrow_tools(tools, builtin_skill(SKILL), "plan")


@contextmanager
def open_site(
    hub: Hub, base: CommitId, settings: Settings, folder: Path, *, hide: Callable[[str], str], stop: Callable[[], bool]
) -> Iterator[PlanningSite]:
    """
    Yield a clean checkout of the base that nothing can write, and what reads it.

    Raises:
        GitFailed, MissingCommit, Unusable, NoSandbox, DocumentWrong: there is none, or a file of rules is wrong.
    """
    began = time.monotonic()
    with lease_checkout(hub.mirror, base, settings.cache / "checkouts") as checkout:
        root = checkout.path.resolve()
        shelter = Shelter(settings=settings, writable=(), readable=(root, hub.mirror.path))
        with private({}, shelter) as own, serve_tools(root, own.env, own.confined, settings) as served:
            workplace = Workplace(
                root=root,
                git=checkout.slot.pristine,
                tmp=own.tmp,
                env=own.env,
                confined=own.confined,
                stop=lambda: stop() or time.monotonic() - began >= _WALL_S,
                left_s=lambda: began + _WALL_S - time.monotonic(),
            )
            yield PlanningSite(
                workplace=workplace,
                policy=policy_at(hub.mirror.git, base, person=settings.policy_file),
                profile=choose_profile(by_person=None, in_plan="", in_settings=settings.context),
                served=served.tools["plan"],
                folder=folder,
                stop=stop,
                hide=hide,
            )


@dataclass(frozen=True, slots=True)
class _ToldProvider:
    """The models of a seat; a person at a terminal is told while one of them thinks."""

    seat: Seat

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        with tell_slow(f"{self.seat.first} thinks"):
            return self.seat.provider.ask(request, stop=stop, hear=hear)


@dataclass(slots=True, kw_only=True)
class PlanConversation:
    """One model's conversation, which may be continued after it has ended."""

    seat: Seat
    site: PlanningSite
    transcript: Transcript
    system: tuple[str, ...]
    tools: tuple[Tool, ...]
    meter: Meter = field(default_factory=lambda: Meter(limits=Limits()))
    _over: bool = False
    """True when the model may read no more."""

    def lead(self, say: str, limits: Limits) -> ConversationOutcome:
        """Say something to the model and lead it to its end; where it only explores, it is told once to write."""
        self.meter.limits = limits
        if not self.transcript.turns:
            self.transcript.append(self._started())
        outcome = self._talk(say)
        if outcome.ended == "explored":
            self._over = True
            outcome = self._talk(_EXPLORED.format(why=outcome.detail))
        return outcome

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models that answered."""
        return self.transcript.models

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.seat.families[model] for model in self.models))

    def _started(self) -> ConversationStarted:
        tools = tuple(tool.name for tool in self.tools)
        folder = self.site.folder.name
        return ConversationStarted(
            at=now(), order_id=folder, model=self.seat.first, system=self.system, tools=tools, phase="plan"
        )

    def _talk(self, say: str) -> ConversationOutcome:
        brief = ConversationBrief(
            phase="plan", system=self.system, tools=self.tools, price=self.seat.price, open_ended=self._over
        )
        place = self.site.workplace
        talk = Talk(
            provider=_ToldProvider(self.seat),
            brief=brief,
            workplace=place,
            transcript=self.transcript,
            context=Context(
                transcript=self.transcript,
                profile=self.site.profile,
                like=brief.like,
                window_tokens=self.seat.window_tokens,
                archive=Archive(place),
                root=str(place.root),
            ),
            meter=self.meter,
            stop=self.site.stop,
            rule=self._rule,
            hide=self.site.hide,
        )
        talk.say(self.site.hide(say))
        return talk.lead()

    def _rule(self, call: ToolCall, tool: Tool) -> ToolAnswer | None:
        if self._over and tool.kind != "end":
            return ToolAnswer(text=_NO_MORE, is_error=True)
        policy = self.site.policy.during("plan")
        root, transcript = self.site.workplace.root, self.transcript
        return Rulings(policy=policy, root=root, unattended="deny", replies=(), transcript=transcript)(call, tool)


@contextmanager
def open_conversation(
    name: str, seat: Seat, site: PlanningSite, system: tuple[str, ...], tools: tuple[Tool, ...]
) -> Iterator[PlanConversation]:
    """Yield a conversation whose transcript is `NAME.jsonl` in the site's folder, and a log beside it at the end."""
    with Transcript(site.folder / f"{name}.jsonl") as transcript:
        try:
            yield PlanConversation(seat=seat, site=site, transcript=transcript, system=system, tools=tools)
        finally:
            text = narrate_entries(transcript.entries)
            transcript.path.with_suffix(".log").write_text(text, encoding="utf-8", errors="replace")
