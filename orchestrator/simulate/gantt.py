"""
A simulated run as a picture: one SVG file that needs nothing else.

A row is a worker, a place at the gate, or a place in line for a lock. Names that do not fit into their bars stand below
them, in as many lines as it takes for none to touch another.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.sax.saxutils import escape

from forgepool.orchestrator.simulate.bounds import BoundsWatch, TaskStretch
from forgepool.orchestrator.simulate.run import Place, Played, SimulatedSpan

_WIDTH, _LEFT, _RIGHT, _TOP = 1320, 100, 164, 84
_BAR, _LINE, _GAP = 24, 15, 10
_LETTER = 6.7
"""Pixels of one letter of the names, which are of equal width. The longest name fits into the right margin."""
_MOST_LINES = 12
"""Of names below one row; what would stand deeper is left to the bars' titles."""
_MOST_LETTERS = 22
_HALF = 9
_LONGEST_LINE_OF_LOCKS = 40
_COLOURS = {
    "working": "#a9c9ee",
    "testing": "#f6d68c",
    "reviewing": "#d5c2f2",
    "landing": "#9fd6ac",
    "lock": "#f3b8ae",
    "red": "#b3261e",
}
_WORDS = {
    "working": "working",
    "testing": "testing",
    "reviewing": "reviewing",
    "landing": "landing",
    "lock": "waiting for a lock",
}
_AT: dict[Place, str] = {
    "worker": "working",
    "check": "testing",
    "wave": "testing",
    "review": "reviewing",
    "landing": "landing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    at: str
    name: str
    short: str
    """The name, where there is no room for it."""
    title: str
    begins_s: float
    ends_s: float
    how: str = ""
    """`red` and `cancelled` are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    name: str
    bars: Sequence[_Bar]


def gantt(played: Played, look: BoundsWatch, *, title: str) -> str:
    """The text of the file."""
    scale = _Scale(max(played.makespan_s, 1e-9))
    drawn: list[str] = []
    y = float(_TOP)
    for row in _rows(played, look):
        lines, bottom = _drawn(row, scale, y)
        drawn += lines
        y = bottom + _GAP
    body = "\n".join((*_axis(scale, y), *drawn))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 34:g}" width="{_WIDTH}" '
        f'height="{y + 34:g}" role="img" font-size="11" fill="#1b1b1b" '
        f"font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\">\n"
        f"<title>{escape(title)}</title>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="{_LEFT}" y="28" font-size="14" font-weight="bold">{escape(title)}</text>\n'
        f"{_legend()}\n{body}\n</svg>\n"
    )


class _Scale:
    """Seconds to pixels."""

    def __init__(self, whole_s: float) -> None:
        self.whole_s = whole_s
        self._per_s = (_WIDTH - _LEFT - _RIGHT) / whole_s

    def x(self, at_s: float) -> float:
        return _LEFT + at_s * self._per_s


def _rows(played: Played, look: BoundsWatch) -> Iterator[_Row]:
    spans = [one for one in played.spans if one.ends_s >= one.begins_s]
    yield from _lanes("worker", [one for one in spans if one.place == "worker"], look.terms.workers)
    yield from _lanes("gate", [one for one in spans if one.place in ("check", "wave")], look.terms.trials)
    reviews = [one for one in spans if one.place == "review"]
    yield from _lanes("review", reviews, 1 + max((one.lane for one in reviews), default=-1))
    yield from _lanes("landing", [one for one in spans if one.place == "landing"], 1)
    waits = (one for own in look.stretches.values() for one in own if one.at == "lock")
    for number, bars in enumerate(_packed(sorted(waits, key=lambda one: (one.begins_s, one.ends_s))), start=1):
        if number > _LONGEST_LINE_OF_LOCKS:
            return
        yield _Row(name="locks" if number == 1 else "", bars=bars)


def _lanes(name: str, spans: Sequence[SimulatedSpan], count: int) -> Iterator[_Row]:
    for lane in range(count):
        bars = [_bar(one) for one in spans if one.lane == lane]
        yield _Row(name=f"{name} {lane + 1}" if count > 1 or name == "worker" else name, bars=bars)


def _bar(span: SimulatedSpan) -> _Bar:
    names = ", ".join(span.tasks)
    said = {"red": ", came back red", "cancelled": ", cancelled"}.get(span.how, "")
    what = "all checks on the target" if span.place == "wave" else f"{names}: {_AT[span.place]}"
    return _Bar(
        at=_AT[span.place],
        name="target" if span.place == "wave" else names,
        short="target" if span.place == "wave" else _short(names),
        title=f"{what} {_from_to(span.begins_s, span.ends_s)}{said}",
        begins_s=span.begins_s,
        ends_s=span.ends_s,
        how=span.how,
    )


def _packed(waits: Iterable[TaskStretch]) -> list[list[_Bar]]:
    """Waits side by side where they do not overlap, else below one another."""
    lanes: list[list[_Bar]] = []
    for one in waits:
        bar = _wait(one)
        lane = next((lane for lane in lanes if lane[-1].ends_s <= bar.begins_s), None)
        if lane is None:
            lanes.append(lane := [])
        lane.append(bar)
    return lanes


def _wait(one: TaskStretch) -> _Bar:
    whom = f" that {one.of} holds" if one.of else ""
    name = f"{one.task} < {one.of}" if one.of else one.task
    short = f"{_short(one.task, _HALF)} < {_short(one.of, _HALF)}" if one.of else _short(one.task)
    title = f"{one.task}: waiting for a lock{whom} {_from_to(one.begins_s, one.ends_s)}"
    return _Bar(at="lock", name=name, short=short, title=title, begins_s=one.begins_s, ends_s=one.ends_s)


def _drawn(row: _Row, scale: _Scale, y: float) -> tuple[list[str], float]:
    """The row's elements, and where it ends."""
    drawn = []
    if row.name:
        drawn.append(f'<text x="{_LEFT - 10}" y="{y + 16:g}" text-anchor="end">{escape(row.name)}</text>')
    drawn.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y + _BAR:g}" y2="{y + _BAR:g}" stroke="#d9d9d9"/>')
    drawn += [_box(bar, scale, y) for bar in row.bars]
    for bar in row.bars:
        if (words := _inside(bar, scale)) is not None:
            drawn.append(_text(scale.x(bar.begins_s) + 4, y + 16, words))
    lines = _lines([bar for bar in row.bars if _inside(bar, scale) is None], scale)
    for bar, line in lines:
        x, below = scale.x(bar.begins_s), y + _BAR + _LINE * (line + 1)
        drawn.append(f'<path d="M{x:.1f} {y + _BAR:g}V{below - 3:g}" stroke="#9a9a9a" stroke-width="0.7"/>')
        drawn.append(_text(x + 3, below - 3, bar.short))
    return drawn, y + _BAR + _LINE * (1 + max((line for _, line in lines), default=-1))


def _box(bar: _Bar, scale: _Scale, y: float) -> str:
    x, end = scale.x(bar.begins_s), scale.x(bar.ends_s)
    edge = {
        "red": f'stroke="{_COLOURS["red"]}" stroke-width="2"',
        "cancelled": 'stroke="#6b6b6b" stroke-dasharray="3 2"',
    }.get(bar.how, 'stroke="#6b6b6b" stroke-width="0.6"')
    return (
        f'<rect x="{x:.1f}" y="{y + 2:g}" width="{max(end - x, 3.0):.1f}" height="{_BAR - 4}" rx="2" '
        f'fill="{_COLOURS[bar.at]}" {edge}><title>{escape(bar.title)}</title></rect>'
    )


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:g}">{escape(words)}</text>'


def _inside(bar: _Bar, scale: _Scale) -> str | None:
    """As much of the name as there is room for in the bar; None where that is not even the short one."""
    room = scale.x(bar.ends_s) - scale.x(bar.begins_s) - 8
    return next((words for words in (bar.name, bar.short) if len(words) * _LETTER <= room), None)


def _lines(bars: Sequence[_Bar], scale: _Scale) -> list[tuple[_Bar, int]]:
    """
    In which line below its row the name of each bar stands. From the right, so that no line that leads from a bar to
    its name goes through another's.
    """
    free = [float("inf")] * _MOST_LINES
    placed = list[tuple[_Bar, int]]()
    for bar in sorted(bars, key=lambda bar: -bar.begins_s):
        x = scale.x(bar.begins_s)
        end = x + len(bar.short) * _LETTER + 10
        line = next((at for at, until in enumerate(free) if end <= until), None)
        if line is None:
            continue
        free[: line + 1] = [x] * (line + 1)
        placed.append((bar, line))
    return placed


def _axis(scale: _Scale, bottom: float) -> Iterator[str]:
    step = _step_min(scale.whole_s / 60)
    for number in range(floor(scale.whole_s / 60 / step + 1e-9) + 1):
        x = scale.x(number * step * 60)
        yield f'<path d="M{x:.1f} {_TOP - 6}V{bottom:g}" stroke="#e6e6e6"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16:g}" text-anchor="middle">{number * step:g}</text>'
    yield f'<text x="{_WIDTH - _RIGHT + 24}" y="{bottom + 16:g}">minutes</text>'


def _step_min(whole_min: float) -> float:
    """Of 1, 2 and 5 with as many zeros as make it, that gives eight to twenty steps."""
    rough = whole_min / 20
    power = 10.0 ** floor(log10(rough)) if rough > 0 else 1.0
    return power * next(one for one in (1, 2, 5, 10) if one * power >= rough * 0.999)


def _legend() -> str:
    x, drawn = float(_LEFT), list[str]()
    for at, words in _WORDS.items():
        drawn.append(f'<rect x="{x:g}" y="44" width="16" height="14" rx="2" fill="{_COLOURS[at]}" stroke="#6b6b6b"/>')
        drawn.append(_text(x + 22, 55, words))
        x += 22 + ceil(len(words) * _LETTER) + 22
    red = f'stroke="{_COLOURS["red"]}" stroke-width="2"'
    for edge, words in ((red, "came back red"), ('stroke="#6b6b6b" stroke-dasharray="3 2"', "cancelled")):
        drawn.append(f'<rect x="{x:g}" y="44" width="16" height="14" rx="2" fill="#ffffff" {edge}/>')
        drawn.append(_text(x + 22, 55, words))
        x += 22 + ceil(len(words) * _LETTER) + 22
    return "\n".join(drawn)


def _short(name: str, letters: int = _MOST_LETTERS) -> str:
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def _from_to(begins_s: float, ends_s: float) -> str:
    return f"from {begins_s / 60:.1f} to {ends_s / 60:.1f} min"
