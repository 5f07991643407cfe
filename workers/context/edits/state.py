"""
All that a profile may look at when it proposes an edit, and what it answers.
"""

from collections.abc import Callable, Iterable, Sequence
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
Why a profile is asked: before a call to the model; before one that the provider's cache has forgotten (no call for
longer than it keeps things); at a change of phase; when a first failing test was confirmed; after the provider said
that the conversation does not fit; because the profile was changed; because another process goes on; because the agent
called the tool `compact`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextState:
    turns: Sequence[Turn]
    """The conversation as it happened, results as they were born. The first turn's first part is the task card."""
    deeds: Sequence[Deed]
    """Its exchanges, oldest first; `deeds[n].step == n + 1`."""
    edit: Edit
    """In force."""
    rebuilds: int
    """How often this conversation was rebuilt, by any profile."""
    sizes: Sequence[int]
    """Characters of each of `turns`, whole."""
    shown_sizes: Sequence[int]
    """Characters of each turn of the view: the first turn, the head's, and those from the edit's cut on."""
    gauge: Gauge
    losses: Losses = field(default_factory=Losses)
    """What the agent needed and was not shown, so far."""
    plan: str = ""
    """The committed plan, where there is one."""
    root: str = ""
    """The worktree's folder."""
    planned: tuple[str, ...] = ()
    """Files that the committed plan names."""
    archive: str = ""
    """The folder in which the whole results of dropped exchanges can be read, as the agent may name it."""

    @property
    def shown_characters(self) -> int:
        return sum(self.shown_sizes)

    @property
    def share(self) -> float:
        """Of the window, what the next request takes."""
        return self.gauge.share(self.shown_characters)


Kind = Literal["yaml", "sections", "gaps", "prose", "brief"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryQuestion:
    """What a profile wants a cheap model to write."""

    kind: Kind
    instruction: str
    text: str = ""
    """What it is about; empty where the conversation as it is shown is to be asked, after its cached beginning."""
    max_output_tokens: int = 2048
    once: str = ""
    """A name, where this is asked once in a task: written down before it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReply:
    """What came of it. `text` is empty where nothing did: the profile then goes without, or changes nothing."""

    text: str = ""
    why_not: str = ""
    usage: Usage = field(default_factory=Usage)


Ask = Callable[[SummaryQuestion], SummaryReply]


def nobody(question: SummaryQuestion) -> SummaryReply:
    """There is no model for the route `compact`."""
    return SummaryReply(why_not="no model is set for the route 'compact'")


def unknown(path: str) -> str | None:
    """The files cannot be looked at."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    cause: Cause
    ask: Ask = nobody
    current: Callable[[str], str | None] = unknown
    """The text of a file as it is now; None where it is none."""
    fired: frozenset[str] = frozenset()
    """What a profile said it does once in a task (`Proposal.once`), and has done, in this process or an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditProposal:
    edit: Edit
    why: str
    """One sentence."""
    once: str = ""
    """A name, where this is to happen once in a task."""
    replies: tuple[SummaryReply, ...] = ()
    """Of the models asked for it, also where nothing came of it."""


class Profile(Protocol):
    """A strategy. Pure but for `moment.ask`: the same state and the same replies give the same proposal."""

    @property
    def name(self) -> str: ...

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        """
        None where all stays as it is.

        An `Edit` equal to the one in force says that models were asked and nothing came of it: it is told, and changes
        nothing. Whatever a profile keeps in memory must follow from `state`.
        """


CALM = "calm"
"""Below every rung."""
RUNGS = (
    ("nudge", 0.50),
    ("reminder", 0.60),
    ("l1", 0.70),
    ("l2", 0.80),
    ("hard", 0.85),
    ("emergency", 0.90),
)
"""Name and share of the window, lowest first; from R-2. From `hard` on a model may be asked for a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    level: str = CALM
    """The highest rung reached since the share was last below `reset`."""
    armed: bool = True
    """Whether that rung has not acted yet."""

    @property
    def fires(self) -> bool:
        return self.armed and self.level != CALM


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """
    Raises:
        ValueError: the rungs do not rise, or one of them is below `reset`.
    """

    rungs: tuple[tuple[str, float], ...] = RUNGS
    target: float = 0.40
    """What a phase's fresh context is filled to at the most."""
    reset: float = 0.40
    """Below this share every rung may act again."""

    def __post_init__(self) -> None:
        shares = [self.reset, *(share for _, share in self.rungs)]
        if any(later < earlier for earlier, later in pairwise(shares)):
            raise ValueError(f"rungs of a ladder rise from its reset on; these are {', '.join(map(str, shares))}")

    def level(self, share: float) -> str:
        """The highest rung that a share reaches."""
        return next((name for name, least in reversed(self.rungs) if share >= least), CALM)

    def after(self, before: Pressure, share: float) -> Pressure:
        """A rung that was reached before has acted; only a higher one, or a reset, arms again."""
        if share < self.reset:
            return Pressure()
        level = self.level(share)
        if self._height(level) > self._height(before.level):
            return Pressure(level=level)
        return Pressure(level=before.level, armed=before.level == CALM)

    def over(self, shares: Iterable[float]) -> Pressure:
        """The pressure after all of these shares, oldest first."""
        pressure = Pressure()
        for share in shares:
            pressure = self.after(pressure, share)
        return pressure

    def _height(self, level: str) -> int:
        """Of a rung, from 1; 0 of what is none."""
        return next((place for place, (name, _) in enumerate(self.rungs, start=1) if name == level), 0)
