"""
What a tool's call asks for, from its name and arguments: our tools, and those of the agents whose recordings are read.

Names are compared without capitals and marks: `Read`, `read_file` and `readFile` are three spellings of two names.
"""

import re
import shlex
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from forgepool.workers.context.transcript.exchanges import text_argument
from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.shell.purpose.commands import Carried, CommandActions, place_path, read_command
from forgepool.workers.shell.purpose.file_access import How, Read, Write, patch_writes
from forgepool.workers.shell.purpose.programs import Window

_PATHS = ("path", "file_path", "file", "filePath", "filename", "target_file", "notebook_path", "absolute_path")
_TEXTS = ("content", "contents", "file_text", "file_content", "text", "new", "new_string", "new_str", "new_source")
_COMMANDS = ("command", "cmd", "script")
_FOLDERS = ("workdir", "cwd", "working_directory")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHELLS = _names(
    """
    bash bashbackground shell localshell containerexec exec execbash executebash execcommand runcommand runterminalcmd
    runshellcommand executecommand terminal
    """
)
_READERS = _names(
    """
    read readfile view viewfile cat open openfile notebookread viewcode goto scrollup scrolldown
    """
)
_CREATORS = _names(
    """
    write writefile writetofile create createfile createnewfile savefile
    """
)
_EDITORS = _names(
    """
    edit editfile multiedit notebookedit strreplace replaceinfile searchreplace replace insert insertintofile
    applydiff renamesymbol editnotebook
    """
)
_SEARCHERS = _names(
    """
    grep glob ls list listdir listdirectory listfiles findsymbol findreferences searchfile searchdir findfile search
    searchfiles grepsearch filesearch codebasesearch searchcode searchfilecontent
    websearch webfetch toolsearch
    """
)
_BUILDERS = frozenset(["diagnostics", "getdiagnostics"])
_TESTERS = frozenset(["confirmredphase", "runtests", "test"])
_ENDERS = _names(
    """
    commitplan finish submit ask compact think todowrite todoread updateplan exitplanmode enterplanmode
    askuserquestion taskcompletion attemptcompletion updatetodolist
    """
)
_WINDOWED = frozenset(["edit", "goto", "scrollup", "scrolldown"])
_DEEDS_OF_EDITORS: Mapping[str, How] = {
    "create": "create", "write": "create", "str_replace": "edit", "insert": "edit", "undo_edit": "edit", "edit": "edit"
}  # fmt: skip


def read_tool_call(call: ToolCall, *, root: str = "", tests: Sequence[str] = ()) -> CommandActions:
    """As of a command; `bare` is empty for what is none."""
    name, arguments = re.sub(r"[^a-z]", "", call.name.casefold()), call.arguments
    if name in _SHELLS and (command := command_of(arguments)):
        return _of_command(command, arguments, root, tests)
    verb = text_argument(arguments, "command")
    if verb == "view" or verb in _DEEDS_OF_EDITORS:
        return _edited(verb, arguments, root)
    if name == "applypatch":
        said = "\n".join(value for value in arguments.values() if isinstance(value, str))
        return CommandActions(action="write", writes=_placed(patch_writes(said), root))
    if name in _READERS:
        return CommandActions(action="read", reads=_read(arguments, root), window=_window(name, arguments, "read"))
    if name in _CREATORS:
        return _created(arguments, root)
    if name in _EDITORS:
        return CommandActions(
            action="write", writes=_written(arguments, root, "edit"), window=_window(name, arguments, "write")
        )
    return _by_name(name)


def command_of(arguments: Mapping[str, JsonValue]) -> str:
    """A shell's script, given as such or as words; `bash -lc SCRIPT` is the script."""
    for key in _COMMANDS:
        match arguments.get(key):
            case str(text):
                return text
            case [str(shell), str(option), str(text)] if re.fullmatch(
                r"(?:.*/)?(?:ba|z|da)?sh -\w*c", f"{shell} {option}"
            ):
                return text
            case [*words] if words and all(isinstance(word, str) for word in words):
                return shlex.join(map(str, words))
    return ""


def _of_command(command: str, arguments: Mapping[str, JsonValue], root: str, tests: Sequence[str]) -> CommandActions:
    return read_command(command, root=root, tests=tests, folder=_first(arguments, _FOLDERS))


def _by_name(name: str) -> CommandActions:
    if name in _SEARCHERS:
        return CommandActions(action="search")
    if name in _TESTERS:
        return CommandActions(action="test")
    if name in _BUILDERS:
        return CommandActions(action="build")
    return CommandActions(action="end" if name in _ENDERS else "run")


def _edited(verb: str, arguments: Mapping[str, JsonValue], root: str) -> CommandActions:
    if verb == "view":
        return CommandActions(action="read", reads=_read(arguments, root))
    how = _DEEDS_OF_EDITORS[verb]
    return (
        _created(arguments, root)
        if how == "create"
        else CommandActions(action="write", writes=_written(arguments, root, how))
    )


def _created(arguments: Mapping[str, JsonValue], root: str) -> CommandActions:
    text = _first(arguments, _TEXTS)
    writes = _written(arguments, root, "create")
    return CommandActions(
        action="write",
        writes=writes,
        written=tuple(Carried(kind="new", path=write.path, text=text) for write in writes),
    )


def _first(arguments: Mapping[str, JsonValue], keys: Sequence[str]) -> str:
    return next((text for key in keys if (text := text_argument(arguments, key))), "")


def _paths(arguments: Mapping[str, JsonValue], root: str) -> tuple[str, ...]:
    path = _first(arguments, _PATHS)
    return (place_path(path, root),) if path.strip() else ()


def _read(arguments: Mapping[str, JsonValue], root: str) -> tuple[Read, ...]:
    first, last = _lines(arguments)
    return tuple(Read(path=path, first=first, last=last) for path in _paths(arguments, root))


def _lines(arguments: Mapping[str, JsonValue]) -> tuple[int | None, int | None]:
    """The lines asked for, by whichever of the usual ways."""
    match arguments.get("view_range"):
        case [int(start), int(end)]:
            return start, end if end > 0 else None
    said = _number(arguments, "start", "offset", "start_line", "startLine", "start_line_one_indexed")
    last = _number(arguments, "end", "end_line", "endLine", "end_line_one_indexed_inclusive")
    many = _number(arguments, "lines", "limit", "num_lines")
    if said is None and last is None and many is None:
        return None, None
    first = max(said or 1, 1)
    return first, first + many - 1 if many else last


def _number(arguments: Mapping[str, JsonValue], *keys: str) -> int | None:
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
    return None


def _written(arguments: Mapping[str, JsonValue], root: str, how: How) -> tuple[Write, ...]:
    text = _first(arguments, _TEXTS)
    known = len(text) if any(key in arguments for key in _TEXTS) else None
    return tuple(Write(path=path, how=how, characters=known) for path in _paths(arguments, root))


def _placed(writes: Sequence[Write], root: str) -> tuple[Write, ...]:
    return tuple(Write(path=place_path(write.path, root), how=write.how) for write in writes)


def _window(name: str, arguments: Mapping[str, JsonValue], what: Window) -> Window:
    return what if name in _WINDOWED and not _first(arguments, _PATHS) else ""
