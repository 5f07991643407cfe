"""How the command line speaks: plain lines, JSON, sentences of complaint. Nothing here decides anything."""

import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table


def out() -> Console:
    """Standard output for people; no colours when it is no terminal."""
    return Console(highlight=False, soft_wrap=True)


def complain(sentence: str, status: int) -> int:
    """One sentence on standard error; returns the status."""
    sys.stderr.write(f"forgepool: {sentence}\n")
    return status


def say(line: str) -> None:
    """One line on standard output, seen at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say_json(value: object) -> None:
    say(json.dumps(value, ensure_ascii=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table without a frame; numbers are the caller's to format."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made
