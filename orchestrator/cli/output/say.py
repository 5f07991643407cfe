"""Prints for the command line: plain lines, JSON, sentences on standard error. Nothing here decides anything."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from forgepool.worktrees.errors import cut_long_words

_SLOW_S = 2.0


def hush(stream: TextIO | None = None) -> None:
    """Discard what is still written to standard output, or to another stream, that takes no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def printable(text: str) -> str:
    """
    Return the text as one line that cannot control a terminal; unprintable characters are escaped, as in `\\x1b`.

    File names, output of commands and of models reach the terminal, and none of them is trusted.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else " " if each == "\t" else each.encode("unicode_escape").decode() for each in text
    )


def complain(sentence: str, status: int) -> int:
    """Print one sentence on standard error; return the status, also where the sentence has no room on the disk."""
    try:
        sys.stderr.write(f"forgepool: {cut_long_words(_lines(sentence))}\n")
    except OSError:
        hush(sys.stderr)
    return status


@contextmanager
def tell_slow(what: str) -> Iterator[None]:
    """Say at a terminal, on standard error, what is being done where that takes longer than two seconds."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_SLOW_S, complain, (f"{what} ...", 0))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # What follows may fork.


def say(line: str, *, style: str = "") -> None:
    """Print a line, or lines, on standard output, and flush."""
    if style:
        from forgepool.orchestrator.cli.output.terminal import say_in_colour

        say_in_colour(_lines(line), style)
    else:
        sys.stdout.write(f"{_lines(line)}\n")
    sys.stdout.flush()


def say_json(value: object) -> None:
    """Print one line of JSON in ASCII, which cannot control a terminal."""
    say(json.dumps(value))


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
