"""
The fold of a transcript: its view, its profile, and the reasons to ask the profile for an edit.

It decides and writes nothing: the same entries give the same result in every process. Only the clock is not in them.
"""

from dataclasses import dataclass, field

from forgepool.workers.context.edits.masks import find_answered_turn
from forgepool.workers.context.edits.state import Cause, Profile
from forgepool.workers.context.profiles.registry import UnknownProfile, find_profile, profile
from forgepool.workers.context.shorten.new_results import Births
from forgepool.workers.context.transcript.entries import (
    Answered,
    ConversationStarted,
    Entry,
    PlanCommitted,
    Profiled,
    Rebuilt,
    Summoned,
    TurnSaid,
)
from forgepool.workers.context.transcript.usage import Gauge
from forgepool.workers.context.view.view import ContextView
from forgepool.workers.llm.messages import ToolResult, Turn
from forgepool.workers.tools.commands.red_phase import CONFIRM
from forgepool.workers.tools.endings import COMPACT

CACHE_LIVES_S = 300.0
"""Seconds after which a provider's cache forgets a prompt that is not asked for."""


@dataclass(slots=True, kw_only=True)
class Causes:
    unseen: bool = False
    """The next model has no part of the conversation in its cache."""
    switched: bool = False
    """A person chose another profile, and the model has not answered since."""
    rebuilt: bool = False
    """The view was rebuilt since the model answered last."""
    overflowed: bool = False
    """The view was rebuilt after an overflow, and the model has not given a complete answer since."""
    _answered_at: float = 0.0

    def take(self, entry: Entry) -> None:
        match entry:
            case ConversationStarted():
                self.unseen = self.switched = self.rebuilt = self.overflowed = False
            case TurnSaid(turn=turn) if turn.role == "assistant":
                self._answered(turn, entry.at)
            case Rebuilt(edit=edit, cause=cause):
                self.rebuilt = self.rebuilt or edit is not None
                self.overflowed = self.overflowed or cause == "overflow"
            case _:
                pass

    def cause(self, view: ContextView, *, at: float) -> Cause:
        called = _called_last(view)
        if CONFIRM in called:
            return "red"
        if self.switched:
            return "switch"
        if COMPACT in called:
            return "wish"
        return "cold" if self.unseen or at > self._answered_at + CACHE_LIVES_S else "call"

    def _answered(self, turn: Turn, at: float) -> None:
        self._answered_at = at
        self.unseen = self.switched = self.rebuilt = False
        self.overflowed = self.overflowed and turn.stop == "overflow"


def _called_last(view: ContextView) -> frozenset[str]:
    """Return the tools that the model's last turn called without error."""
    last = find_answered_turn(view.turns)
    found = set()
    for deed in reversed(view.deeds):
        if deed.turn != last:
            break
        if not deed.result.is_error:
            found.add(deed.call.name)
    return frozenset(found)


_GROWTH = 1.1
"""Growth of the request after which a proposal without effect is tried again."""


@dataclass(slots=True, kw_only=True)
class Fold:
    profile: Profile
    """The profile in force, at first the one given."""
    window_tokens: int
    fixed_characters: int
    """Characters of the system prompt and the tools."""
    archive: str
    """The folder of dropped results."""
    root: str = ""
    tests: tuple[str, ...] = ()
    view: ContextView = field(init=False)
    causes: Causes = field(init=False, default_factory=Causes)
    births: Births | None = field(init=False, default=None)
    """Shortens results when they enter, as the profile asks; None changes nothing."""
    fired: set[str] = field(init=False, default_factory=set)
    """Names of things a profile does once in a task and has done."""
    rests_until: int = field(init=False, default=0)
    """Tokens of a request below which the profile is not asked."""
    _plan: PlanCommitted | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._begin()

    def take(self, entry: Entry) -> None:
        self.causes.take(entry)
        match entry:
            case ConversationStarted():
                self._begin()
            case PlanCommitted():
                self._plan = entry
            case TurnSaid(turn=turn):
                self.view.say(turn)
            case Answered(result=result, whole=whole):
                self._answered(result, whole)
            case Rebuilt():
                self._rebuilt(entry)
            case Profiled():
                self._use(entry)
            case Summoned(once=once):
                self.fired.add(once)
            case _:
                pass

    @property
    def is_begun(self) -> bool:
        """Report whether the model has answered."""
        return any(turn.role == "assistant" for turn in self.view.turns)

    @property
    def tokens(self) -> int:
        """Return the estimated tokens of the next request."""
        return self.tokens_of(self.view.characters)

    def tokens_of(self, characters: int) -> int:
        """Estimate the tokens of a request that shows so many characters of the conversation."""
        return self.view.gauge.tokens(self.fixed_characters + characters)

    def _begin(self) -> None:
        gauge = Gauge(window_tokens=self.window_tokens, fixed_characters=self.fixed_characters)
        self.view = ContextView(gauge=gauge, root=self.root, tests=self.tests, archive=self.archive)
        if self._plan is not None:
            self.view.plan, self.view.planned = self._plan.plan, self._plan.files
        self.rests_until = 0
        self._renew_births()

    def _answered(self, result: ToolResult, whole: str) -> None:
        before = len(self.view.deeds)
        self.view.answer(result, whole)
        if self.births is not None and len(self.view.deeds) > before:
            self.births.take(self.view.deeds[-1])

    def _rebuilt(self, entry: Rebuilt) -> None:
        if entry.once:
            self.fired.add(entry.once)
        if entry.edit is not None:
            self.view.use(entry.edit)
            self.rests_until = 0
        elif not entry.once:
            self.rests_until = int(entry.before_tokens * _GROWTH)

    def _use(self, chosen: Profiled) -> None:
        if chosen.profile == self.profile.name:
            return
        try:
            self.profile = profile(chosen.profile)
        except UnknownProfile:
            # Of a worker that knows more profiles than this one: what is shown already can be shown all the same.
            return
        self.rests_until = 0
        self.causes.switched = bool(chosen.by)
        self._renew_births()

    def _renew_births(self) -> None:
        """Start over with shortening. Later results may refer to all that is shown, under any profile."""
        birth = find_profile(self.profile.name).birth
        self.births = None
        if birth is not None:
            self.births = Births(birth)
            for deed in self.view.deeds:
                self.births.take(deed)
