"""
A conversation of 33 turns with the sizes of a published one. It is synthetic, because the log itself was never
published.

Published: about 69,000 tokens at the end, at four characters each. 31,000 are in reads of files that are written at
some time, and 16,000 in earlier runs of one command. 15,000 are in the texts of written files, and 7,000 in the rest.

Reads are in turns 1 to 13, 19 and 21. Tests are in 6, 11, 16, 17 and 25 to 33. Writes are in 14, 15, 20, 22, 23 and 24.
The sizes of the six files are published as well.

Not published, and chosen here: which file is read when. Each of the six is read twice in the exploration, which gives
the published 31,000. The session file is read once more before it is written (19). The test file is written in 14 and
read in 21, and is live, although the published table counts it as noise.

The written texts have the published proportions and are 18% larger, to reach 15,000 tokens. They are in the calls, and
the answers are receipts. The rest is the card, a file that is never written, the last test run and the model's texts,
with lengths that give the total.

So the figures hold for this one shape, and say nothing about savings elsewhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from forgepool.workers.context.edits.state import ContextState, Moment
from forgepool.workers.context.profiles.pace import Pace
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.transcript.usage import USUAL, Gauge, length, lengths, turn_length
from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.shell.purpose.file_access import Action, Read, Write
from forgepool.workers.tools.files.text_file import receipt

TEST = "pytest -v --tb=short"
SIZES = {
    "tests/test_auth.py": 8_934,
    "pace/auth.py": 5_258,
    "pace/session.py": 12_595,
    "pace/api.py": 16_193,
    "pace/cli.py": 5_187,
    "pace/errors.py": 2_599,
}
"""Files in the order in which they are written."""
WRITES = dict(zip((14, 15, 20, 22, 23, 24), SIZES, strict=True))
READS = dict(zip(range(1, 13), (*SIZES, *reversed(SIZES)), strict=True)) | {
    13: "pace/config.py",
    19: "pace/session.py",
    21: "tests/test_auth.py",
}
TESTS = (6, 11, 16, 17, *range(25, 34))
LAST = 33
_CARD = 11_400
_CONFIG = 1_200
_RUN = 5_333
_SAID = 250
_LARGER = 60_000 / 50_766
PLAN = "1. Let sessions expire. 2. Refuse an expired one in the API, with its own error. 3. Say so in the CLI. " * 12


@dataclass(slots=True, kw_only=True)
class Talk:
    """A conversation built with its deeds, one tool call at a time."""

    turns: list[Turn] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)

    def hear(self, text: str) -> None:
        self.turns.append(user(Text(text=text)))

    def do(self, said: str, *acts: "Act") -> None:
        """Add a turn of the model and the answers to its calls."""
        place, parts, answers = len(self.turns), [Text(text=said)] if said else [], []
        calls: list[Part] = [*parts]
        for act in acts:
            step = len(self.deeds) + 1
            call = ToolCall(id=f"c{step}", name=act.tool, arguments=dict(act.arguments))
            result = ToolResult(call_id=call.id, text=act.answer, is_error=act.failed)
            calls.append(call)
            answers.append(result)
            self.deeds.append(act.deed(step, place, call, result))
        self.turns.append(Turn(role="assistant", parts=tuple(calls)))
        if answers:
            self.turns.append(user(*answers))

    def state(self, edit: Edit | None = None, *, turns: int | None = None, plan: str = "") -> ContextState:
        """Return the state that a profile is shown after this many turns."""
        until = self.turns[: len(self.turns) if turns is None else turns]
        edit = edit or Edit()
        return ContextState(
            turns=until,
            deeds=[deed for deed in self.deeds if deed.turn + 1 < len(until)],
            edit=edit,
            rebuilds=0,
            sizes=[turn_length(turn) for turn in until],
            shown_sizes=[turn_length(turn) for turn in show_turns(until, edit)],
            gauge=Gauge(window_tokens=200_000, fixed_characters=0),
            plan=plan,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A call, its answer, and what is known about both."""

    tool: str
    arguments: dict[str, str]
    answer: str
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    failed: bool = False
    does: frozenset[Action] = frozenset()
    born: str = ""
    """The full answer, if it was shortened when it arrived."""

    def deed(self, step: int, place: int, call: ToolCall, result: ToolResult) -> Deed:
        command = self.arguments.get("command", "")
        return Deed(
            step=step,
            turn=place,
            call=call,
            result=result,
            whole=self.born or self.answer,
            action="write" if self.writes else "read" if self.reads else "test" if "pytest" in command else "run",
            does=self.does,
            reads=self.reads,
            writes=self.writes,
            failed=self.failed,
            command=command,
        )


def text(characters: int, mark: str) -> str:
    """Return this many characters that look like lines of a file or output, the same each time."""
    lines = (f"    {mark} line {number}: return self.values[{number * 7 % 91}]\n" for number in range(characters))
    found = ""
    for line in lines:
        if len(found) >= characters:
            break
        found += line
    return found[:characters]


def read(path: str, characters: int, mark: str = "", *, first: int | None = None, last: int | None = None) -> Act:
    shown = Read(path=path, first=first, last=last)
    return Act(tool="read_file", arguments={"path": path}, answer=text(characters, mark or path), reads=(shown,))


def write(path: str, characters: int, turn: int) -> Act:
    body = text(characters, f"{path} as of {turn}")
    arguments = {"path": path, "content": body}
    written = Write(path=path, how="create", characters=characters)
    return Act(
        tool="write_file", arguments=arguments, answer=receipt(len(body.encode()), path, turn), writes=(written,)
    )


def run(command: str, characters: int, mark: str, *, failed: bool = False) -> Act:
    answer = f"[exit status {int(failed)}, 0.9 s]\n{text(characters, mark)}"[:characters]
    return Act(tool="bash", arguments={"command": command}, answer=answer, failed=failed)


def day23() -> Talk:
    talk = Talk()
    talk.hear(text(_CARD, "# Sessions expire: acceptance criterion"))
    for turn in range(1, LAST + 1):
        talk.do(text(_SAID, f"Turn {turn}: the next thing to look at is"), *_acts(turn))
    return talk


def _acts(turn: int) -> Iterator[Act]:
    if turn in READS:
        mark = f"{READS[turn]} as of 14" if turn == 21 else ""
        yield read(READS[turn], SIZES.get(READS[turn], _CONFIG), mark)
    if turn in WRITES:
        yield write(WRITES[turn], round(SIZES[WRITES[turn]] * _LARGER), turn)
    if turn in TESTS:
        yield run(TEST, _RUN, f"test run of turn {turn}", failed=turn < LAST)
    if turn == 13:
        yield Act(tool="commit_plan", arguments={"plan": PLAN}, answer="OK: the plan is committed")
    if turn == 18:
        yield Act(tool="confirm_red_phase", arguments={"command": TEST}, answer="OK: confirmed, the test fails")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Counts of tokens, at four characters each."""

    name: str
    final: int
    """Tokens that a further call would be sent."""
    peak: int
    at_14: int
    """Tokens that call 14 was sent, before anything was written."""
    input: int
    """Tokens of all 33 calls, as paid without a cache."""
    written: int
    """The tokens among them that a perfect prefix cache did not have."""

    @property
    def units(self) -> float:
        """Return the cost with a cache, in tokens of fresh input: 1.25 to write and 0.1 to read."""
        return 1.25 * self.written + 0.1 * (self.input - self.written)

    def __str__(self) -> str:
        return (
            f"{self.name:<22} final={self.final:>6} peak={self.peak:>6} at_14={self.at_14:>6} "
            f"no cache={self.input:>8} written={self.written:>7} cached={self.units:>8.0f}"
        )


STRATEGIES: tuple[tuple[str, Pace | None], ...] = (
    ("unmanaged", None),
    ("as coded", Pace(order_aware=False, write_bodies=False)),
    ("order-aware", Pace(write_bodies=False)),
    ("+ bodies", Pace()),
    ("+ superseded reads", Pace(superseded_reads=True)),
    ("+ batched above 15,000", Pace(superseded_reads=True, batch_tokens=15_000)),
    ("+ batched above 25,000", Pace(superseded_reads=True, batch_tokens=25_000)),
    ("+ batched above 40,000", Pace(superseded_reads=True, batch_tokens=40_000)),
)
"""From `order-aware` on, each includes all before it; of the batches only one limit."""


def rows() -> list[Row]:
    """Return a row for each strategy; none asks a model."""
    talk = day23()
    return [row(name, profile, talk) for name, profile in STRATEGIES]


def drivers(talk: Talk) -> dict[str, int]:
    """Return the tokens of each part named in the published table."""
    last = max(deed.step for deed in talk.deeds if deed.command == TEST)
    reads = sum(len(deed.result.text) for deed in talk.deeds if {read.path for read in deed.reads} & SIZES.keys())
    runs = sum(len(deed.result.text) for deed in talk.deeds if deed.command == TEST and deed.step < last)
    bodies = sum(write.characters or 0 for deed in talk.deeds for write in deed.writes)
    found = {"reads": reads, "runs": runs, "bodies": bodies}
    found["rest"] = lengths(talk.turns) - sum(found.values())
    return {name: round(size / USUAL) for name, size in found.items()}


def row(name: str, profile: Pace | None, talk: Talk) -> Row:
    edit, before, sizes, written = Edit(), list[Part](), list[int](), 0
    for turns in range(1, len(talk.turns) + 1, 2):
        edit = after(profile, talk.state(edit, turns=turns))
        view = [part for turn in show_turns(talk.turns[:turns], edit) for part in turn.parts]
        sizes.append(sum(map(length, view)))
        if turns < len(talk.turns):
            written += sizes[-1] - _common(before, view)
        before = view
    *asked, final = (round(size / USUAL) for size in sizes)
    written = round(written / USUAL)
    return Row(name=name, final=final, peak=max(asked), at_14=asked[13], input=sum(asked), written=written)


def after(profile: Pace | None, state: ContextState) -> Edit:
    """Return the edit with which the model is asked next."""
    proposal = profile.propose(state, Moment(cause="call")) if profile else None
    return proposal.edit if proposal else state.edit


def final(profile: Pace, talk: Talk) -> Edit:
    """Return the edit after the whole conversation, with the profile asked before each call."""
    edit = Edit()
    for turns in range(1, len(talk.turns) + 1, 2):
        edit = after(profile, talk.state(edit, turns=turns))
    return edit


def tokens(turns: Sequence[Turn]) -> int:
    return round(lengths(turns) / USUAL)


def _common(one: Sequence[Part], other: Sequence[Part]) -> int:
    """Return the number of characters of the common beginning."""
    found = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        found += length(mine)
    return found


if __name__ == "__main__":
    print(drivers(day23()), *rows(), sep="\n")
