"""Script files: which are shell scripts, by their first line, and what stands in those that cannot be parsed."""

import posixpath
import re
from collections.abc import Iterator

from forgepool.workers.shell.parse.script import ShellWord
from forgepool.workers.shell.programs.effects import Dialect
from forgepool.workers.shell.programs.shells import DIALECTS
from forgepool.workers.shell.programs.wrappers import WRAPPERS
from forgepool.workers.shell.scan.refusal import refuse

_FIRST_LINE = re.compile(r"#![ \t]*(?P<path>[^ \t\n]+)(?P<words>[^\n]*)")
_BETWEEN = re.compile(r"[\n;&|(){}`!]|\b(?:then|do|else|elif|if|while|until|time)\b(?=[ \t])")
"""Where commands may begin."""
_KNOWN = re.compile(r"['\"]?[\w./:=,@%+~-]+['\"]?(?=[ \t]|$)", re.ASCII)
_ASSIGNMENTS = re.compile(r"^(?:[A-Za-z_]\w*=[^ \t'\"]*[ \t]+)+")
_REDIRECTIONS = re.compile(r"[<>]+[|]?[ \t]*[^ \t]+")
_RUN_OTHERS = frozenset(["command", "eval", "exec", *DIALECTS, *WRAPPERS])
_MOST_MADE_OUT, _MOST_WRAPPED, _MOST_WORDS = 2000, 6, 40
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


def find_commands(text: str) -> Iterator[tuple[ShellWord, ...]]:
    """
    The beginnings of what look like commands in a script that cannot be parsed, as far as their words are plain.

    For rules that restrain: it may be less than runs, and more.
    """
    joined = text.replace("\\\n", " ")
    lines = "\n".join(line for line in joined.split("\n") if not line.lstrip().startswith("#"))
    for piece in _BETWEEN.split(lines)[:_MOST_MADE_OUT]:
        words = _plain_words(_ASSIGNMENTS.sub("", _REDIRECTIONS.sub(" ", piece).strip()))
        runs = bool(words) and words[0].text in _RUN_OTHERS
        for start in range(min(len(words), _MOST_WRAPPED) if runs else 1):
            if words[start:] and "=" not in words[start].text:
                yield words[start:]


def _plain_words(rest: str) -> tuple[ShellWord, ...]:
    words: list[ShellWord] = []
    while len(words) < _MOST_WORDS and (found := _KNOWN.match(rest)) is not None:
        said = found[0].strip("'\"")
        if not said:
            break
        words.append(ShellWord(text=said, static=True, written=said))
        rest = rest[found.end() :].lstrip()
    return tuple(words)
