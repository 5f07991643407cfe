"""Texts and drawings of pages: every text that a template prints made harmless, a timeline."""

from collections.abc import Iterator
from math import floor, log10

from markupsafe import Markup

from forgepool.orchestrator.interfaces.words import clean, state_words, stretch, tone
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState

_MOST_BARS = 40
_WIDTH, _LEFT, _RIGHT, _ROW, _AXIS = 960, 190, 10, 20, 22
_LETTERS = 26
"""The longest name beside a bar."""


def finalize(value: object) -> object:
    """Clean every text that a template prints, by construction. What the templates made themselves is markup."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else "" if value is None else value


def timeline(state: RunState, now: float) -> Markup:
    """Return one bar for each task that was begun, from its first start to its end; empty where none was."""
    begun = sorted((task for task in state.tasks.values() if task.first_started), key=lambda task: task.first_started)
    if not begun:
        return Markup("")
    shown = begun[-_MOST_BARS:]
    first = shown[0].first_started
    last = max(task.ended or now for task in shown)
    whole = max(last - first, 1.0)
    height = _AXIS + len(shown) * _ROW + 4
    title = f"From each task's first start to its end: {len(shown)} of {len(state.tasks)} tasks, over {stretch(whole)}"
    body = Markup("").join((*_axis(whole, height), *_bars(shown, first, whole, now)))
    return Markup(
        '<svg class="timeline" viewBox="0 0 {} {}" role="img" aria-label="{}" preserveAspectRatio="xMinYMin meet">'
        "{}</svg>"
    ).format(_WIDTH, height, title, body)


def _x(seconds: float, whole: float) -> float:
    return round(_LEFT + seconds / whole * (_WIDTH - _LEFT - _RIGHT), 1)


def _axis(whole: float, height: int) -> Iterator[Markup]:
    step = _step(whole)
    for number in range(int(whole / step) + 1):
        x = _x(number * step, whole)
        yield Markup('<line class="grid" x1="{0}" x2="{0}" y1="16" y2="{1}"/>').format(x, height)
        words = f"{number * step / 60:g} min" if step >= 60 else f"{number * step:g} s"
        yield Markup('<text class="tick" x="{}" y="11">{}</text>').format(x + 2, words)


def _bars(shown: list[TaskState], first: float, whole: float, now: float) -> Iterator[Markup]:
    for at, task in enumerate(shown):
        begins, ends = task.first_started - first, (task.ended or now) - first
        y, x = _AXIS + at * _ROW, _x(begins, whole)
        wide = max(3.0, round(_x(ends, whole) - x, 1))
        name = clean(task.id)
        said = f"{name}: {state_words(task.phase)}, {stretch(max(0.0, ends - begins))}"
        yield Markup(
            '<g><title>{}</title><text class="name" x="{}" y="{}">{}</text>'
            '<rect class="bar {}" x="{}" y="{}" width="{}" height="12" rx="2"/></g>'
        ).format(said, _LEFT - 8, y + 11, cut_name(name), tone(task.phase), x, y + 1, wide)


def cut_name(name: str) -> str:
    """Return a name that fits beside a bar, or into a box."""
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _step(whole: float) -> float:
    """Return seconds between two ticks: 1, 2 or 5 times a power of ten, or of minutes, for at most about eight."""
    unit = 60.0 if whole > 240 else 1.0
    rough = max(whole / unit / 8, 0.1)
    power = 10.0 ** floor(log10(rough))
    return unit * power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
