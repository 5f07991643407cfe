"""A conversation in the real view, led by a profile as an agent's loop leads it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from forgepool.workers.context.edits.state import (
    Ask,
    Cause,
    EditProposal,
    Moment,
    Profile,
    SummaryQuestion,
    SummaryReply,
    nobody,
    unknown,
)
from forgepool.workers.context.profiles.registry import Off
from forgepool.workers.context.shorten.new_results import Birth, Births, Entering
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.calls import read_tool_call
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.usage import Gauge
from forgepool.workers.context.view.archive import Archive, find_dropped
from forgepool.workers.context.view.view import ContextView, find_shown_from
from forgepool.workers.llm.messages import Opaque, Part, Text, ToolCall, ToolResult, Turn, Usage, user
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.tools.workplace import Workplace

CARD = "# Task: sessions expire\n\nSessions end after `idle_s` seconds.\n\nAcceptance: `pytest -q` exits 0."


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """A call and its result."""

    tool: str
    arguments: dict[str, JsonValue]
    answer: str
    is_error: bool = False


def read(path: str, answer: str, **lines: int) -> Did:
    return Did(tool="read_file", arguments={"path": path, **lines}, answer=answer)


def wrote(path: str, content: str) -> Did:
    return Did(tool="write_file", arguments={"path": path, "content": content}, answer=f"OK: wrote {path}")


def edited(path: str, old: str = "a", new: str = "b") -> Did:
    return Did(tool="edit_file", arguments={"path": path, "old": old, "new": new}, answer=f"OK: edited {path}")


def ran(command: str, answer: str = "", status: int = 0) -> Did:
    return Did(tool="bash", arguments={"command": command}, answer=f"[exit status {status}, 0.1 s]\n{answer}")


def code(name: str, lines: int = 40) -> str:
    """Return a file as it is read: numbered lines of definitions."""
    return "".join(f"{at:6}\tdef {name}_{at}(value): return value\n" for at in range(1, lines + 1))


@dataclass(slots=True, kw_only=True)
class Led:
    profile: Profile = field(default_factory=Off)
    window_tokens: int = 200_000
    birth: Birth | None = None
    archive: Archive | None = None
    planned: tuple[str, ...] = ()
    current: Callable[[str], str | None] = unknown
    card: tuple[str, ...] = (CARD,)
    view: ContextView = field(init=False)
    fired: set[str] = field(default_factory=set)
    asked: list[SummaryQuestion] = field(default_factory=list)
    kept: list[Edit] = field(default_factory=list)
    """Every edit that was put in force."""
    _births: Births | None = field(init=False)
    _calls: int = 0

    def __post_init__(self) -> None:
        gauge = Gauge(window_tokens=self.window_tokens, fixed_characters=0)
        folder = self.archive.folder if self.archive else "/tmp/outputs/steps"
        self.view = ContextView(gauge=gauge, archive=folder, planned=self.planned)
        self._births = Births(self.birth) if self.birth is not None else None
        self.hear(*self.card)

    def hear(self, *texts: str) -> None:
        self.view.say(user(*(Text(text=text) for text in texts)))

    def model(
        self, *done: Did, said: str = "", tokens: int = 0, model: str = "m", thought: Opaque | None = None
    ) -> None:
        """Add a turn of the model, and the answers to its calls in order."""
        calls = [ToolCall(id=self._id(), name=each.tool, arguments=each.arguments) for each in done]
        parts: list[Part] = [thought] if thought else []
        parts += [Text(text=said)] if said else []
        self.view.say(
            Turn(role="assistant", parts=(*parts, *calls), model=model, usage=Usage(input_tokens=tokens), stop="calls")
        )
        for call, each in zip(calls, done, strict=True):
            self._answer(call, each)

    def ask(self, cause: Cause = "call", ask: Ask = nobody) -> EditProposal | None:
        """Ask the profile as before a call. Its proposal is validated, archived and put in force."""
        proposal = self.proposed(cause, ask)
        if proposal is None:
            return None
        if proposal.once:
            self.fired.add(proposal.once)
        if proposal.edit != self.view.edit:
            self.use(proposal.edit)
        return proposal

    def proposed(self, cause: Cause = "call", ask: Ask = nobody) -> EditProposal | None:
        moment = Moment(cause=cause, ask=self._noting(ask), current=self.current, fired=frozenset(self.fired))
        proposal = self.view.propose(self.profile, moment)
        assert not isinstance(proposal, str), proposal
        return proposal

    def use(self, edit: Edit) -> None:
        """Put the edit in force as another process reads it from the transcript."""
        edit = Edit.model_validate_json(edit.model_dump_json())
        if self.archive is not None:
            self.archive.write(find_dropped(self.view.deeds, edit))
        self.view.use(edit)
        self.kept.append(edit)

    @property
    def text(self) -> str:
        """Return all that the model is shown."""
        return "\n".join(_text(part) for turn in self.view.shown for part in turn.parts)

    @property
    def head(self) -> str:
        return "\n".join(turn.text for turn in self.view.edit.head)

    def deed(self, step: int) -> Deed:
        return self.view.deeds[step - 1]

    def _id(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"

    def _answer(self, call: ToolCall, did: Did) -> None:
        text = self._born(call, did) if self._births is not None else did.answer
        before = len(self.view.deeds)
        self.view.answer(ToolResult(call_id=call.id, text=text, is_error=did.is_error), did.answer)
        if self._births is not None:
            for deed in self.view.deeds[before:]:
                self._births.take(deed)

    def _born(self, call: ToolCall, did: Did) -> str:
        assert self._births is not None
        told = read_tool_call(call)
        entering = Entering(
            call=call,
            text=did.answer,
            action=told.action,
            reads=told.reads,
            writes=told.writes,
            failed=did.is_error,
            iteration=sum(turn.role == "assistant" for turn in self.view.turns),
            shown_from=find_shown_from(self.view.edit, self.view.deeds),
            spill=self._spill,
        )
        return self._births.shorten_result(entering).text

    def _spill(self, text: str) -> str | None:
        if self.archive is None:
            return "/tmp/outputs/spilled.txt"
        return str(self.archive.result(len(self.view.deeds) + 1, text))

    def _noting(self, ask: Ask) -> Ask:
        """Record the question before it is asked, so that it is asked once."""

        def noted(question: SummaryQuestion) -> SummaryReply:
            self.asked.append(question)
            if question.once in self.fired:
                return SummaryReply(why_not="it was asked already")
            if question.once:
                self.fired.add(question.once)
            return ask(question)

        return noted


def _text(part: Part) -> str:
    return part.text if isinstance(part, Text | ToolResult) else str(part)


def archive(folder: Path) -> Archive:
    """Return a real archive in its own workplace."""
    (folder / "tree").mkdir(parents=True)
    (folder / "tmp").mkdir()
    return Archive(
        Workplace(
            root=folder / "tree", tmp=folder / "tmp", env={}, confined=OPEN, stop=lambda: False, left_s=lambda: 9.0
        )
    )
