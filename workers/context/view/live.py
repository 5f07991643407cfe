"""
The context of an agent that is at work: its transcript folded into a view, rebuilt where its profile wants that.

Everything that decides what is shown is in the transcript before it is shown. Who goes on with it on another host folds
the same entries, and shows the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from forgepool.workers.context.edits.state import Cause, Moment, Profile, unknown
from forgepool.workers.context.history.calls import read_tool_call
from forgepool.workers.context.profiles.advisory import Advisory
from forgepool.workers.context.profiles.registry import UnknownProfile, profile
from forgepool.workers.context.shorten.new_results import Entering
from forgepool.workers.context.transcript.entries import Noted, Profiled, Rebuilt, Summoned, Transcript, TurnSaid, now
from forgepool.workers.context.transcript.usage import count_fixed_characters
from forgepool.workers.context.view.archive import Archive
from forgepool.workers.context.view.choice import A_PERSON
from forgepool.workers.context.view.fold import Fold
from forgepool.workers.context.view.questions import Ask, Questions, no_one
from forgepool.workers.context.view.rebuilding import Rebuilding
from forgepool.workers.context.view.storage import Storage
from forgepool.workers.context.view.view import ContextView
from forgepool.workers.llm.messages import Text, ToolCall, user
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.tools.endings import COMPACT


def nobody_wants() -> str | None:
    """No other profile is wanted."""
    return None


def unheard(entry: Rebuilt) -> None:
    """Nobody is told."""


def refuse_to_secure() -> bool:
    """The transcript is nowhere but where it is, and nobody else goes on with it."""
    return True


@dataclass(slots=True, kw_only=True)
class Context:
    transcript: Transcript
    profile: Profile
    """Until the transcript names another."""
    like: ModelRequest
    """What each question to the conversation's model begins with: its system prompt and tools. Without turns."""
    window_tokens: int
    archive: Archive
    ask: Ask = no_one
    wanted: Callable[[], str | None] = nobody_wants
    """The profile that a person wants from now on, or None."""
    current: Callable[[str], str | None] = unknown
    """The text of a file of the worktree, as it is now."""
    told: Callable[[Rebuilt], None] = unheard
    """Hears of each rebuild."""
    secure: Callable[[], bool] = refuse_to_secure
    """Brings the transcript so far to where another process finds it."""
    unseen: bool = False
    """Whether the model that is asked next has had no part in the conversation."""
    root: str = ""
    tests: tuple[str, ...] = ()
    _fold: Fold = field(init=False)
    _storage: Storage = field(init=False)
    _read: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._storage = Storage(self.archive)
        self._fold = Fold(
            profile=self.profile,
            window_tokens=self.window_tokens,
            fixed_characters=count_fixed_characters(self.like),
            archive=self.archive.folder,
            root=self.root,
            tests=self.tests,
        )
        self.catch_up()
        self._fold.causes.unseen = self.unseen

    @property
    def view(self) -> ContextView:
        return self._fold.view

    @property
    def request(self) -> ModelRequest:
        """The next question to the conversation's model."""
        view = self.view
        return replace(self.like, turns=view.shown, lasting_parts=view.lasting, rebuilt=self._fold.causes.rebuilt)

    def catch_up(self) -> None:
        """Folds what the transcript has taken since."""
        entries = self.transcript.entries
        while self._read < len(entries):
            self._read += 1
            self._fold.take(entries[self._read - 1])

    def prepare(self) -> None:
        """Before a call to the model: whatever is to be rebuilt is, and is in the transcript."""
        self._switch()
        self.catch_up()
        if not self._fold.is_begun:
            return
        self._nudge()
        cause = self._fold.causes.cause(self.view, at=time.time())
        if cause != "call" or self._fold.tokens >= self._fold.rests_until:
            self._propose(cause)

    def note_overflow(self) -> bool:
        """
        The provider says that the conversation is too long: whether less of it could be shown, which then is.

        Once only, until the model has given an answer that came to its end.
        """
        self.catch_up()
        if self._fold.causes.overflowed or not self._fold.is_begun:
            return False
        before = self.view.rebuilds
        self._propose("overflow")
        return self.view.rebuilds > before

    def shorten_result(self, call: ToolCall, text: str, *, is_error: bool, iteration: int) -> tuple[str, str]:
        """What the model is told of a result, and how that was shortened; empty where it was not."""
        if self._fold.births is None:
            return text, ""
        told = read_tool_call(call, root=self.root, tests=self.tests)
        step = len(self.view.deeds) + 1
        entering = Entering(
            call=call,
            text=text,
            action=told.action,
            reads=told.reads,
            writes=told.writes,
            failed=is_error,
            iteration=iteration,
            shown_from=self._fold.shown_from,
            spill=lambda whole: self._storage.spill(step, whole),
        )
        newborn = self._fold.births.shorten_result(entering)
        return newborn.text, newborn.by

    def restore(self) -> None:
        """Writes what is not shown whole to this host's archive, for a conversation that began on another."""
        if (why := self._storage.restore(self.view.deeds, self.view.edit)) is not None:
            self._note_once(f"the whole results of earlier steps cannot be read here: {why}")

    def _switch(self) -> None:
        """To the profile a person wants meanwhile."""
        name = self.wanted()
        if name is None or name == self._fold.profile.name:
            return
        try:
            profile(name)
        except UnknownProfile as wrong:
            self._note_once(str(wrong))
        else:
            self.transcript.append(Profiled(at=now(), profile=name, by=A_PERSON))

    def _note_once(self, text: str) -> None:
        if not any(isinstance(entry, Noted) and entry.text == text for entry in self.transcript.entries):
            self.transcript.append(Noted(at=now(), text=text))

    def _nudge(self) -> None:
        """The agent is told how full its context is, where it has the tool to do something about that."""
        advisory = self._fold.profile
        if not isinstance(advisory, Advisory) or COMPACT not in (tool.name for tool in self.like.tools):
            return
        if (nudge := advisory.nudge(self.view.state())) is not None:
            self.transcript.append(TurnSaid(at=now(), turn=user(Text(text=nudge))))
            self.catch_up()

    def _propose(self, cause: Cause) -> None:
        fired = frozenset(self._fold.fired)
        questions = Questions(ask=self.ask, request=self.request, fired=fired, write_down=self._write_down)
        moment = Moment(cause=cause, ask=questions.put, current=self.current, fired=fired)
        proposal = self.view.propose(self._fold.profile, moment)
        rebuilding = Rebuilding(fold=self._fold, storage=self._storage, cause=cause, usages=questions.usages)
        entry = rebuilding.entry(proposal)
        if entry is None:
            return
        self.transcript.append(entry)
        self.catch_up()
        if entry.calls:
            # It is paid for: whoever goes on is not to pay again.
            self.secure()
        self.told(entry)

    def _write_down(self, once: str) -> bool:
        self.transcript.append(Summoned(at=now(), once=once))
        return self.secure()
