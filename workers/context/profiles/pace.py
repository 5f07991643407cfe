"""
PACE, in four stages. The first, before every call: what was read before it was written, and earlier runs of a command,
give way to one line each (`pace_noise`). The second, once a task and at the first test seen to fail: a cheap model sums
up what was done, and the conversation goes on from that (`pace_summary`). The third, hints at files before anything is
read, is `workers.agents.briefing.hints`. The fourth begins anew from the card, a summary and the plan: `fork_history`.

Of the fourth stage's phases, A is `fork` here and, for our own agents, the end of PLAN; B (nothing shared, twenty
turns of exploration at most, then a plan made by rules) and C (exploration that finds nothing new ends) are
`workers.context.transcript.loop_detection` and `workers.agents.builtin.prompts`: EXECUTE always begins anew.

The published first stage rewrites what was sent at almost every call, which providers' caches charge for;
`batch_tokens` does it seldom, all at once.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from forgepool.workers.context.edits.masks import HARNESS, cut, find_answered_turn
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
"""Exchanges that follow a write before its text counts as old."""
_ROOM = 200
"""Characters a placeholder may always have; a longer one must be shorter than what it stands for."""
_RECEIPT = re.compile(r"OK: wrote \d[\d,]* bytes to .+ \(iter \d+\)")


def make_evicted_text(path: str) -> str:
    return f"[evicted: {path} was read here but has since been written — see current version on disk]"


def make_repeated_text(command: str) -> str:
    return f"[dedup: {command} — see most recent output later in history]"


def make_elided_text(characters: int, path: str) -> str:
    return f"[elided: {characters:,} characters, written to {path} — see current version on disk]"


def is_receipt(text: str) -> bool:
    """
    Whether the answer to a write is `workers.tools.files.write.receipt`, and so repeats nothing of what was written.
    """
    return _RECEIPT.fullmatch(text.strip()) is not None


@dataclass(slots=True, kw_only=True)
class Noise:
    """Grows with what it is given to learn; begins anew where that is another conversation's."""

    order_aware: bool = True
    write_bodies: bool = True
    superseded_reads: bool = False
    results: dict[int, str] = field(default_factory=dict)
    """By step: what may stand in place of a result."""
    inputs: dict[int, Mapping[str, JsonValue]] = field(default_factory=dict)
    """By step: what may stand in place of a call's arguments."""
    referred: dict[int, list[int]] = field(default_factory=dict)
    """By step: the later steps whose results refer to it."""
    planned: Deed | None = None
    """Where a plan was committed last."""
    _learned: list[Deed] = field(default_factory=list)
    _reads: dict[str, list[tuple[Deed, Read]]] = field(default_factory=dict)
    """By path: what was read of it since it was last written."""
    _so: dict[int, set[str]] = field(default_factory=dict)
    """By step of a read: the paths that were not written since."""
    _written: set[str] = field(default_factory=set)
    _runs: dict[str, Deed] = field(default_factory=dict)
    """By command: its newest run."""
    _bodies: dict[str, Deed] = field(default_factory=dict)
    """By path: the newest call that wrote all of it."""
    _young: deque[Deed] = field(default_factory=deque)

    def learn(self, deeds: Sequence[Deed]) -> None:
        """Linear in what is new; what is known is compared, mostly by identity."""
        if list(deeds[: len(self._learned)]) != self._learned:
            self._forget()
        for deed in deeds[len(self._learned) :]:
            self._take(deed)

    def find_hidden(self, start: int, end: int) -> dict[int, str]:
        """Of results to calls in the turns from `start` to before `end`."""
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
        """The known paths that a write concerns."""
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
        """What an earlier call read and this one reads again, all of it."""
        for before, part in self._reads.get(read.path, ()):
            if len(before.reads) == 1 and _covers(read, part):
                self.results.setdefault(before.step, make_repeated_text(f"read {part.path}"))

    def _remember_body(self, deed: Deed) -> None:
        if self.write_bodies and not deed.command and len(deed.writes) == 1 and deed.writes[0].how == "create":
            self._bodies[deed.writes[0].path] = deed
            self._young.append(deed)

    def _elide(self, deed: Deed) -> None:
        """The longest text of the call, where it is longer than what would stand for it."""
        texts = {name: value for name, value in deed.call.arguments.items() if isinstance(value, str)}
        name = max(texts, key=lambda each: len(texts[each]), default="")
        placeholder = make_elided_text(len(texts.get(name, "")), deed.writes[0].path)
        if len(texts.get(name, "")) > len(placeholder):
            self.inputs[deed.step] = {**deed.call.arguments, name: placeholder}


def _in_background(deed: Deed) -> bool:
    """Its answer names what runs on, and each run is another."""
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
    """False takes away what was read of a path ever written, before the model saw it too: as the published code does,
    for comparison only."""
    write_bodies: bool = True
    """Whether the texts of files are taken out of the calls that wrote them, once they are old. Not in the original,
    which looks for them in the answers, where they never were."""
    superseded_reads: bool = False
    """Whether what was read gives way to a later read of the same lines. Not in the original either."""
    batch_tokens: int | None = None
    """The first stage acts only where the next request is larger than this; None is before every call, as published."""
    compress: bool = True
    fork: bool = False
    """Whether a conversation goes on as a forked one when a plan was committed in it."""
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
        """What this profile hid, and a result that came since refers to."""
        return {
            step
            for step in self._noise.referred.keys() - hidden.keys()
            if step in edit.results and edit.results[step] == self._noise.results.get(step)
        }

    def _forked(self, state: ContextState, last: int) -> EditProposal | None:
        """Where a plan was committed just now, in the model's last turn, and there is anything to leave behind."""
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
    How EXECUTE begins: the card, what was learned, and the plan last (P-073 to P-076).

    `summary` is YAML; where it is empty, one is made by rules from what was done. However long the exploration was,
    the size is that of the three.
    """
    if not state.turns:
        return ()
    card = state.turns[0].model_copy(update={"parts": state.turns[0].parts[:1]})
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
    The model's last answer and what came of it stay as they are: nobody has seen that yet. The head ends with a turn of
    the user's side, since an answer that begins with a signed thought takes no text before it.
    """
    edit = cut(state, last, *told)
    return edit.model_copy(update={"head": (summary, *edit.head)})


def _is_shorter(state: ContextState, edit: Edit) -> bool:
    """Than what is shown now."""
    return state.shown_sizes[0] + lengths(edit.head) + sum(state.sizes[edit.cut :]) < state.shown_characters


def _summed_up(text: str) -> Turn:
    return Turn(role="assistant", parts=(Text(text=f"Summary of the conversation so far:\n\n{text.strip()}\n"),))
