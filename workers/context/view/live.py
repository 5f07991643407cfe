"""
The context of a working agent: the choice of its profile, and its transcript folded into a view that is rebuilt as the
profile asks.

The transcript holds every decision before it takes effect, so that another host shows the same view.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from forgepool.workers.context.edits.masks import begins_with_survey
from forgepool.workers.context.edits.state import (
    Cause,
    EditProposal,
    Moment,
    Profile,
    SummaryQuestion,
    SummaryReply,
    nobody,
    unknown,
)
from forgepool.workers.context.profiles.advisory import Advisory
from forgepool.workers.context.profiles.registry import UnknownProfile, profile
from forgepool.workers.context.shorten.new_results import Entering
from forgepool.workers.context.transcript.calls import read_tool_call
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.entries import (
    Entry,
    Noted,
    Profiled,
    Rebuilt,
    Summoned,
    Transcript,
    TurnSaid,
    now,
)
from forgepool.workers.context.transcript.usage import count_fixed_characters, sum_usages
from forgepool.workers.context.view.archive import Archive, Storage, find_dropped
from forgepool.workers.context.view.fold import Fold
from forgepool.workers.context.view.view import ContextView, find_shown_from
from forgepool.workers.llm.messages import Text, ToolCall, Usage, user
from forgepool.workers.llm.provider import ModelRequest
from forgepool.workers.tools.endings import COMPACT

A_PERSON = "a person"
ADVISORY = "advisory"
"""The profile whose agent gets a tool to clear its own context."""


def choose_profile(*, by_person: str | None, in_plan: str, in_settings: str) -> Profile:
    """
    Return the profile in force: a person's choice counts above the plan's, and that above the settings.

    Raises:
        UnknownProfile: there is none of that name.
    """
    return profile(by_person or in_plan or in_settings)


def begin_with(transcript: Transcript, first: str, *, by_person: str | None) -> None:
    """Record the first profile, and a person's later choice if the transcript lacks it."""
    known = [entry for entry in transcript.entries if isinstance(entry, Profiled)]
    if not known:
        transcript.append(Profiled(at=now(), profile=first))
    elif by_person and by_person != known[-1].profile and by_person not in {one.profile for one in known if one.by}:
        transcript.append(Profiled(at=now(), profile=by_person, by=A_PERSON))


def in_force(entries: Sequence[Entry], otherwise: str) -> str:
    """Return the name of the last recorded profile, or `otherwise` where there is none."""
    return next((entry.profile for entry in reversed(entries) if isinstance(entry, Profiled)), otherwise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilding:
    fold: Fold
    storage: Storage
    cause: Cause
    usages: list[Usage]
    """The usage of the models asked for it."""

    def entry(self, proposal: EditProposal | str | None) -> Rebuilt | None:
        """
        Return the transcript's entry for a proposal, whose dropped results are then archived.

        None means that there is nothing to record: nothing changes, and no model was asked. A proposal that cannot be
        shown comes as a sentence.
        """
        if isinstance(proposal, EditProposal) and proposal.edit != self.fold.view.edit:
            return self._changed(proposal)
        if isinstance(proposal, EditProposal):
            told = self.usages or proposal.once or self.cause == "wish"
            return self._entry(proposal.why, once=proposal.once) if told else None
        if proposal is None and not self.usages:
            return None
        return self._entry(proposal or "a model was asked, and nothing was proposed")

    def _changed(self, proposal: EditProposal) -> Rebuilt:
        view = self.fold.view
        gone = find_dropped(view.deeds, proposal.edit)
        if (trouble := self.storage.store(gone)) is not None:
            why = f"nothing is dropped, because it could not be kept: {trouble}"
            return self._entry(why, once=proposal.once)
        before = {deed.step for deed in find_dropped(view.deeds, view.edit)}
        new = tuple(deed.step for deed in gone if deed.step not in before)
        return self._entry(
            proposal.why,
            once=proposal.once,
            edit=proposal.edit,
            dropped=new,
            archive=self.storage.archive.folder if new else "",
        )

    def _entry(
        self, why: str, *, once: str = "", edit: Edit | None = None, dropped: tuple[int, ...] = (), archive: str = ""
    ) -> Rebuilt:
        tokens, view = self.fold.tokens, self.fold.view
        return Rebuilt(
            at=now(),
            profile=self.fold.profile.name,
            cause=self.cause,
            why=why,
            edit=edit,
            once=once,
            before_tokens=tokens,
            after_tokens=tokens if edit is None else self.fold.tokens_of(view.characters_with(edit)),
            window_tokens=self.fold.window_tokens,
            dropped=dropped,
            archive=archive,
            calls=len(self.usages),
            usage=sum_usages(self.usages),
        )


Before = Callable[[], bool]
"""Called right before a model is asked; returns False to prevent that."""
Ask = Callable[[SummaryQuestion, ModelRequest, Before], SummaryReply | str]
"""Asks a model about the conversation in the request, or returns a sentence that says why none was asked."""


def no_one(question: SummaryQuestion, request: ModelRequest, before: Before) -> str:
    """Answer that no model is set."""
    return nobody(question).why_not


@dataclass(slots=True, kw_only=True)
class Questions:
    ask: Ask
    request: ModelRequest
    fired: Collection[str]
    """Names of questions asked once in the task already."""
    write_down: Callable[[str], bool]
    """Records that a question is about to be asked, for other processes, and reports success."""
    usages: list[Usage] = field(default_factory=list)
    """The usage of each answer."""

    def put(self, question: SummaryQuestion) -> SummaryReply:
        if question.once and question.once in self.fired:
            return SummaryReply(why_not="a model was asked before, and nothing came of that")
        answer = self.ask(question, self.request, lambda: self._before(question))
        if isinstance(answer, str):
            return SummaryReply(why_not=answer)
        self.usages.append(answer.usage)
        return answer

    def _before(self, question: SummaryQuestion) -> bool:
        return not question.once or self.write_down(question.once)


@dataclass(slots=True, kw_only=True)
class Context:
    transcript: Transcript
    profile: Profile
    """The profile until the transcript names another."""
    like: ModelRequest
    """The common part of all requests: system prompt and tools, without turns."""
    window_tokens: int
    archive: Archive
    ask: Ask = no_one
    wanted: Callable[[], str | None] = lambda: None
    """Returns the profile that a person wants from now on, or None."""
    current: Callable[[str], str | None] = unknown
    """Returns the present text of a file in the worktree."""
    told: Callable[[Rebuilt], None] = lambda entry: None
    """Called with each rebuild."""
    filled: Callable[[str, int], None] = lambda profile, tokens: None
    """Called with the profile and the next request's estimated tokens, at each other tenth of the window."""
    secure: Callable[[], bool] = lambda: True
    """Sends the transcript to where another process finds it, and reports success."""
    unseen: bool = False
    """The next model has no part of the conversation in its cache."""
    root: str = ""
    tests: tuple[str, ...] = ()
    _fold: Fold = field(init=False)
    _storage: Storage = field(init=False)
    _read: int = field(init=False, default=0)
    _tenths: int = field(init=False, default=-1)

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
        """Return the next request to the conversation's model."""
        view = self.view
        return replace(
            self.like,
            turns=view.shown,
            lasting_parts=view.lasting,
            shares_first=begins_with_survey(view.shown),
            rebuilt=self._fold.causes.rebuilt,
        )

    def catch_up(self) -> None:
        """Fold the new entries of the transcript."""
        entries = self.transcript.entries
        while self._read < len(entries):
            self._read += 1
            self._fold.take(entries[self._read - 1])

    def prepare(self) -> None:
        """Rebuild the view if needed, before a call to the model."""
        self._switch()
        self.catch_up()
        if not self._fold.is_begun:
            return
        self._nudge()
        cause = self._fold.causes.cause(self.view, at=time.time())
        if cause != "call" or self._fold.tokens >= self._fold.rests_until:
            self._propose(cause)
        if (tenths := 10 * self._fold.tokens // self.window_tokens) != self._tenths:
            self._tenths = tenths
            self.filled(self._fold.profile.name, self._fold.tokens)

    def note_overflow(self) -> bool:
        """
        Rebuild the view after the provider refused the conversation as too long. Return whether it got shorter.

        This happens once only, until the model gives a complete answer.
        """
        self.catch_up()
        if self._fold.causes.overflowed or not self._fold.is_begun:
            return False
        before = self.view.rebuilds
        self._propose("overflow")
        return self.view.rebuilds > before

    def shorten_result(self, call: ToolCall, text: str, *, is_error: bool, iteration: int) -> tuple[str, str]:
        """Return a result as the model will see it, and the way it was shortened; empty where it was not."""
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
            shown_from=find_shown_from(self.view.edit, self.view.deeds),
            spill=lambda whole: self._storage.spill(step, whole),
        )
        newborn = self._fold.births.shorten_result(entering)
        return newborn.text, newborn.by

    def restore(self) -> None:
        """Archive everything that is not shown in full, for a conversation that began on another host."""
        if (why := self._storage.restore(self.view.deeds, self.view.edit)) is not None:
            self._note_once(f"the whole results of earlier steps cannot be read here: {why}")

    def _switch(self) -> None:
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
        """Tell the agent how full its context is, if it has the tool to clear it."""
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
            # These requests are paid for: a process that resumes must not pay again.
            self.secure()
        self.told(entry)

    def _write_down(self, once: str) -> bool:
        self.transcript.append(Summoned(at=now(), once=once))
        return self.secure()
