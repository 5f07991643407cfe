"""
What an agent did, exchange by exchange: what was read, written, searched and run, and how it ended.

By rules and from the call and its result alone. `calls` knows the tools, `commands` shell commands, by the policy's own
grammar. Success is an exit status or a tool's own word, never a word in the output: "0 failed" is no failure.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forgepool.workers.context.transcript.calls import read_tool_call
from forgepool.workers.llm.messages import ToolCall, ToolResult, Turn
from forgepool.workers.shell.purpose.commands import CommandActions, with_carried
from forgepool.workers.shell.purpose.file_access import Action, Read, Write

_BEGINNING = re.compile(
    r"\s*(?:\[exit status (-?\d+)[,\]]|<returncode>(-?\d+)</returncode>|Exit code: (-?\d+)(?:\n|$)"
    r"|(?:Chunk ID: [^\n]*\n)?(?:Wall time: [^\n]*\n)?Process exited with code (-?\d+))"
)
_SIGNAL = re.compile(r"\[ended by signal (\d+),")
_ERROR = re.compile(r"(?:Error: )?Exit code (-?\d+)(?:\n|$)")
_END = re.compile(r"^\[(?:Command finished with|The command completed with) exit code (-?\d+)\.?\]", re.MULTILINE)
_FIELD = re.compile(r'"exit_code" ?: ?(-?\d+)')
_NEAR_END = 600


def exit_status(text: str, *, is_error: bool = False) -> int | None:
    """None where none is told; a signal's number is negative."""
    if found := _BEGINNING.match(text):
        return int(next(group for group in found.groups() if group is not None))
    if found := _SIGNAL.match(text):
        return -int(found[1])
    if is_error and (found := _ERROR.match(text)):
        return int(found[1])
    if text.startswith("{"):
        fields = _FIELD.findall(text[-_NEAR_END:])
        return int(fields[-1]) if fields else None
    ends = _END.findall(text[-_NEAR_END:])
    return int(ends[-1]) if ends else None


_FOLDER_SHOWN = "Here's the files and directories"
"""How the editor tools of others begin, where the path that is viewed is a folder's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    step: int
    """The number of the call in the conversation, from 1."""
    turn: int
    """The place of the turn that holds the call."""
    call: ToolCall
    result: ToolResult
    """As it entered: after the birth transforms."""
    whole: str
    """Its text before them."""
    action: Action
    does: frozenset[Action] = frozenset()
    """Of a command, what each of its parts is for: one that edits a file and runs tests is a write, and does both."""
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    failed: bool = False
    """
    By exit status, or because the tool said so. What failed has no reads and writes, save a command of several parts:
    which of them failed is not known, so it has those of all.
    """
    status: int | None = None
    """The exit status of a command, where one is told."""
    command: str = ""
    """Of a shell command, its text, without what it feeds to a file."""
    said: str = ""
    """What the model said with the first call of its turn; empty for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    step: int
    turn: int
    call: ToolCall
    told: CommandActions
    said: str


class Deeds:
    """
    A conversation's deeds, as it goes on.

    Steps count every call of every turn, as an `Edit` does: where each has its one result, `all[n].step == n + 1` once
    a turn's calls are all answered, in whichever order.
    """

    def __init__(self, root: str = "", tests: Sequence[str] = ()) -> None:
        self._root = root
        self._tests = tuple(tests)
        self._all: list[Deed] = []
        self._waiting: dict[str, _Call] = {}
        self._calls = 0
        self._texts: dict[str, str] = {}
        """Of files that were written whole, by path: they may be run."""
        self._opened = ""

    @property
    def all(self) -> Sequence[Deed]:
        """Oldest first."""
        return self._all

    def take_calls(self, place: int, turn: Turn) -> None:
        """A turn of the model's, at that place in the conversation. Calls before it can no longer be answered."""
        self._waiting = {}
        for number, call in enumerate(turn.calls):
            self._calls += 1
            told = read_tool_call(call, root=self._root, tests=self._tests)
            said = "" if number else turn.text
            self._waiting[call.id] = _Call(step=self._calls, turn=place, call=call, told=told, said=said)

    def take_result(self, result: ToolResult, whole: str = "") -> Deed | None:
        """`whole` is the result's text before the birth transforms, where they changed it. None: nobody asked."""
        one = self._waiting.pop(result.call_id, None)
        if one is None:
            return None
        deed = self._deed(one, result, whole or result.text)
        at = len(self._all)
        while at and self._all[at - 1].step > deed.step:
            at -= 1
        self._all.insert(at, deed)
        return deed

    def _deed(self, one: _Call, result: ToolResult, whole: str) -> Deed:
        told = one.told
        status = exit_status(whole, is_error=result.is_error) if told.bare else None
        failed = (result.is_error or bool(status)) and not (told.asks and status == 1)
        undone = failed and (told.alone or not told.bare)
        is_folder = told.action == "read" and whole.startswith(_FOLDER_SHOWN)
        reads = () if undone or is_folder else self._reads(told)
        writes = () if undone else self._writes(told)
        if not undone:
            self._keep(told)
        return Deed(
            step=one.step,
            turn=one.turn,
            call=one.call,
            result=result,
            whole=whole,
            action="search" if is_folder else "write" if writes and told.action == "run" else told.action,
            does=told.does,
            reads=reads,
            writes=writes,
            failed=failed,
            status=status,
            command=told.bare,
            said=one.said,
        )

    def _keep(self, told: CommandActions) -> None:
        for each in told.written:
            before = self._texts.get(each.path, "") if each.kind == "more" else ""
            self._texts[each.path] = before + each.text

    def _reads(self, told: CommandActions) -> tuple[Read, ...]:
        """And the file that was opened last, where the tool shows that."""
        if told.action == "read" and len(told.reads) == 1:
            self._opened = told.reads[0].path
        if told.window == "read" and self._opened:
            return (*told.reads, Read(path=self._opened, part=True))
        return told.reads

    def _writes(self, told: CommandActions) -> tuple[Write, ...]:
        """And what scripts do that were written earlier in the conversation and are run now."""
        if told.action == "write" and len(told.writes) == 1 and told.writes[0].how == "create":
            self._opened = told.writes[0].path
        own = {each.path for each in told.written}
        earlier = [each for each in told.carried if each.path not in own]
        found = with_carried(told.writes, earlier, self._texts, self._root)
        if told.window == "write" and self._opened:
            found.append(Write(path=self._opened, how="edit"))
        return tuple(dict.fromkeys(found))


def deeds(turns: Iterable[Turn], *, root: str = "", tests: Sequence[str] = ()) -> list[Deed]:
    """Of a whole conversation, whose results stand in the user's turns."""
    fold = Deeds(root, tests)
    for place, turn in enumerate(turns):
        if turn.role == "assistant":
            fold.take_calls(place, turn)
        else:
            for result in turn.results:
                fold.take_result(result)
    return list(fold.all)
