"""
The actions of an agent, exchange by exchange: what it read, wrote, searched and ran, and how that ended.

They follow from the call and its result alone. `calls` knows the tools, `workers.shell` the commands. Success is an
exit status or the tool's own statement, never a word of the output: "0 failed" is no failure.
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
    """
    Return a command's exit status as its tool reports it, a signal as a negative number; None where it does not.

    Only the beginning and the end of a result count, since a program may print the same words anywhere.
    """
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
"""The first words of foreign editor tools that view a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    step: int
    """The number of the call in the conversation, counted from 1."""
    turn: int
    """The index of the turn that holds the call."""
    call: ToolCall
    result: ToolResult
    """The result as it entered, after the birth transforms."""
    whole: str
    """The text of the result before the birth transforms."""
    action: Action
    does: frozenset[Action] = frozenset()
    """The actions of all parts of a command: one that edits a file and runs tests is a `write`, and does both."""
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    failed: bool = False
    """
    The exit status or the tool reports a failure.

    Failed calls have no reads and writes, except commands of several parts: any of these may have succeeded.
    """
    status: int | None = None
    """The exit status of a command, where the tool reports it."""
    command: str = ""
    """The text of a shell command, without what it feeds to a file."""
    said: str = ""
    """The model's text before the first call of a turn; empty for the other calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    step: int
    turn: int
    call: ToolCall
    actions: CommandActions
    said: str


class Deeds:
    """
    The growing list of a conversation's deeds.

    Steps count every call of every turn, as in an `Edit`. Once each call of a turn has its result,
    `all[n].step == n + 1`.
    """

    def __init__(self, root: str = "", tests: Sequence[str] = ()) -> None:
        self._root = root
        self._tests = tuple(tests)
        self._all: list[Deed] = []
        self._waiting: dict[str, _Call] = {}
        self._calls = 0
        self._texts: dict[str, str] = {}
        """The texts of files written whole, by path, since a later command may run them."""
        self._opened = ""

    @property
    def all(self) -> Sequence[Deed]:
        """All deeds, oldest first."""
        return self._all

    def take_calls(self, place: int, turn: Turn) -> None:
        """Take a turn of the model. Calls of earlier turns can no longer be answered."""
        self._waiting = {}
        for number, call in enumerate(turn.calls):
            self._calls += 1
            actions = read_tool_call(call, root=self._root, tests=self._tests)
            said = "" if number else turn.text
            self._waiting[call.id] = _Call(step=self._calls, turn=place, call=call, actions=actions, said=said)

    def take_result(self, result: ToolResult, whole: str = "") -> Deed | None:
        """
        Take a result, and its whole text where a birth transform changed it. Return None where no call waits for it.
        """
        waiting = self._waiting.pop(result.call_id, None)
        if waiting is None:
            return None
        deed = self._deed(waiting, result, whole or result.text)
        at = len(self._all)
        while at and self._all[at - 1].step > deed.step:
            at -= 1
        self._all.insert(at, deed)
        return deed

    def _deed(self, waiting: _Call, result: ToolResult, whole: str) -> Deed:
        actions = waiting.actions
        status = exit_status(whole, is_error=result.is_error) if actions.bare else None
        failed = (result.is_error or bool(status)) and not (actions.asks and status == 1)
        undone = failed and (actions.alone or not actions.bare)
        is_folder = actions.action == "read" and whole.startswith(_FOLDER_SHOWN)
        reads = () if undone or is_folder else self._reads(actions)
        writes = () if undone else self._writes(actions)
        if not undone:
            self._keep(actions)
        return Deed(
            step=waiting.step,
            turn=waiting.turn,
            call=waiting.call,
            result=result,
            whole=whole,
            action="search" if is_folder else "write" if writes and actions.action == "run" else actions.action,
            does=actions.does,
            reads=reads,
            writes=writes,
            failed=failed,
            status=status,
            command=actions.bare,
            said=waiting.said,
        )

    def _keep(self, actions: CommandActions) -> None:
        for each in actions.written:
            before = self._texts.get(each.path, "") if each.kind == "more" else ""
            self._texts[each.path] = before + each.text

    def _reads(self, actions: CommandActions) -> tuple[Read, ...]:
        """Return the paths read, including the open file where the tool shows it."""
        if actions.action == "read" and len(actions.reads) == 1:
            self._opened = actions.reads[0].path
        if actions.window == "read" and self._opened:
            return (*actions.reads, Read(path=self._opened, part=True))
        return actions.reads

    def _writes(self, actions: CommandActions) -> tuple[Write, ...]:
        """
        Return the paths written, including those written by scripts that the conversation wrote earlier and runs now.
        """
        if actions.action == "write" and len(actions.writes) == 1 and actions.writes[0].how == "create":
            self._opened = actions.writes[0].path
        own = {each.path for each in actions.written}
        earlier = [each for each in actions.carried if each.path not in own]
        found = with_carried(actions.writes, earlier, self._texts, self._root)
        if actions.window == "write" and self._opened:
            found.append(Write(path=self._opened, how="edit"))
        return tuple(dict.fromkeys(found))


def deeds(turns: Iterable[Turn], *, root: str = "", tests: Sequence[str] = ()) -> list[Deed]:
    """Return the deeds of a whole conversation."""
    fold = Deeds(root, tests)
    for place, turn in enumerate(turns):
        if turn.role == "assistant":
            fold.take_calls(place, turn)
        else:
            for result in turn.results:
                fold.take_result(result)
    return list(fold.all)
