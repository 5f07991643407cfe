"""
What happened, put into the slots of a working state, by rule.

Paths come from the deeds and never from arguments; what failed is told by how it ended and never by a word in its
output ("0 failed"); a call and its result are one deed and cannot be mixed up with another's.
"""

import re
from collections.abc import Mapping, Sequence

from forgepool.workers.context.edits.facts import by_person
from forgepool.workers.context.history.actions import Deed, Write
from forgepool.workers.context.profiles.shared.outlines import beginning, count_lines, ends, error_lines
from forgepool.workers.context.profiles.soulforge.sentences import remarks
from forgepool.workers.context.profiles.soulforge.working_state import (
    TOOL_RESULTS,
    PlanStep,
    Status,
    WorkingState,
    remember,
)
from forgepool.workers.context.transcript.exchanges import text_argument
from forgepool.workers.llm.messages import Text, Turn

_EDIT_CHARACTERS = 300
_COMMAND_CHARACTERS = 200
_ACTION_CHARACTERS = 120
_RESULT_CHARACTERS = 800
_ERROR_RESULT_CHARACTERS = 1_500
_REQUIREMENT_CHARACTERS = 300
_SHORTEST_REQUIREMENT = 5
_OLD = ("old", "old_string", "old_str", "oldString")
_NEW = ("new", "new_string", "new_str", "newString")
_TOLD_BY = ("command", "pattern", "query", "symbol", "name", "path", "file_path")
_TO_DO = frozenset({"todowrite", "todo_write", "update_plan", "write_todos"})
_STATUS: Mapping[str, Status] = {
    "completed": "done",
    "done": "done",
    "in_progress": "active",
    "active": "active",
    "cancelled": "skipped",
    "skipped": "skipped",
}
_SETTING_UP = re.compile(
    r"(?:^|[;&|]\s*)(?:sudo\s+)?(?:uname|which|command -v|(?:\S*/)?(?:python3?|node|go|cargo|rustc|java|ruby|git)\s+"
    r"(?:--version|-V|version)\b|(?:python3? -m )?pip3?\s+install|uv\s+(?:sync|add|pip install)|poetry\s+install"
    r"|npm\s+(?:i|install|ci)\b|(?:yarn|pnpm)\s+install|apt(?:-get)?\s+install)"
)


def extract_state(
    turns: Sequence[Turn], deeds: Sequence[Deed], *, plan: str = "", most_tool_results: int = TOOL_RESULTS
) -> WorkingState:
    """The state after these turns, the first of which holds the task card, and these of their deeds."""
    state = WorkingState(most_tool_results=most_tool_results, plan=plan)
    for turn in turns[1:]:
        take_turn(state, turn)
    for deed in deeds:
        take_deed(state, deed)
    return state


def take_turn(state: WorkingState, turn: Turn) -> None:
    """A turn after the first: what a person says in it is required, what the model says is remarked."""
    if turn.role == "assistant":
        _remark(state, turn.text)
        return
    for part in turn.parts:
        if not isinstance(part, Text) or not by_person(part.text):
            continue
        if len(said := part.text.strip()) >= _SHORTEST_REQUIREMENT:
            remember(state.requirements, beginning(said, _REQUIREMENT_CHARACTERS))


def _remark(state: WorkingState, text: str) -> None:
    found = remarks(text)
    for decision in found.decisions:
        remember(state.decisions, decision)
    for discovery in found.discoveries:
        remember(state.discoveries, discovery)
    if found.note:
        remember(state.notes, found.note)


def take_deed(state: WorkingState, deed: Deed) -> None:
    if deed.call.name.lower() in _TO_DO:
        if not deed.failed:
            state.steps = _steps(deed.call.arguments)
        return
    _touch(state, deed)
    subject = _subject(deed)
    if deed.failed:
        status = "" if deed.status is None else f"exit status {deed.status}; "
        state.fail(subject, f"{status}{error_lines(deed.whole)}")
    else:
        state.succeed(subject)
        _surroundings(state, deed)
    if (told := _result(deed)) is not None:
        state.report(f"**{deed.call.name}** (step {deed.step}) {subject} → {told}")


def _subject(deed: Deed) -> str:
    if deed.command:
        return f"ran: {beginning(deed.command.strip(), _COMMAND_CHARACTERS)}"
    paths = [*(read.path for read in deed.reads), *(write.path for write in deed.writes)]
    named = (text_argument(deed.call.arguments, key) for key in _TOLD_BY)
    about = next(filter(None, (*paths, *named)), "")
    return f"{deed.call.name}: {beginning(about, _ACTION_CHARACTERS)}".rstrip(": ")


def _touch(state: WorkingState, deed: Deed) -> None:
    """What failed has no reads and writes, save a command of several parts: some may have worked, and it is told so."""
    for read in deed.reads:
        note = state.touch(read.path)
        note.add("read")
        if not deed.failed:
            note.text = deed.whole
    for write in deed.writes:
        note = state.touch(write.path)
        note.written = True
        note.add(*_written(write, deed))


def _written(write: Write, deed: Deed) -> tuple[str, str]:
    """The kind of an action, and its detail."""
    match write.how:
        case "create":
            lines = len(text_argument(deed.call.arguments, "content").splitlines())
            return "full write", f"({lines} lines)" if lines else ""
        case "edit":
            return "edited", _edit(deed.call.arguments)
        case "shell":
            return ("perhaps changed", "by a command that failed") if deed.failed else ("changed", "by a command")
        case "delete":
            return "deleted", ""
        case "move":
            return "moved", ""


def _edit(arguments: Mapping[str, object]) -> str:
    old = next((text for key in _OLD if (text := text_argument(arguments, key))), None)
    new = next((text for key in _NEW if (text := text_argument(arguments, key))), "")
    if old is not None:
        return f'"{beginning(old, _EDIT_CHARACTERS)}" → "{beginning(new, _EDIT_CHARACTERS)}"'
    line = arguments.get("line", arguments.get("insert_line"))
    return f"at line {line}" if isinstance(line, int) else ""


def _result(deed: Deed) -> str | None:
    """What is told of a result; None where the files or nothing at all tell it."""
    if deed.action == "end" or (deed.reads and deed.action == "read" and not deed.failed):
        return None
    if deed.action == "write" and not deed.command:
        return None
    if deed.failed:
        return ends(deed.whole, _ERROR_RESULT_CHARACTERS)
    return count_lines(deed.whole) if deed.action == "search" else ends(deed.whole, _RESULT_CHARACTERS)


def _surroundings(state: WorkingState, deed: Deed) -> None:
    if deed.command and _SETTING_UP.search(deed.command):
        last = next((line for line in reversed(deed.whole.splitlines()) if line.strip()), "")
        remember(
            state.environment, f"{beginning(deed.command, _ACTION_CHARACTERS)} → {beginning(last, _ACTION_CHARACTERS)}"
        )


def _steps(arguments: Mapping[str, object]) -> tuple[PlanStep, ...]:
    """Of the lists that agents keep of what is to be done, as their tools take them."""
    items = next((value for key in ("todos", "plan") if isinstance(value := arguments.get(key), list)), [])
    found = []
    for item in items:
        if isinstance(item, dict) and (label := text_argument(item, "content") or text_argument(item, "step")):
            status = _STATUS.get(text_argument(item, "status"), "pending")
            found.append(PlanStep(label=beginning(label, _REQUIREMENT_CHARACTERS), status=status))
    return tuple(found[-25:])
