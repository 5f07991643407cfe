"""
`pace`: PACE in four stages.

The first acts before every call: outdated reads and earlier runs of a command become one line each (`Noise`). The
second acts once in a task, at the first test seen to fail: a cheap model summarises the work (`pace_summary`). The
third is `workers.agents.briefing.hints`. The fourth starts again from card, summary and plan (`fork_history`).

Our own agents do most of the fourth stage elsewhere: EXECUTE always starts a new conversation, and
`workers.context.transcript.loop_detection` ends an exploration without progress.

The published first stage rewrites sent text at almost every call, which caches charge for; `batch_tokens` limits that.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from forgepool.workers.context.edits.masks import HARNESS, begins_with_survey, cut, find_answered_turn
from forgepool.workers.context.edits.prose import OVERRIDES, list_endings, words
from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment, SummaryReply
from forgepool.workers.context.profiles.pace_summary import check_summary, collect_known, question
from forgepool.workers.context.shorten.new_results import bases
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.exchanges import text_argument
from forgepool.workers.context.transcript.summary import render_summary
from forgepool.workers.context.transcript.usage import lengths
from forgepool.workers.llm.messages import Text, Turn, user
from forgepool.workers.shell.purpose.file_access import Read, Write, touches
from forgepool.workers.tools.commands.red_phase import CONFIRM

_YOUNG = 4
"""Exchanges after a write until its text counts as old."""
_ROOM = 200
"""Characters a placeholder may always have; a longer one must be shorter than its text."""


def make_evicted_text(path: str) -> str:
    return f"[evicted: {path} was read here but has since been written — see current version on disk]"


def make_repeated_text(command: str) -> str:
    return f"[dedup: {command} — see most recent output later in history]"


def make_elided_text(characters: int, path: str) -> str:
    return f"[elided: {characters:,} characters, written to {path} — see current version on disk]"


@dataclass(slots=True, kw_only=True)
class Noise:
    """The outdated results of a conversation, learned deed by deed. Another conversation starts it over."""

    order_aware: bool = True
    write_bodies: bool = True
    superseded_reads: bool = False
    results: dict[int, str] = field(default_factory=dict)
    """Replacements of results, by step."""
    inputs: dict[int, Mapping[str, JsonValue]] = field(default_factory=dict)
    """Replacements of calls' arguments, by step."""
    referred: dict[int, list[int]] = field(default_factory=dict)
    """The later steps whose results refer to a step."""
    planned: Deed | None = None
    """The newest commit of a plan."""
    _learned: list[Deed] = field(default_factory=list)
    _reads: dict[str, list[tuple[Deed, Read]]] = field(default_factory=dict)
    """Reads of each path since it was last written."""
    _so: dict[int, set[str]] = field(default_factory=dict)
    """The paths of each read that were not written since."""
    _written: set[str] = field(default_factory=set)
    _runs: dict[str, Deed] = field(default_factory=dict)
    """The newest run of each command."""
    _bodies: dict[str, Deed] = field(default_factory=dict)
    """The newest call that wrote all of each path."""
    _young: deque[Deed] = field(default_factory=deque)

    def learn(self, deeds: Sequence[Deed]) -> None:
        """Learn new deeds, in time linear in their number."""
        if list(deeds[: len(self._learned)]) != self._learned:
            self._forget()
        for deed in deeds[len(self._learned) :]:
            self._take(deed)

    def find_hidden(self, start: int, end: int) -> dict[int, str]:
        """Return the replacements of results to calls in the turns from `start` up to, not including, `end`."""
        found = {step: text for step, text in self.results.items() if start <= self._turn(step) < end}
        for step in sorted(found.keys() & self.referred.keys(), reverse=True):
            if any(later not in found for later in self.referred[step]):
                del found[step]
        return found

    def find_elided(self, start: int, end: int) -> dict[int, Mapping[str, JsonValue]]:
        return {step: texts for step, texts in self.inputs.items() if start <= self._turn(step) < end}

    def _turn(self, step: int) -> int:
        return self._learned[step - 1].turn

    def _forget(self) -> None:
        for memory in (self.results, self.inputs, self.referred, self._reads, self._so, self._runs, self._bodies):
            memory.clear()
        self._learned.clear()
        self._written.clear()
        self._young.clear()
        self.planned = None

    def _take(self, deed: Deed) -> None:
        self._learned.append(deed)
        for step in bases(deed):
            self.referred.setdefault(step, []).append(deed.step)
        if deed.call.name == "commit_plan" and not deed.failed:
            self.planned = deed
        self._ran(deed)
        if not deed.failed or deed.command:
            for write in deed.writes:
                self._wrote(write)
        if not deed.failed:
            self._remember_body(deed)
            # What else a command did has printed too, and is not in the file.
            if deed.action == "read" and deed.does <= {"read"}:
                self._remember_read(deed)
        while self._young and len(self._learned) - self._young[0].step >= _YOUNG:
            old = self._young.popleft()
            if self._bodies.get(old.writes[0].path) is old:
                self._elide(self._bodies.pop(old.writes[0].path))

    def _ran(self, deed: Deed) -> None:
        if not deed.command or deed.call.name == CONFIRM or _in_background(deed):
            return
        command = text_argument(deed.call.arguments, "command") or deed.command
        if (before := self._runs.get(command)) is not None:
            placeholder = make_repeated_text(before.command)
            if len(placeholder) <= max(_ROOM, len(before.result.text)):
                self.results.setdefault(before.step, placeholder)
        self._runs[command] = deed

    def _wrote(self, write: Write) -> None:
        for path in self._met(write):
            for deed, _ in self._reads.pop(path, ()):
                self._written_since(deed, path)
            if (body := self._bodies.pop(path, None)) is not None:
                self._elide(body)
        self._written.add(write.path)

    def _met(self, write: Write) -> list[str]:
        """Return the known paths that a write changes."""
        if write.how in ("create", "edit"):
            return [write.path]
        return [path for path in {**self._reads, **self._bodies} if touches(write, path)]

    def _written_since(self, deed: Deed, path: str) -> None:
        left = self._so[deed.step]
        left.discard(path)
        if not left:
            self.results.setdefault(
                deed.step, make_evicted_text(", ".join(dict.fromkeys(read.path for read in deed.reads)))
            )

    def _remember_read(self, deed: Deed) -> None:
        self._so[deed.step] = {read.path for read in deed.reads}
        for read in deed.reads:
            if self.superseded_reads:
                self._supersede(read)
            self._reads.setdefault(read.path, []).append((deed, read))
            if not self.order_aware and read.path in self._written:
                self._written_since(deed, read.path)

    def _supersede(self, read: Read) -> None:
        """Replace an earlier read that this one covers."""
        for before, part in self._reads.get(read.path, ()):
            if len(before.reads) == 1 and _covers(read, part):
                self.results.setdefault(before.step, make_repeated_text(f"read {part.path}"))

    def _remember_body(self, deed: Deed) -> None:
        if self.write_bodies and not deed.command and len(deed.writes) == 1 and deed.writes[0].how == "create":
            self._bodies[deed.writes[0].path] = deed
            self._young.append(deed)

    def _elide(self, deed: Deed) -> None:
        """Replace the longest argument of a call, if that shortens it."""
        texts = {name: value for name, value in deed.call.arguments.items() if isinstance(value, str)}
        name = max(texts, key=lambda each: len(texts[each]), default="")
        placeholder = make_elided_text(len(texts.get(name, "")), deed.writes[0].path)
        if len(texts.get(name, "")) > len(placeholder):
            self.inputs[deed.step] = {**deed.call.arguments, name: placeholder}


def _in_background(deed: Deed) -> bool:
    """Report whether a command runs on in the background, where each run is another."""
    return deed.call.name == "bash_background" or deed.call.arguments.get("run_in_background") is True


def _covers(later: Read, earlier: Read) -> bool:
    if later.whole or later.part:
        return later.whole
    if earlier.first is None or earlier.last is None or later.first is None or later.last is None:
        return False
    return later.first <= earlier.first and earlier.last <= later.last


COMPRESS = "pace-compress"
FORK = "pace-fork"
_GO_ON = (
    f"{HARNESS} The summary above stands for the conversation before it. Its decisions are a model's words; all else "
    "is what the harness saw. Go on from here."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    order_aware: bool = True
    """
    With False, reads of any written path go, even those the model has not seen: as published, for comparison only.
    """
    write_bodies: bool = True
    """
    Remove old file texts from the calls that wrote them. The original looks for them in results, where they never are.
    """
    superseded_reads: bool = False
    """Replace reads by later reads of the same lines, which the original does not."""
    batch_tokens: int | None = None
    """Tokens of a request below which the first stage waits; None acts before every call, as published."""
    compress: bool = True
    fork: bool = False
    """Start again with a forked history once a plan is committed."""
    _noise: Noise = field(init=False, compare=False, repr=False, hash=False)

    def __post_init__(self) -> None:
        noise = Noise(
            order_aware=self.order_aware, write_bodies=self.write_bodies, superseded_reads=self.superseded_reads
        )
        object.__setattr__(self, "_noise", noise)

    @property
    def name(self) -> str:
        return "pace"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        self._noise.learn(state.deeds)
        last = find_answered_turn(state.turns)
        if last <= 1:
            return None
        if self.fork and FORK not in moment.fired and (fork := self._forked(state, last)) is not None:
            return fork
        if self.compress and moment.cause == "red" and COMPRESS not in moment.fired and last > state.edit.cut:
            return _compress(state, moment, last)
        return self._first_stage(state, last) if self._due(state, moment) else None

    def _due(self, state: ContextState, moment: Moment) -> bool:
        if self.batch_tokens is None or moment.cause not in ("call", "red"):
            return True
        return state.gauge.tokens(state.gauge.fixed_characters + state.shown_characters) > self.batch_tokens

    def _first_stage(self, state: ContextState, last: int) -> EditProposal | None:
        edit, end = state.edit, last if self.order_aware else len(state.turns)
        hidden, inputs = self._noise.find_hidden(edit.cut, end), self._noise.find_elided(edit.cut, end)
        new = {step: text for step, text in hidden.items() if step not in edit.results}
        new_inputs = {step: texts for step, texts in inputs.items() if step not in edit.inputs}
        back = self._wanted_back(edit, hidden)
        if not (new or new_inputs or back):
            return None
        results = {step: text for step, text in edit.results.items() if step not in back}
        changes = {"results": {**results, **new}, "inputs": {**edit.inputs, **new_inputs}}
        why = f"{len(new)} results of earlier reads and runs, and the text of {len(new_inputs)} writes, are out of date"
        return EditProposal(edit=edit.model_copy(update=changes), why=why)

    def _wanted_back(self, edit: Edit, hidden: Mapping[int, str]) -> set[int]:
        """Return the hidden results that a newer result refers to."""
        return {
            step
            for step in self._noise.referred.keys() - hidden.keys()
            if step in edit.results and edit.results[step] == self._noise.results.get(step)
        }

    def _forked(self, state: ContextState, last: int) -> EditProposal | None:
        """Propose a forked history if the model's last turn committed a plan."""
        planned = self._noise.planned
        if planned is None or planned.turn < last:
            return None
        _, summary, told = fork_history(state, "", state.plan or text_argument(planned.call.arguments, "plan"))
        heard = words(state, last)
        edit = _from(state, last, summary, *(["\n".join([HARNESS, *heard])] if heard else []), told.text)
        why = "a plan was committed: what was explored gives way to a summary of it"
        return EditProposal(edit=edit, why=why, once=FORK) if _is_shorter(state, edit) else None


def fork_history(state: ContextState, summary: str, plan: str) -> tuple[Turn, ...]:
    """
    Return the start of EXECUTE: the card, a summary and the plan.

    `summary` is YAML; an empty one is replaced by a summary made by rules.
    """
    if not state.turns:
        return ()
    first = 1 + begins_with_survey(state.turns)
    card = state.turns[0].model_copy(update={"parts": state.turns[0].parts[:first]})
    told = f"## The committed plan\n\n{plan.strip()}"
    return card, _summed_up(summary or render_summary(collect_known(state))), user(Text(text=told))


def _compress(state: ContextState, moment: Moment, last: int) -> EditProposal:
    truth = collect_known(state, red=True)
    reply = moment.ask(replace(question(state, truth), once=COMPRESS))
    found = check_summary(reply, truth, state)
    if isinstance(found, str):
        return _unchanged(state, reply, found)
    facts = [*list_endings(state, last), *words(state, last)]
    told = "\n".join([f"{_GO_ON}\n", OVERRIDES, *facts]) if facts else _GO_ON
    edit = _from(state, last, _summed_up(render_summary(found)), told)
    if not _is_shorter(state, edit):
        return _unchanged(state, reply, "the summary is no shorter than what it stands for")
    return EditProposal(edit=edit, why="a first failing test was confirmed", once=COMPRESS, replies=(reply,))


def _unchanged(state: ContextState, reply: SummaryReply, why: str) -> EditProposal:
    return EditProposal(edit=state.edit, why=f"not compressed: {why}", once=COMPRESS, replies=(reply,))


def _from(state: ContextState, last: int, summary: Turn, *told: str) -> Edit:
    """
    Cut before the model's last turn, whose results it has not seen, and put a summary in place.

    The head ends with a turn of the user's side: an answer that begins with a signed thought takes no text before it.
    """
    edit = cut(state, last, *told)
    return edit.model_copy(update={"head": (summary, *edit.head)})


def _is_shorter(state: ContextState, edit: Edit) -> bool:
    return state.shown_sizes[0] + lengths(edit.head) + sum(state.sizes[edit.cut :]) < state.shown_characters


def _summed_up(text: str) -> Turn:
    return Turn(role="assistant", parts=(Text(text=f"Summary of the conversation so far:\n\n{text.strip()}\n"),))
