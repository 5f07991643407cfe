"""The two widgets of the terminal's screens: a list of rows, and a long text. Both draw only what is seen."""

from collections.abc import Sequence
from textwrap import wrap

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.widgets import OptionList

from forgepool.orchestrator.interfaces.watch.panes import PaneRow
from forgepool.orchestrator.interfaces.words import Tone, clean

TONES: dict[Tone, tuple[str, str]] = {
    "good": ("+", "ansi_green"),
    "busy": (">", "ansi_cyan"),
    "wait": (".", ""),
    "want": ("?", "bold ansi_yellow"),
    "bad": ("x", "ansi_red"),
    "off": ("-", ""),
}
"""The mark of each look and its style: no state is told by colour alone."""
_LINE_STYLES = {
    **dict.fromkeys(("removed", "error"), "red"),
    **dict.fromkeys(("place", "call", "note"), "cyan"),
    **dict.fromkeys(("file", "head", "phase"), "bold"),
    "added": "green",
}
"""The styles of lines, by their kinds."""


def plain(text: str) -> Content:
    """Return foreign text as it is read: without terminal sequences, and with brackets that mean nothing."""
    return Content(clean(text))


def cut_lines(text: str, width: int, most: int) -> list[str]:
    """Return foreign text in lines that fit, at most so many; a last `…` says that there is more."""
    lines = [part for line in clean(text).split("\n") for part in _fold_line(line, width)]
    return lines if len(lines) <= most else [*lines[: most - 1], _cut(lines[most - 1], width)][:most]


def _cut(line: str, width: int) -> str:
    return f"{set_cell_size(line, min(cell_len(line), width - 1)).rstrip()}…"


def cut_middle(name: str, width: int) -> str:
    """Return the name at exactly this width, without its middle if it is longer: names of runs differ at their ends."""
    if cell_len(name) <= width:
        return set_cell_size(name, width)
    head, tail = set_cell_size(name, width // 2), set_cell_size(name[::-1], width - width // 2 - 1)[::-1]
    return f"{head}…{tail}"


class RowList(OptionList):
    """
    A list of rows, one line each, as wide as the terminal.

    The chosen row stays chosen when others come and go. The first line stays chosen whatever row is there.
    """

    def __init__(self, name: str) -> None:
        super().__init__(id=name, markup=False, compact=True)
        self.rows: Sequence[PaneRow] = ()

    def show(self, rows: Sequence[PaneRow]) -> None:
        if rows != self.rows:
            before, at = self.current(), self.highlighted or 0
            self.rows = rows
            self._draw(next((n for n, row in enumerate(rows) if at and before and row.place == before.place), at))

    def current(self) -> PaneRow | None:
        return self.rows[self.highlighted] if self.highlighted is not None and self.rows else None

    def action_cursor_down(self) -> None:
        """Go to the next row; from the end of the upper list to the lower one."""
        if self.id == "wants" and self.highlighted == len(self.rows) - 1:
            self.screen.focus_next(RowList)
        else:
            super().action_cursor_down()

    def action_cursor_up(self) -> None:
        """Go to the row before; from the start of the lower list to the upper one, if there is one."""
        if self.id != "rows" or self.highlighted or self.screen.focus_previous(RowList) is self:
            super().action_cursor_up()

    def get_visual_style(self, *component_classes: str, partial: bool = False) -> Style:
        style = super().get_visual_style(*component_classes, partial=partial)
        # The style sheet's own "reverse" has no effect on options, and a background is no cursor without colours.
        is_cursor = self.has_focus and "option-list--option-highlighted" in component_classes
        return style + Style(reverse=True) if is_cursor else style

    def on_resize(self) -> None:
        self._draw(self.highlighted or 0)

    def _draw(self, highlighted: int) -> None:
        widths = [max((cell_len(plain(row.cells[n]).plain) for row in self.rows), default=0) for n in range(2)]
        widths = [min(widths[0], 16), min(widths[1], max(16, self.size.width // 3))]
        self.set_options([self._line(row, widths) for row in self.rows])
        self.highlighted = min(highlighted, len(self.rows) - 1) if self.rows else None

    def _line(self, row: PaneRow, widths: Sequence[int]) -> Content:
        state, name, said = (" ".join(plain(cell).plain.split("\n")) for cell in row.cells)
        mark, style = TONES[row.tone]
        line = Content.styled(set_cell_size(f"{mark} {state}", widths[0] + 3), style)
        return line.append_text(f"{cut_middle(name, widths[1])} {said}")


class LongText(ScrollView, can_focus=True):
    """Lines, folded at the width of the terminal."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self.lines: Sequence[tuple[str, str]] = ()
        self._folded: list[tuple[str, str]] = []

    def show(self, lines: Sequence[tuple[str, str]]) -> None:
        """Show lines, each with its kind."""
        if lines != self.lines:
            self.lines = lines
            self._fold()

    def on_resize(self) -> None:
        self._fold()

    def _fold(self) -> None:
        width = max(1, self.size.width - self.styles.scrollbar_size_vertical)
        self._folded = [(kind, part) for kind, line in self.lines for part in _fold_line(clean(line), width)]
        self.virtual_size = Size(width, len(self._folded))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        at = y + self.scroll_offset.y
        kind, text = self._folded[at] if at < len(self._folded) else ("", "")
        style = self.rich_style + RichStyle.parse(_LINE_STYLES.get(kind, ""))
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, self.rich_style)


def _fold_line(line: str, width: int) -> list[str]:
    """Return the line in parts that fit, divided between words where that is possible."""
    if cell_len(line) <= width:
        return [line]
    parts = wrap(line, width, drop_whitespace=False, replace_whitespace=False)
    return [piece for part in parts for piece in chop_cells(part, width)]
