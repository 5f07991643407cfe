"""How the command line speaks: plain lines, JSON, sentences of complaint. Nothing here decides anything."""

import json
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


class Paper(Console):
    """Where words for people go. A reader that has gone is told to the caller; rich's own would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def out(*, stderr: bool = False) -> Paper:
    """Standard output for people, or standard error; no colours when it is no terminal."""
    return Paper(stderr=stderr, highlight=False, soft_wrap=True, emoji=False)


def hush() -> None:
    """Standard output is read by nobody any more: what is still said there goes nowhere, and complains of nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """
    The text as one line that cannot steer a terminal: what is not printable is written out, as in `\\x1b`.

    Names of files, output of commands and of models end up on a person's terminal, and none of them is trusted.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else " " if each == "\t" else each.encode("unicode_escape").decode() for each in text
    )


def complain(sentence: str, status: int) -> int:
    """One sentence on standard error; returns the status."""
    sys.stderr.write(f"forgepool: {_lines(sentence)}\n")
    return status


def say(line: str) -> None:
    """One line on standard output, or the lines the caller has made of it; seen at once."""
    sys.stdout.write(f"{_lines(line)}\n")
    sys.stdout.flush()


def say_json(value: object) -> None:
    """One line of JSON, in ASCII: programs read the same, and a terminal is not steered by it."""
    say(json.dumps(value))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table without a frame; numbers are the caller's to format."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        # As `Text`, or a cell that has `[brackets]` would be read as markup and lose them.
        made.add_row(*(Text(printable(cell)) for cell in row))
    return made


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
