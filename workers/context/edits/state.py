"""The contract of profiles: the state they see, the edits they propose, and the pressure of a filling window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.names import Losses
from forgepool.workers.context.transcript.usage import Gauge
from forgepool.workers.llm.messages import Turn, Usage

Cause = Literal["call", "cold", "red", "overflow", "switch", "wish"]
"""
The occasion on which a profile is asked.

`call`: before a model call. `cold`: before a call that finds the provider's cache expired, or after a resume. `red`: a
first failing test was confirmed. `overflow`: the provider refused the conversation as too long. `switch`: a person
changed the profile. `wish`: the agent called the tool `compact`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextState:
    turns: Sequence[Turn]
    """The conversation, with results as they entered. The first turn's first part is the task card."""
    deeds: Sequence[Deed]
    """The exchanges, oldest first; `deeds[n].step == n + 1`."""
    edit: Edit
    """The edit in force."""
    rebuilds: int
    """The number of rebuilds of this conversation by any profile."""
    sizes: Sequence[int]
    """Characters of each of `turns`."""
    shown_sizes: Sequence[int]
    """Characters of each turn shown: the first turn, the head's, and those from the edit's cut on."""
    gauge: Gauge
    losses: Losses = field(default_factory=Losses)
    """The count of names the agent needed and was not shown."""
    plan: str = ""
    """The committed plan, if any."""
    root: str = ""
    """The worktree's folder."""
    planned: tuple[str, ...] = ()
    """Files that the committed plan names."""
    archive: str = ""
    """The folder of dropped results, by the path the agent may use."""

    @property
    def shown_characters(self) -> int:
        return sum(self.shown_sizes)

    @property
    def share(self) -> float:
        """Return the share of the window that the next request takes."""
        return self.gauge.share(self.shown_characters)


Kind = Literal["yaml", "sections", "gaps", "prose", "brief"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryQuestion:
    """A summary that a profile asks a cheap model to write."""

    kind: Kind
    instruction: str
    text: str = ""
    """The text to summarise; empty to ask about the conversation as shown, after its cached beginning."""
    max_output_tokens: int = 2048
    once: str = ""
    """The name of something asked once in a task, recorded before it is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReply:
    """The reply to a summary question. With an empty `text` the profile does without, or changes nothing."""

    text: str = ""
    why_not: str = ""
    usage: Usage = field(default_factory=Usage)


Ask = Callable[[SummaryQuestion], SummaryReply]


def nobody(question: SummaryQuestion) -> SummaryReply:
    """Answer that no model is set."""
    return SummaryReply(why_not="no model is set for the route 'compact'")


def unknown(path: str) -> str | None:
    """Return None, for callers that cannot look at files."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    cause: Cause
    ask: Ask = nobody
    current: Callable[[str], str | None] = unknown
    """Returns the present text of a file; None where there is none."""
    fired: frozenset[str] = frozenset()
    """Names of things a profile does once in a task (`EditProposal.once`) and has done, in any process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditProposal:
    edit: Edit
    why: str
    """The reason in one sentence."""
    once: str = ""
    """The name of something that happens once in a task."""
    replies: tuple[SummaryReply, ...] = ()
    """Replies of all models asked for it."""


class Profile(Protocol):
    """A strategy. Except for `moment.ask` it is pure: the same state and replies give the same proposal."""

    @property
    def name(self) -> str: ...

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        """
        Propose an edit, or None to change nothing.

        An edit equal to the one in force says that models were asked in vain; it is recorded and changes nothing. A
        profile may remember only what follows from `state`.
        """


CALM = "calm"
"""The level below every rung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    level: str = CALM
    """The highest rung reached since the share was last below `reset`."""
    armed: bool = True
    """The rung has not acted yet."""

    @property
    def fires(self) -> bool:
        return self.armed and self.level != CALM


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """
    Rungs of pressure. Each rung acts once while the window fills.

    Raises:
        ValueError: the rungs do not rise, or one of them is below `reset`.
    """

    rungs: tuple[tuple[str, float], ...]
    """Name and share of the window of each rung, lowest first."""
    reset: float
    """The share below which every rung may act again."""

    def __post_init__(self) -> None:
        shares = [self.reset, *(share for _, share in self.rungs)]
        if any(later < earlier for earlier, later in pairwise(shares)):
            raise ValueError(f"rungs of a ladder rise from its reset on; these are {', '.join(map(str, shares))}")

    def level(self, share: float) -> str:
        """Return the highest rung that a share reaches."""
        return next((name for name, least in reversed(self.rungs) if share >= least), CALM)

    def after(self, before: Pressure, share: float) -> Pressure:
        """Return the pressure after a share. Only a higher rung, or a reset, acts again."""
        if share < self.reset:
            return Pressure()
        level = self.level(share)
        if self._height(level) > self._height(before.level):
            return Pressure(level=level)
        return Pressure(level=before.level, armed=before.level == CALM)

    def _height(self, level: str) -> int:
        return next((place for place, (name, _) in enumerate(self.rungs, start=1) if name == level), 0)
