"""The editors that SWE-agent gives to agents as commands: one works on the file that was opened last."""

import re
from typing import Literal

from forgepool.workers.shell.purpose.file_access import How, Read, Write
from forgepool.workers.shell.purpose.invocations import Invocation

Window = Literal["", "read", "write"]
_EDITED = re.compile(r"\s*(?:edit|insert)[ \t]+(?:\d+(?::\d+)?[ \t]*\n|\d+:\d+[ \t]*<<|<<)")
_HOW: dict[str, How] = {"create": "create", "str_replace": "edit", "insert": "edit", "undo_edit": "edit"}


def edits_window(command: str) -> bool:
    """`edit 10:12`, the new lines, `end_of_edit`: no shell's language."""
    return _EDITED.match(command) is not None


def window(one: Invocation) -> Window:
    if one.program in ("goto", "scroll_up", "scroll_down"):
        return "read"
    return "write" if one.program == "edit" and one.arguments else ""


def find_shown_files(one: Invocation) -> tuple[Read, ...]:
    """Of `open FILE [LINE]` and `str_replace_editor view FILE [--view_range FROM TO]`."""
    texts = [word.text for word in one.arguments]
    if one.program == "open" and one.arguments:
        return tuple(Read(path=name, part=True) for name in one.names(one.arguments[0]))
    if one.program == "str_replace_editor" and texts[:1] == ["view"] and len(texts) > 1:
        span = texts[texts.index("--view_range") + 1 :][:2] if "--view_range" in texts else []
        first, last = (int(text) if re.fullmatch(r"\d+", text) else None for text in (*span, "", "")[:2])
        return tuple(Read(path=name, first=first, last=last) for name in one.names(one.arguments[1]))
    return ()


def find_changed_files(one: Invocation) -> tuple[Write, ...]:
    texts = [word.text for word in one.arguments]
    if one.program == "create" and one.arguments:
        return tuple(Write(path=name, how="create") for name in one.names(one.arguments[0]))
    if one.program == "str_replace_editor" and len(texts) > 1 and texts[0] in _HOW:
        return tuple(Write(path=name, how=_HOW[texts[0]]) for name in one.names(one.arguments[1]))
    return ()
