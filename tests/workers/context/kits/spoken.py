"""A conversation built call by call and led by a profile as an agent's loop does, for tests of profiles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from forgepool.workers.context.edits.state import (
    Ask,
    Cause,
    ContextState,
    EditProposal,
    Moment,
    Profile,
    SummaryQuestion,
    SummaryReply,
    nobody,
)
from forgepool.workers.context.shorten.new_results import mend_edit
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.transcript.usage import Gauge, turn_length
from forgepool.workers.context.view.view import wrong
from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.llm.wires.normal_forms import alternating
from forgepool.workers.shell.purpose.file_access import Read, Write

CARD = "# Task T7: sessions expire\n\nSessions must end after `idle_s` seconds.\n\nAcceptance: `pytest -q tests/auth`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A call, its result, and its meaning."""

    tool: str
    arguments: dict[str, str]
    answer: str
    deed: Callable[[int, int, ToolCall, ToolResult], Deed]


def read(path: str, answer: str = "     1\tdef load():\n     2\t    pass") -> Act:
    return _act("read_file", {"path": path}, answer, action="read", reads=(Read(path=path),))


def edit(path: str, old: str, new: str) -> Act:
    write = Write(path=path, how="edit")
    return _act("edit_file", {"path": path, "old": old, "new": new}, "OK", action="write", writes=(write,))


def create(path: str, content: str) -> Act:
    write = Write(path=path, how="create")
    return _act("write_file", {"path": path, "content": content}, "OK", action="write", writes=(write,))


def bash(command: str, answer: str, *, status: int = 0, action: str = "run", writes: tuple[str, ...] = ()) -> Act:
    return _act(
        "bash",
        {"command": command},
        answer,
        action=action,
        status=status,
        failed=status != 0,
        command=command,
        writes=tuple(Write(path=path, how="shell") for path in writes),
    )


def grep(pattern: str, answer: str) -> Act:
    return _act("grep", {"pattern": pattern}, answer, action="search")


def refused(tool: str, path: str, answer: str) -> Act:
    """Return a failed call of a file tool."""
    return _act(tool, {"path": path}, answer, action="read", failed=True)


def other(tool: str, arguments: dict[str, object], answer: str = "OK") -> Act:
    return _act(tool, arguments, answer, action="run")


def _act(tool: str, arguments: dict[str, object], answer: str, *, failed: bool = False, **known: object) -> Act:
    def deed(step: int, turn: int, call: ToolCall, result: ToolResult) -> Deed:
        return Deed(step=step, turn=turn, call=call, result=result, whole=answer, failed=failed, **known)

    return Act(tool=tool, arguments=arguments, answer=answer, deed=deed)


@dataclass(slots=True, kw_only=True)
class Spoken:
    card: str = CARD
    plan: str = ""
    archive: str = ""
    gauge: Gauge = field(default_factory=lambda: Gauge(window_tokens=200_000, fixed_characters=0))
    turns: list[Turn] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)
    edit: Edit = field(default_factory=Edit)
    rebuilds: int = 0
    fired: set[str] = field(default_factory=set)
    asked: list[SummaryQuestion] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.turns.append(user(Text(text=self.card)))

    def do(self, said: str, *acts: Act) -> None:
        """Add a turn of the model and the results of its calls."""
        place = len(self.turns)
        parts: list[Part] = [Text(text=said)] if said else []
        results: list[Part] = []
        for act in acts:
            step = len(self.deeds) + 1
            call = ToolCall(id=f"c{step}", name=act.tool, arguments=act.arguments)
            result = ToolResult(call_id=call.id, text=act.answer)
            deed = act.deed(step, place, call, result)
            parts.append(call)
            results.append(result)
            self.deeds.append(deed)
        self.turns.append(Turn(role="assistant", parts=tuple(parts)))
        if results:
            self.turns.append(user(*results))

    def hear(self, text: str) -> None:
        """Add a person's message to the last turn of the user's side."""
        last = self.turns[-1]
        if last.role == "user":
            self.turns[-1] = last.model_copy(update={"parts": (*last.parts, Text(text=text))})
        else:
            self.turns.append(user(Text(text=text)))

    @property
    def view(self) -> list[Turn]:
        return show_turns(self.turns, self.edit)

    @property
    def text(self) -> str:
        """Return all that the model is shown."""
        return "\n".join(_text(part) for turn in self.view for part in turn.parts)

    @property
    def sides(self) -> list[tuple[Part, ...]]:
        return alternating(self.view, wire="scripted", model="m")

    @property
    def state(self) -> ContextState:
        return ContextState(
            turns=self.turns,
            deeds=self.deeds,
            edit=self.edit,
            rebuilds=self.rebuilds,
            sizes=[turn_length(turn) for turn in self.turns],
            shown_sizes=[turn_length(turn) for turn in self.view],
            gauge=self.gauge,
            plan=self.plan,
            archive=self.archive,
        )

    def led_by(self, profile: Profile, ask: Ask = nobody, *, cause: Cause = "call") -> EditProposal | None:
        """Ask the profile, and put its proposal in force if it is valid."""

        def noted(question: SummaryQuestion) -> SummaryReply:
            if question.once in self.fired:
                return SummaryReply(why_not="it was asked already")
            self.fired.add(question.once)
            self.asked.append(question)
            return ask(question)

        moment = Moment(cause=cause, ask=noted, fired=frozenset(self.fired))
        proposal = profile.propose(self.state, moment)
        if proposal is None:
            return None
        edit = mend_edit(proposal.edit, self.deeds)
        assert wrong(self.turns, edit, frozenset(edit.results.keys() - proposal.edit.results.keys())) is None
        if proposal.once:
            self.fired.add(proposal.once)
        if edit != self.edit:
            self.edit = edit
            self.rebuilds += 1
        return proposal


def _text(part: Part) -> str:
    return part.text if isinstance(part, Text | ToolResult) else str(part)


def answering(text: str) -> Ask:
    return lambda question: SummaryReply(text=text)


def window(tokens: int) -> Gauge:
    """Return a gauge for a window of this many tokens of four characters."""
    return Gauge(window_tokens=tokens, fixed_characters=0)


def unharmed(spoken: Spoken) -> None:
    """Assert what holds for any profile's view: vendors accept it, and it has the card and all unseen parts."""
    assert wrong(spoken.turns, spoken.edit) is None
    view = spoken.view
    assert view[0].parts[0] == Text(text=spoken.card)
    if spoken.turns[-1].role == "user":
        assert view[-1] == spoken.turns[-1]
    _paired(spoken.sides)


def _paired(sides: Sequence[tuple[Part, ...]]) -> None:
    for place, side in enumerate(sides):
        calls = [part.id for part in side if isinstance(part, ToolCall)]
        results = [part.call_id for part in side if isinstance(part, ToolResult)]
        assert not (calls if place % 2 == 0 else results)
        if calls and place + 1 < len(sides):
            answered = [part.call_id for part in sides[place + 1] if isinstance(part, ToolResult)]
            assert sorted(answered) == sorted(calls)
        if results:
            called = [part.id for part in sides[place - 1] if isinstance(part, ToolCall)]
            assert sorted(called) == sorted(results)
