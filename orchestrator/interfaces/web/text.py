"""Texts and drawings of pages: every text that a template prints made harmless, a timeline."""

from collections.abc import Iterator
from math import floor, log10

from markupsafe import Markup

from forgepool.orchestrator.decisions.reasons import stretch
from forgepool.orchestrator.interfaces.words import clean, state_words, tone
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState

_MOST_BARS = 40
_WIDTH, _LEFT, _RIGHT, _ROW, _AXIS = 960, 190, 10, 20, 22
_LETTERS = 26
"""The longest name beside a bar."""


def finalize(value: object) -> object:
    """Clean every text that a template prints, by construction. What the templates made themselves is markup."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else "" if value is None else value


def timeline(state: RunState, began: float, now: float) -> Markup:
    """
    Return a row for each task that was begun, with a bar for each attempt, and for those that the forecast begins next.

    A bar is full while the attempt's agent works, and pale while its work waits for the gate, or is judged there. Below
    it, a line is the forecast. Empty where there is nothing to show.
    """
    spans = state.forecast.spans if state.forecast is not None else {}
    promised = {task: (began + begins, began + ends) for task, (begins, ends) in spans.items() if task in state.tasks}
    begun = sorted((task for task in state.tasks.values() if task.first_started), key=lambda task: task.first_started)
    ahead = sorted((one for one in promised if not state.tasks[one].first_started), key=lambda one: promised[one])
    shown = [*begun[-_MOST_BARS:], *(state.tasks[one] for one in ahead)][:_MOST_BARS]
    if not shown:
        return Markup("")
    edges = [edge for task in shown for edge in promised.get(task.id, ())]
    first = min(edges[0::2] + [task.first_started for task in shown if task.first_started])
    last = max(edges[1::2] + [task.ended or now for task in shown if task.first_started])
    whole = max(last - first, 1.0)
    height = _AXIS + len(shown) * _ROW + 4
    title = f"From each task's first start to its end: {len(shown)} of {len(state.tasks)} tasks, over {stretch(whole)}"
    rows = (_bars(task, promised.get(task.id), first, whole, now) for task in shown)
    drawn = (
        Markup('<g transform="translate(0 {})">{}</g>').format(_AXIS + at * _ROW, row) for at, row in enumerate(rows)
    )
    return Markup(
        '<svg class="timeline" viewBox="0 0 {} {}" role="img" aria-label="{}" preserveAspectRatio="xMinYMin meet">'
        "{}</svg>"
    ).format(_WIDTH, height, title, Markup("").join((*_axis(whole, height), *drawn)))


def _x(seconds: float, whole: float) -> float:
    return round(_LEFT + seconds / whole * (_WIDTH - _LEFT - _RIGHT), 1)


def _axis(whole: float, height: int) -> Iterator[Markup]:
    step = _step(whole)
    for number in range(int(whole / step) + 1):
        x = _x(number * step, whole)
        yield Markup('<line class="grid" x1="{0}" x2="{0}" y1="16" y2="{1}"/>').format(x, height)
        words = f"{number * step / 60:g} min" if step >= 60 else f"{number * step:g} s"
        yield Markup('<text class="tick" x="{}" y="11">{}</text>').format(x + 2, words)


def _bars(task: TaskState, promised: tuple[float, float] | None, first: float, whole: float, now: float) -> Markup:
    """Return the row of one task: its name, its attempts, and its forecast."""
    name, parts = clean(task.id), []
    works = task.work_spans or ([(task.first_started, task.first_started)] if task.first_started else [])
    ends = [*(begins for begins, _ in works[1:]), task.ended or now]
    for number, ((begins, worked), end) in enumerate(zip(works, ends, strict=False), start=1):
        look = tone(task.phase) if number == len(works) else "off"
        worked = worked or end
        said = f"{name}, order {number}: {stretch(worked - begins)} at work, {stretch(end - worked)} after that"
        parts += [
            _bar(f"bar {look}", begins, worked, first, whole, said),
            _bar(f"bar after {look}", worked, end, first, whole, said) if end > worked else Markup(""),
        ]
    if promised is not None:
        said = f"{name}: forecast to take {stretch(promised[1] - promised[0])}, from start to landing"
        parts.append(_bar("promised", *promised, first, whole, said))
    text = Markup('<text class="name" x="{}" y="11">{}</text>').format(_LEFT - 8, cut_name(name))
    said = f"{name}: {state_words(task.phase)}"
    return Markup("<g><title>{}</title>{}{}</g>").format(said, text, Markup("").join(parts))


def _bar(look: str, begins: float, ends: float, first: float, whole: float, said: str) -> Markup:
    x = _x(begins - first, whole)
    wide = max(2.0, round(_x(ends - first, whole) - x, 1))
    y, high = (14, 3) if look == "promised" else (1, 11)
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="1.5"><title>{}</title></rect>').format(
        look, x, y, wide, high, said
    )


def cut_name(name: str) -> str:
    """Return a name that fits beside a bar, or into a box."""
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _step(whole: float) -> float:
    """Return seconds between two ticks: 1, 2 or 5 times a power of ten, or of minutes, for at most about eight."""
    unit = 60.0 if whole > 240 else 1.0
    rough = max(whole / unit / 8, 0.1)
    power = 10.0 ** floor(log10(rough))
    return unit * power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
