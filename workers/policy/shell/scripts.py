"""Script files: which of them are shell scripts, by their first line."""

import posixpath
import re

from workers.policy.shell.effects import Dialect
from workers.policy.shell.refusal import refuse
from workers.policy.shell.shells import DIALECTS

_FIRST_LINE = re.compile(r"#![ \t]*(?P<path>[^ \t\n]+)(?P<words>[^\n]*)")
_OPTIONS = re.compile(r"(?:[ \t]+-[efuvxl]+)?[ \t]*")


def dialect_of(text: str) -> Dialect | None:
    """
    The shell that would run it, started by its path; None where something else does.

    Raises:
        Refusal: a shell is given options that change how it is read.
    """
    if not text.startswith("#!"):
        return "bash"
    found = _FIRST_LINE.match(text)
    if found is None:
        return None
    program, words = posixpath.basename(found["path"]), found["words"]
    if program == "env":
        program, _, words = words.strip().removeprefix("-S").strip().partition(" ")
        words = f" {words}" if words else ""
    if program not in DIALECTS:
        return None
    if not _OPTIONS.fullmatch(words):
        refuse(f"the first line gives {program} the options {words.strip()!r}", f"write #!/bin/{program}")
    return DIALECTS[program]
