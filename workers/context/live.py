"""
The context of an agent that is at work: its transcript folded into a view, rebuilt where its profile wants that.

Everything that decides what is shown is in the transcript before it is shown. Who goes on with it on another host folds
the same entries, and shows the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from workers.context.archive import Archive, dropped
from workers.context.birth import Birth, Births, Entering
from workers.context.calls import asked
from workers.context.gauge import Gauge
from workers.context.profiles.advisory import Advisory
from workers.context.profiles.registry import UnknownProfile, profile, registered
from workers.context.state import Cause, Moment, Profile, Proposal, Question, Reply, nobody, unknown
from workers.context.view import View
from workers.llm.messages import Text, ToolCall, ToolResult, Usage, user
from workers.messages import Spent
from workers.meter import summed, used
from workers.tools.compact import COMPACT
from workers.tools.red_phase import CONFIRM
from workers.tools.refusal import Refused
from workers.transcript import (
    Answered,
    Committed,
    Entry,
    Noted,
    Profiled,
    Rebuilt,
    Said,
    Started,
    Summoned,
    Transcript,
    now,
)

CACHE_LIVES_S = 300.0
"""How long a provider keeps a prompt in its cache that nobody asks for."""
_GROWTH = 1.1
"""A profile whose models gave nothing is not asked again before the view is so many times as large."""


@dataclass(slots=True, kw_only=True)
class Context:
    transcript: Transcript
    profile: Profile
    window_tokens: int
    fixed_characters: int
    """Of the system prompt and the tools, as they are offered."""
    archive: Archive
    birth: Birth | None = field(init=False)
    """How results are shortened when they enter, as the profile wants it; None: they enter as they are."""
    ask: Callable[[Question, "View"], Reply] | None = None
    """Asks a model about the conversation as it is shown; None where there is nobody to be asked."""
    wanted: Callable[[], str | None] = lambda: None
    """The profile that a person wants from now on, or None."""
    current: Callable[[str], str | None] = unknown
    """The text of a file of the worktree, as it is now."""
    told: Callable[[Rebuilt], None] = lambda entry: None
    """Hears of each rebuild."""
    root: str = ""
    tests: tuple[str, ...] = ()
    view: View = field(init=False)
    _births: Births | None = field(init=False, default=None)
    _read: int = 0
    _plan: Committed | None = None
    _fired: set[str] = field(default_factory=set)
    _last_call: float = 0.0
    _switched: bool = False
    _overflowed: bool = False
    _rests_until: int = 0
    """Tokens of a request below which the profile is not asked."""
    is_rebuilt: bool = False
    """Whether the view was rebuilt since the model last answered."""
    _due: list[Usage] = field(default_factory=list)
    _stored: set[int] = field(default_factory=set)
    """Steps of this conversation whose whole results this process has written to the archive."""

    def __post_init__(self) -> None:
        self.birth = registered(self.profile.name).birth
        self._begin()
        self.catch_up()

    def catch_up(self) -> None:
        """Folds what the transcript has taken since."""
        entries = self.transcript.entries
        while self._read < len(entries):
            self._read += 1
            self._take(entries[self._read - 1])

    def prepare(self) -> None:
        """Before a call to the model: whatever is to be rebuilt is, and is in the transcript."""
        self._switch()
        self.catch_up()
        if not any(turn.role == "assistant" for turn in self.view.turns):
            return
        if isinstance(self.profile, Advisory) and (nudge := self.profile.nudge(self.view.state())) is not None:
            self.transcript.append(Said(at=now(), turn=user(Text(text=nudge))))
            self.catch_up()
        cause = self._cause()
        if cause == "call" and self._tokens() < self._rests_until:
            return
        proposal = self.view.propose(self.profile, self._moment(cause))
        if isinstance(proposal, str):
            self._note(proposal)
        elif proposal is not None:
            self._rebuild(proposal, cause)
        self._overflowed = False
        self.catch_up()

    def overflowed(self) -> bool:
        """
        The provider says that the conversation is too long: whether less of it could be shown, which then is. Once for
        each answer of the model.
        """
        if isinstance(self._newest(), Rebuilt) and self._newest_cause() == "overflow":
            return False
        before = self.view.rebuilds
        self._overflowed = True
        self.prepare()
        return self.view.rebuilds > before

    def unsettled(self) -> Spent:
        """What models were asked for since this was last asked."""
        due, self._due = summed(self._due), []
        return used(due)

    def born(self, call: ToolCall, text: str, *, is_error: bool, iteration: int) -> tuple[str, str]:
        """What the model is told of a result, and how that was shortened; empty where it was not."""
        if self._births is None:
            return text, ""
        told = asked(call, root=self.root, tests=self.tests)
        entering = Entering(
            call=call,
            text=text,
            action=told.action,
            reads=told.reads,
            writes=told.writes,
            failed=is_error,
            iteration=iteration,
            shown_from=self._shown_from(),
            spill=self._spill,
        )
        newborn = self._births.born(entering)
        return newborn.text, newborn.by

    def _begin(self) -> None:
        gauge = Gauge(window_tokens=self.window_tokens, fixed_characters=self.fixed_characters)
        self.view = View(gauge=gauge, root=self.root, tests=self.tests, archive=self.archive.folder)
        if self._plan is not None:
            self.view.plan, self.view.planned = self._plan.plan, self._plan.files
        self._births = Births(self.birth) if self.birth is not None else None
        self._rests_until = 0
        self._stored = set()

    def _take(self, entry: Entry) -> None:
        match entry:
            case Started():
                self._begin()
            case Committed():
                self._plan = entry
            case Said(turn=turn):
                self.view.say(turn)
                if turn.role == "assistant":
                    self._last_call, self.is_rebuilt = entry.at, False
            case Answered(result=result, whole=whole):
                self._answered(result, whole)
            case Rebuilt():
                self._rebuilt(entry)
            case Profiled():
                self._use(entry)
            case Summoned(once=once):
                self._fired.add(once)
            case _:
                pass

    def _answered(self, result: ToolResult, whole: str) -> None:
        before = len(self.view.deeds)
        self.view.answer(result, whole)
        if self._births is not None and len(self.view.deeds) > before:
            self._births.take(self.view.deeds[-1])

    def _rebuilt(self, entry: Rebuilt) -> None:
        if entry.once:
            self._fired.add(entry.once)
        if entry.edit is None:
            self._rests_until = int(entry.before_tokens * _GROWTH)
        else:
            self.view.use(entry.edit)
            self._rests_until, self.is_rebuilt = 0, True

    def _use(self, chosen: Profiled) -> None:
        if chosen.profile == self.profile.name:
            return
        try:
            self.profile, self.birth = profile(chosen.profile), registered(chosen.profile).birth
        except UnknownProfile:
            return
        self._births = Births(self.birth) if self.birth is not None else None
        self._switched = bool(chosen.by)

    def _switch(self) -> None:
        """To the profile a person wants meanwhile."""
        name = self.wanted()
        if name is None or name == self.profile.name:
            return
        try:
            profile(name)
        except UnknownProfile as wrong:
            self._note(str(wrong))
        else:
            self.transcript.append(Profiled(at=now(), profile=name, by="a person"))

    def _cause(self) -> Cause:
        done = self.view.deeds[-1] if self.view.deeds else None
        if self._overflowed:
            return "overflow"
        if self._switched:
            self._switched = False
            return "switch"
        if done is not None and done.turn == self._last_turn() and not done.result.is_error:
            if done.call.name == COMPACT:
                return "wish"
            if done.call.name == CONFIRM:
                return "red"
        return "cold" if time.time() > self._last_call + CACHE_LIVES_S else "call"

    def _moment(self, cause: Cause) -> Moment:
        return Moment(cause=cause, ask=self._asking, current=self.current, fired=frozenset(self._fired))

    def _last_turn(self) -> int:
        turns = self.view.turns
        return next((place for place in range(len(turns) - 1, -1, -1) if turns[place].role == "assistant"), 0)

    def _rebuild(self, proposal: Proposal, cause: Cause) -> None:
        changed = proposal.edit != self.view.edit
        if not changed and not proposal.replies and not proposal.once:
            return
        gone = dropped(self.view.deeds, proposal.edit) if changed else []
        try:
            self._store([deed.step for deed in gone])
        except (Refused, OSError) as trouble:
            self._note(f"nothing is dropped, because it could not be kept: {trouble}")
            changed, gone = False, []
        before = self._tokens()
        usage = summed(reply.usage for reply in proposal.replies)
        self._due.append(usage)
        rebuilt = Rebuilt(
            at=now(),
            profile=self.profile.name,
            cause=cause,
            why=proposal.why,
            edit=proposal.edit if changed else None,
            once=proposal.once,
            before_tokens=before,
            after_tokens=self._tokens_with(proposal) if changed else before,
            window_tokens=self.window_tokens,
            dropped=tuple(deed.step for deed in gone),
            archive=self.archive.folder if gone else "",
            calls=len(proposal.replies),
            usage=usage,
        )
        self.transcript.append(rebuilt)
        self.told(rebuilt)

    def _store(self, steps: list[int]) -> None:
        new = [step for step in steps if step not in self._stored]
        self.archive.write(self.view.deeds[step - 1] for step in new)
        self._stored.update(new)

    def restore(self) -> None:
        """Writes what is dropped already to this host's archive, for a conversation that began on another."""
        try:
            self._store([deed.step for deed in dropped(self.view.deeds, self.view.edit)])
        except (Refused, OSError) as trouble:
            self._note(f"the whole results of earlier steps cannot be read here: {trouble}")

    def _tokens(self) -> int:
        return self.view.gauge.tokens(self.fixed_characters + self.view.characters)

    def _tokens_with(self, proposal: Proposal) -> int:
        return self.view.gauge.tokens(self.fixed_characters + self.view.characters_with(proposal.edit))

    def _asking(self, question: Question) -> Reply:
        if self.ask is None:
            return nobody(question)
        if question.once:
            if question.once in self._fired:
                return Reply(why_not="it was asked already")
            self.transcript.append(Summoned(at=now(), once=question.once))
        return self.ask(question, self.view)

    def _shown_from(self) -> int:
        edit, deeds = self.view.edit, self.view.deeds
        masked = max((*edit.results, 0))
        cut = next((deed.step for deed in deeds if deed.turn >= edit.cut), len(deeds) + 1)
        return max(masked + 1, cut)

    def _spill(self, text: str) -> str | None:
        try:
            path, file = self.archive.workplace.new_output("result")
            with file:
                file.write(text.encode(errors="surrogatepass"))
        except (Refused, OSError):
            return None
        return str(path)

    def _newest(self) -> Entry | None:
        """What last decided how long the view is: a rebuild, or an answer of the model."""
        for entry in reversed(self.transcript.entries):
            if isinstance(entry, Rebuilt | Started) or (isinstance(entry, Said) and entry.turn.role == "assistant"):
                return entry
        return None

    def _newest_cause(self) -> str:
        newest = self._newest()
        return newest.cause if isinstance(newest, Rebuilt) else ""

    def _note(self, text: str) -> None:
        newest = self.transcript.entries[-1] if self.transcript.entries else None
        if not (isinstance(newest, Noted) and newest.text == text):
            self.transcript.append(Noted(at=now(), text=text))
