"""Colours and tables on a terminal; the same words without colour in a pipe."""

import re
import sys
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from forgepool.orchestrator.cli.output.say import printable, say
from forgepool.workers.schema.error_lines import without_escapes

_STYLES = {
    **dict.fromkeys(("landed", "passed", "passes", "green", "no changes", "already there", "good"), "green"),
    **dict.fromkeys(("failed", "returned", "halted", "unreadable", "bad"), "red"),
    **dict.fromkeys(("blocked", "cancelled", "withdrawn", "interrupted", "needs_human", "wants a person"), "yellow"),
    **dict.fromkeys(("running", "testing", "tested", "landing", "reviewing", "in review"), "cyan"),
}
_OUTCOMES = frozenset(("outcome", "phase", "state"))
"""Columns whose words are coloured."""

_GAP = 2
"""Spaces between columns."""


class Paper(Console):
    """A console whose closed output reaches the caller as an exception; rich's own ends the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def out(*, stderr: bool = False) -> Paper:
    """Return a console on standard output or standard error; without colours where that is no terminal."""
    return Paper(stderr=stderr, highlight=False, soft_wrap=True, emoji=False)


def say_in_colour(text: str, style: str) -> None:
    """Print lines in one style, such as `green`."""
    out().print(Text(text, style))


_TITLE = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""An escape sequence for a terminal's title, or for a link."""


def say_output(line: str) -> None:
    """Print one line of a command's output; on a terminal its colours stay, other control characters go."""
    if sys.stdout.isatty() and "\x1b[" in line:
        kept = "".join(each for each in _TITLE.sub("", line).rstrip("\r") if each in "\x1b\t" or each.isprintable())
        out().print(Text.from_ansi(kept))
    else:
        say(without_escapes(line))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table without a frame, for repeated drawing; the caller formats numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*_cells(columns, row))
    return made


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """
    Print one line for each row, never cut or folded in a pipe. On a narrow terminal the last column goes below its row.
    """
    paper, widths = out(), _widths(columns, rows)
    narrow = sys.stdout.isatty() and sum(widths) + _GAP * (len(widths) - 1) > paper.width
    for cells in ([Text(column, "bold") for column in columns], *(_cells(columns, row) for row in rows)):
        line = Text()
        for cell, width in zip(cells[:-1], widths, strict=False):
            line.append_text(cell).append(" " * (width - cell.cell_len + _GAP))
        paper.print(_stripped(line if narrow else line.append_text(cells[-1])))
        if narrow and cells[-1].plain and cells[-1].plain != columns[-1]:
            paper.print(Padding(cells[-1], (0, 0, 0, 4)), soft_wrap=False)


def _stripped(line: Text) -> Text:
    line.rstrip()
    return line


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(printable(row[number])) for row in (columns, *rows)) for number in range(len(columns))]


def _cells(columns: Sequence[str], row: Sequence[str]) -> list[Text]:
    """Return the cells as `Text`: rich would read `[brackets]` in plain strings as markup."""
    return [
        Text(printable(cell), _STYLES.get(cell, "") if column in _OUTCOMES else "")
        for column, cell in zip(columns, row, strict=True)
    ]
