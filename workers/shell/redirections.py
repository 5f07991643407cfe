"""Redirections and pipes: which files they open, and what standard input then holds."""

import re
from typing import Literal

from forgepool.workers.shell.language.refusal import refuse
from forgepool.workers.shell.language.script import FromFile, Inherited, Input, ShellWord, StdinText
from forgepool.workers.shell.language.syntax import Redirection, Simple, Statement
from forgepool.workers.shell.language.words import read_word, static_text

_PLAIN = re.compile(r"[\w./+-]+", re.ASCII)
_COPY = re.compile(r"[0-9]+-?|-")


def find_opened(redirection: Redirection) -> tuple[Literal["read", "write"], ShellWord] | None:
    """Return the opened file and its mode; None for copied descriptors and for texts in the script."""
    operator = redirection.operator.raw
    if redirection.target is None or operator == "<<<":
        return None
    path = read_word(redirection.target)
    if operator in (">&", "<&"):
        _check_copied(redirection.target.raw)
        if _COPY.fullmatch(path.text):
            return None
    if path.text.startswith(("/dev/tcp/", "/dev/udp/")):
        refuse("/dev/tcp and /dev/udp are bash's own way into the network", "use a program for it, such as curl")
    return ("read" if operator in ("<", "<&") else "write"), path


def _check_copied(raw: str) -> None:
    """Refuse odd targets of `>&`: bash expands them twice, and runs the inside of `>&'$(rm x)'`."""
    if not _PLAIN.fullmatch(raw):
        refuse("what follows >& is expanded twice", "write > file 2>&1")


def input_of(redirections: tuple[Redirection, ...], piped: Input) -> Input:
    """Return standard input, given what a pipe brings."""
    found = piped
    for redirection in redirections:
        if redirection.descriptor in ("", "0") and redirection.operator.raw.startswith("<"):
            found = _input(redirection)
    return found


def keeps_output(redirections: tuple[Redirection, ...]) -> bool:
    """Return whether standard output still goes where it went."""
    return all(each.operator.raw.startswith("<") or each.descriptor == "2" for each in redirections)


def _input(redirection: Redirection) -> Input:
    match redirection.operator.raw:
        case "<" if redirection.target is not None:
            return FromFile(path=read_word(redirection.target))
        case "<<<" if redirection.target is not None:
            word = read_word(redirection.target)
            return _known(f"{word.text}\n" if word.static else None)
    body = redirection.operator.body
    return _known(static_text(body.parts) if body is not None else None)


_ECHO_OPTIONS = re.compile(r"-[neE]+")


def find_piped_input(statement: Statement) -> Input:
    """Return what a pipe after the statement brings: the output of `echo`, `printf` or `cat`, where that is certain."""
    if not isinstance(statement, Simple) or not statement.words or not keeps_output(statement.redirections):
        return Inherited(fed=True)
    words = [read_word(word) for word in statement.words]
    if words[0].text not in ("echo", "printf", "cat"):
        return Inherited(fed=True)
    if not all(word.static for word in words):
        return Inherited()
    program, *texts = [word.text for word in words]
    match program:
        case "echo":
            return _known(_echoed(texts))
        case "printf":
            return _known(_printed(texts))
        case "cat" if not texts or texts == ["-"]:
            return input_of(statement.redirections, Inherited())
        case "cat" if len(texts) == 1 and not texts[0].startswith("-"):
            return FromFile(path=words[1])
    return Inherited()


def _known(text: str | None) -> Input:
    return Inherited() if text is None else StdinText(text=text)


def _echoed(texts: list[str]) -> str | None:
    if texts and texts[0] == "-n":
        texts = texts[1:]
    if any("\\" in text for text in texts) or (texts and _ECHO_OPTIONS.fullmatch(texts[0])):
        return None
    return " ".join(texts) + "\n"


def _printed(texts: list[str]) -> str | None:
    if len(texts) == 2 and texts[0] in ("%s", "%s\\n"):
        return texts[1]
    if len(texts) != 1 or texts[0].startswith("-"):
        return None
    text = texts[0].replace("\\n", "\n")
    return None if "\\" in text or "%" in text else text
