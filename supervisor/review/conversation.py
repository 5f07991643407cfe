"""
One reviewer's conversation, from the card to a verdict that counts, or to the reason why there is none.

It may be gone on with: a debate asks the same reviewer again, who has read what it has read.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from forgepool.supervisor.findings import ReviewFinding, Threshold, blocking
from forgepool.supervisor.review.difference import Difference
from forgepool.supervisor.review.form import VerdictForm, objections, settle_form
from forgepool.supervisor.review.panel import Seat
from forgepool.supervisor.review.reading import ReviewReading, reading
from forgepool.workers.agents.briefing.system_prompt import builtin_skill, prompt
from forgepool.workers.agents.builtin.loop import ConversationBrief, ConversationOutcome, Talk
from forgepool.workers.agents.builtin.permission import Rulings
from forgepool.workers.agents.render_transcript import narrate_entries
from forgepool.workers.context.edits.state import Profile
from forgepool.workers.context.transcript.entries import ConversationStarted, Transcript, TurnSaid, now
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.context.view.archive import Archive
from forgepool.workers.context.view.live import Context
from forgepool.workers.llm.provider import PASSING
from forgepool.workers.policy.layers import Policy
from forgepool.workers.schema.orders import Limits, Spent
from forgepool.workers.tools.endings import VERDICT, Taken, verdict_tool
from forgepool.workers.tools.tool import Tool
from forgepool.workers.tools.toolset import reading as reading_tools
from forgepool.workers.tools.workplace import Workplace

MOST_VOIDS = 2
_SEVERAL = "one turn gives several verdicts, and none of them counts; give one, alone in its turn"
_TOLD_ONCE = "Mend this, and call it again. The next verdict that does not count ends the review."

Ending = Literal["verdict", "void", "not_configured", "limits", "infrastructure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The state of a reviewer when its conversation rests."""

    ended: Ending
    form: VerdictForm | None = None
    """The last one that counted, of an earlier round where this one brought none."""
    detail: str = ""
    """Why there is no verdict, in a sentence."""
    not_before: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSite:
    """The subject and the tools that all reviewers of a request share."""

    difference: Difference
    workplace: Workplace
    policy: Policy
    profile: Profile
    threshold: Threshold
    transcripts: Path
    criteria: int = 0
    """The number of criteria that every verdict answers."""
    lenses: tuple[str, ...] = ()
    """Texts on what to look for, dealt out among the reviewers."""
    request_id: str
    one_call: bool = False
    """The card shows the changed files, and the verdict is the only tool."""
    chances: int = MOST_VOIDS
    """Verdicts after which a review ends without one that counts."""
    stop: Callable[[], bool]
    hide: Callable[[str], str] = str


@dataclass(slots=True, kw_only=True)
class ReviewConversation:
    seat: Seat
    site: ReviewSite
    transcript: Transcript
    lenses: tuple[str, ...] = ()
    """Texts on what this reviewer looks for before anything else."""
    meter: Meter = field(default_factory=lambda: Meter(limits=Limits()))
    form: VerdictForm | None = None
    read: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    """Sentences on files that it was not shown every changed line of."""
    voids: list[str] = field(default_factory=list)
    _chances: int = MOST_VOIDS
    _refused_turn: int = 0
    """The number of the last turn that gave several verdicts."""
    _counted: bool = False
    _seconds: float = 0.0
    """Seconds of its own conversation; another's is not counted twice."""

    def lead(self, say: str, limits: Limits) -> Position:
        """Says something to the reviewer, the card first, and leads it to where it rests."""
        self._chances, self._counted, self.meter.limits = self.site.chances, False, limits
        tools = self._tools()
        talk = self._talk(tools)
        if not self.transcript.turns:
            self.transcript.append(self._started(tools))
        talk.say(self.site.hide(say))
        began = time.monotonic()
        outcome = talk.lead()
        self._seconds += time.monotonic() - began
        return self._position(outcome)

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models that answered."""
        return self.transcript.models

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.seat.families[model] for model in self.models))

    @property
    def held(self) -> tuple[ReviewFinding, ...]:
        """Return the findings that it counts against the change."""
        return blocking(self.form.findings, self.site.threshold) if self.form is not None else ()

    @property
    def spent(self) -> Spent:
        return self.meter.spent.model_copy(update={"seconds": self._seconds})

    def _started(self, tools: tuple[Tool, ...]) -> ConversationStarted:
        return ConversationStarted(
            at=now(),
            order_id=self.site.request_id,
            model=self.seat.first,
            system=self._system(),
            tools=tuple(tool.name for tool in tools),
            phase="review",
        )

    def _system(self) -> tuple[str, ...]:
        own = (prompt("judges/one_call"),) if self.site.one_call else ()
        return (prompt("judges/review"), builtin_skill("reviewer").text, *own, *self.lenses)

    def _tools(self) -> tuple[Tool, ...]:
        """
        Return the tools of an agent that explores, and the verdict. It has no commands, no other programs' tools, and
        no questions. One that is asked once has the verdict alone.
        """
        if self.site.one_call:
            return (verdict_tool(VerdictForm, self._take),)
        return reading_tools(ending=(verdict_tool(VerdictForm, self._take),))

    def _talk(self, tools: tuple[Tool, ...]) -> Talk:
        ends_at = time.monotonic() + self.meter.limits.wall_s - self.meter.waited_s

        def left_s() -> float:
            return ends_at + self.meter.waited_s - time.monotonic()

        place = replace(self.site.workplace, stop=lambda: self.site.stop() or left_s() <= 0, left_s=left_s)
        brief = ConversationBrief(
            phase="review",
            system=self._system(),
            tools=tools,
            price=self.seat.price,
            one_call=self.site.one_call,
        )
        return Talk(
            provider=self.seat.provider,
            brief=brief,
            workplace=place,
            transcript=self.transcript,
            context=self._context(brief),
            meter=self.meter,
            stop=self.site.stop,
            rule=Rulings(
                # As of an agent that explores: it looks, and changes nothing.
                policy=self.site.policy.during("plan"),
                root=place.root,
                unattended="deny",
                replies=(),
                transcript=self.transcript,
            ),
            hide=self.site.hide,
        )

    def _context(self, brief: ConversationBrief) -> Context:
        return Context(
            transcript=self.transcript,
            profile=self.site.profile,
            like=brief.like,
            window_tokens=self.seat.window_tokens,
            archive=Archive(self.site.workplace),
            root=str(self.site.workplace.root),
        )

    def _take(self, form: VerdictForm) -> Taken:
        """Tell whether a verdict counts; the first time it does not, the reviewer is told what is missing."""
        if (turn := self._several_verdicts()) is not None:
            taken = self._refuse(_SEVERAL, at_no_cost=turn == self._refused_turn)
            self._refused_turn = turn
            return taken
        root = str(self.site.workplace.root)
        form = settle_form(form, root=root)
        found = self._reading(root)
        self.read, self.shares = tuple(dict.fromkeys((*self.read, *found.read))), found.shares
        wrong = [found.missing] if found.missing else []
        wrong += objections(form, self.site.threshold, self.site.difference.last_line, criteria=self.site.criteria)
        if not wrong:
            self.form, self._counted = form, True
            return Taken(summary=form.summary)
        return self._refuse("; ".join(wrong))

    def _several_verdicts(self) -> int | None:
        """Return the number of the turn under way where it gives more than one verdict, else None."""
        turns = [entry.turn for entry in self.transcript.entries if isinstance(entry, TurnSaid)]
        said = [turn for turn in turns if turn.role == "assistant"]
        given = sum(call.name == VERDICT for call in said[-1].calls) if said else 0
        return len(said) if given > 1 else None

    def _refuse(self, why: str, *, at_no_cost: bool = False) -> Taken:
        if not at_no_cost:
            self.voids.append(why)
            self._chances -= 1
        goes_on = self._chances > 0
        return Taken(void=f"{why}. {_TOLD_ONCE}" if goes_on else why, goes_on=goes_on)

    def _reading(self, root: str) -> ReviewReading:
        if self.site.one_call:
            return ReviewReading(read=tuple(patch.path for patch in self.site.difference.readable))
        return reading(self.transcript.entries, self.site.difference, root=root)

    def _position(self, outcome: ConversationOutcome) -> Position:
        if self._counted:
            return Position(ended="verdict", form=self.form)
        ended = find_ending(outcome, voided=self._chances < self.site.chances)
        if ended == "void" and self._chances == self.site.chances:
            self.voids.append(outcome.detail)
        detail = self.voids[-1] if ended == "void" and self.voids else outcome.detail
        return Position(
            ended=ended,
            form=self.form,
            detail=f"{self.seat.first}: {detail}",
            not_before=outcome.resets_at if ended == "infrastructure" else None,
        )


@contextmanager
def conversing(seat: Seat, site: ReviewSite, lenses: tuple[str, ...] = ()) -> Iterator[ReviewConversation]:
    """A conversation in a transcript of its own, which is there as a person reads it when it has ended."""
    path = find_free_path(site.transcripts, seat.name)
    with Transcript(path) as transcript:
        yield ReviewConversation(seat=seat, site=site, lenses=lenses, transcript=transcript)
        text = narrate_entries(transcript.entries)
        path.with_suffix(".log").write_text(text, encoding="utf-8", errors="replace")


def find_ending(outcome: ConversationOutcome, *, voided: bool = False) -> Ending:
    """Return how a conversation without a verdict ended."""
    match outcome.ended:
        case "stopped":
            return "infrastructure"
        case "timeout" | "limits" | "overflow":
            return "limits"
        case "failed" if outcome.trouble in PASSING or outcome.trouble == "usage_limit":
            return "infrastructure"
        case "failed" if outcome.resets_at is not None:
            return "infrastructure"
        case "failed" if outcome.trouble is not None and not (voided and outcome.trouble == "no_turn"):
            return "not_configured"
        case _:
            return "void"


def find_free_path(folder: Path, name: str) -> Path:
    """Return a free name. When a request is delivered again, the earlier conversation stays and is not continued."""
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / f"{name}.jsonl", 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}.jsonl"
    return path
