"""Conversations made call by call, and random ones, for tests of the profiles that mask, cut and clear."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from pydantic import JsonValue

from forgepool.workers.context.edits.state import (
    Cause,
    ContextState,
    EditProposal,
    Moment,
    Profile,
    SummaryQuestion,
    SummaryReply,
    nobody,
)
from forgepool.workers.context.shorten.new_results import bases, mend_edit
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.transcript.usage import Gauge, turn_length
from forgepool.workers.context.view.view import wrong
from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.llm.wires.normal_forms import alternating
from forgepool.workers.shell.purpose.file_access import Action, Read, Write

CARD = "Task: make the sessions expire.\nAcceptance: pytest exits 0."
SUMMARY = (
    "## Task\nThe person asked for sessions that expire.\n## Decisions\nA timestamp was chosen, since it is plain.\n"
    "## State\nThe clock is done; the API is not.\n## Files\nThe model read invented.py.\n## Context\nThe name is Ada."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """A call and its result."""

    tool: str
    arguments: dict[str, JsonValue]
    answer: str
    action: Action = "run"
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    failed: bool = False
    status: int | None = None
    command: str = ""
    whole: str = ""


def read(path: str, text: str = "", first: int | None = None, last: int | None = None, whole: str = "") -> Did:
    text = text or "".join(f"{number:6}\tdef {path[0]}{number}(): ...\n" for number in range(1, 41))
    given: dict[str, JsonValue] = {"path": path}
    if first is not None:
        given |= {"start": first}
    reads = (Read(path=path, first=first, last=last),)
    return Did(tool="read_file", arguments=given, answer=text, action="read", reads=reads, whole=whole)


def wrote(path: str, text: str = "x" * 300) -> Did:
    return Did(
        tool="write_file",
        arguments={"path": path, "content": text},
        answer=f"OK: wrote {len(text):,} bytes to {path} (iter 3), and not a byte more than was asked for",
        action="write",
        writes=(Write(path=path, how="create", characters=len(text)),),
    )


def ran(command: str, answer: str, action: Action = "run", status: int | None = 0) -> Did:
    return Did(
        tool="bash",
        arguments={"command": command},
        answer=answer,
        action=action,
        failed=bool(status),
        status=status,
        command=command,
    )


@dataclass(slots=True, kw_only=True)
class Talk:
    window_tokens: int = 10_000
    turns: list[Turn] = field(default_factory=lambda: [user(Text(text=CARD))])
    deeds: list[Deed] = field(default_factory=list)
    edit: Edit = field(default_factory=Edit)
    rebuilds: int = 0
    fired: frozenset[str] = frozenset()
    plan: str = ""

    def model(self, *done: Did, said: str = "") -> None:
        """Add a turn of the model and the answers to its calls."""
        place = len(self.turns)
        parts: list[Text | ToolCall] = [Text(text=said)] if said else []
        for each in done:
            step = len(self.deeds) + 1
            call = ToolCall(id=f"c{step}", name=each.tool, arguments=each.arguments)
            result = ToolResult(call_id=call.id, text=each.answer, is_error=each.failed)
            parts.append(call)
            self.deeds.append(
                Deed(
                    step=step,
                    turn=place,
                    call=call,
                    result=result,
                    whole=each.whole or each.answer,
                    action=each.action,
                    reads=each.reads,
                    writes=each.writes,
                    failed=each.failed,
                    status=each.status,
                    command=each.command,
                )
            )
        self.turns.append(Turn(role="assistant", parts=tuple(parts)))
        if done:
            self.turns.append(user(*(deed.result for deed in self.deeds[-len(done) :])))

    def hear(self, text: str) -> None:
        """Add a text on the user's side, after what is there."""
        part = Text(text=text)
        if self.turns[-1].role == "user":
            self.turns[-1] = user(*self.turns[-1].parts, part)
        else:
            self.turns.append(user(part))

    def state(self) -> ContextState:
        return ContextState(
            turns=self.turns,
            deeds=self.deeds,
            edit=self.edit,
            rebuilds=self.rebuilds,
            sizes=[turn_length(turn) for turn in self.turns],
            shown_sizes=[turn_length(turn) for turn in show_turns(self.turns, self.edit)],
            gauge=Gauge(window_tokens=self.window_tokens, fixed_characters=0),
            plan=self.plan,
        )

    def fill(self, share: float) -> None:
        """Add text of the model until the view takes this share of the window."""
        missing = int(share * self.window_tokens * 4) - self.state().shown_characters
        self.model(said="w" * (missing + 4))
        self.turns.append(user())

    def ask(
        self, profile: Profile, cause: Cause = "call", ask: Callable[[SummaryQuestion], SummaryReply] = nobody
    ) -> EditProposal | None:
        return profile.propose(self.state(), Moment(cause=cause, ask=ask, fired=self.fired))

    def put_in_force(self, proposal: EditProposal) -> None:
        """Put the proposal in force as another process reads it from the transcript."""
        self.fired |= {proposal.once} if proposal.once else set()
        if proposal.edit == self.edit:
            return
        edit = mend_edit(proposal.edit, self.deeds)
        assert wrong(self.turns, edit, frozenset(edit.results) - frozenset(proposal.edit.results)) is None
        self.edit = Edit.model_validate_json(edit.model_dump_json())
        self.rebuilds += 1

    def result(self, step: int) -> str:
        """Return what is shown of a result."""
        found = {each.call_id: each.text for turn in show_turns(self.turns, self.edit) for each in turn.results}
        return found[f"c{step}"]

    def size(self) -> int:
        return self.state().shown_characters

    def check(self) -> None:
        """Assert what holds for every view."""
        view = show_turns(self.turns, self.edit)
        assert view[0].role == "user" and view[0].parts[0] == Text(text=CARD)
        for shown_now, part in zip(view[-1].parts, self.turns[-1].parts, strict=True):
            assert shown_now == part or self._is_whole(shown_now)
        assert self.edit.cut == 1 or self.turns[self.edit.cut].role == "assistant"
        sides = alternating(view, wire="scripted", model="m")
        for asked, answered in zip(sides[1::2], sides[2::2], strict=False):
            calls = [part.id for part in asked if isinstance(part, ToolCall)]
            assert calls == [part.call_id for part in answered if isinstance(part, ToolResult)]

    def _is_whole(self, part: Part) -> bool:
        """Return whether it is a result as it was before it was shortened on arrival."""
        return any(
            isinstance(part, ToolResult) and (part.call_id, part.text) == (deed.call.id, deed.whole) and bases(deed)
            for deed in self.deeds
        )


def replying(text: str) -> Callable[[SummaryQuestion], SummaryReply]:
    return lambda question: SummaryReply(text=text)


_PATHS = st.sampled_from(["a.py", "b.py", "src/c.py"])
_COMMANDS = st.sampled_from(["pytest -q", "ls src", "python a.py"])
_TEXTS = st.builds(
    lambda word, times, end: (word + end) * times,
    st.sampled_from(["ok", "naïve – ", "x" * 90, ""]),
    st.integers(0, 700),
    st.sampled_from(["", "\n"]),
)
_DONE = st.one_of(
    st.builds(read, _PATHS, _TEXTS),
    st.builds(read, _PATHS, _TEXTS, st.integers(1, 5), st.integers(5, 9)),
    st.builds(wrote, _PATHS, _TEXTS),
    st.builds(ran, _COMMANDS, _TEXTS, st.sampled_from(["test", "run", "search"]), st.sampled_from([0, 1, None])),
)
_SAYS = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(["Use UTC.", "[the harness] You go in circles."]))
_REPLIES = st.sampled_from(["", "no", SUMMARY, SUMMARY.replace("## State", "## Status"), SUMMARY * 40, "Done. " * 200])
_CAUSES: st.SearchStrategy[Cause] = st.sampled_from(["call", "call", "call", "cold", "overflow", "wish"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    done: Sequence[Did]
    said: str
    heard: str | None
    refers: int
    """Number of steps back to the result that the last one refers to; 0 for none."""
    cause: Cause
    reply: str


ROUNDS = st.lists(
    st.builds(
        Round,
        done=st.lists(_DONE, min_size=1, max_size=3),
        said=st.sampled_from(["", "I will look.", "w" * 900]),
        heard=_SAYS,
        refers=st.integers(-6, 6),
        cause=_CAUSES,
        reply=_REPLIES,
    ),
    max_size=14,
)


def endure(profile: Profile, rounds: Sequence[Round], window_tokens: int) -> int:
    """
    Lead a conversation, ask before every call, and return how often the view was rebuilt.

    Every view is whole, a proposal follows from the state alone, and a second question at once gives nothing new.
    """
    talk = Talk(window_tokens=window_tokens)
    for each in rounds:
        talk.model(*_referring(talk, each), said=each.said)
        if each.heard is not None:
            talk.hear(each.heard)
        ask = replying(each.reply)
        proposal = talk.ask(profile, each.cause, ask)
        assert proposal == talk.ask(profile, each.cause, ask)
        if proposal is None:
            continue
        before, changes = talk.size(), proposal.edit != talk.edit
        talk.put_in_force(proposal)
        talk.check()
        _check_references(talk)
        assert talk.size() < before if changes else talk.size() == before
        again = talk.ask(profile, "call", ask)
        assert again is None or again.edit == talk.edit
    return talk.rebuilds


def _referring(talk: Talk, round_: Round) -> list[Did]:
    """Let a result refer to an earlier one that is shown in full."""
    *others, last = round_.done
    step = len(talk.deeds) + 1 - round_.refers
    if round_.refers < 1 or step < 1:
        return [*round_.done]
    base = talk.deeds[step - 1]
    if base.turn < talk.edit.cut or step in talk.edit.results or base.result.text != base.whole:
        return [*round_.done]
    mark = f"[identical to the result of step {step} ({base.call.name})]"
    return [*others, replace(last, answer=mark, whole=base.whole)] if base.whole else [*round_.done]


def _check_references(talk: Talk) -> None:
    """A result that the model has not seen refers to a shown one, or is shown in full itself."""
    last = max(place for place, turn in enumerate(talk.turns) if turn.role == "assistant")
    for deed in talk.deeds:
        if deed.turn == last:
            for base in (talk.deeds[step - 1] for step in bases(deed)):
                is_there = base.turn >= talk.edit.cut and talk.result(base.step) == base.whole
                assert is_there or talk.result(deed.step) == deed.whole
