"""Texts and drawings of pages: hostile texts made harmless, times, the words and marks of states, a timeline."""

import re
import time
from collections.abc import Iterator
from math import floor, log10
from typing import Literal, get_args

from markupsafe import Markup

from forgepool.orchestrator.cli.output.say import printable
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState

Tone = Literal["good", "busy", "wait", "want", "bad", "off"]
"""The look of a state. Each has a mark of its own shape, so that no state is told by colour alone."""
TONES: tuple[Tone, ...] = get_args(Tone)
_TONE: dict[str, Tone] = {
    **dict.fromkeys(("landed", "no_changes", "already_there", "done", "green"), "good"),
    **dict.fromkeys(
        ("running", "answered", "testing", "tested", "reviewing", "reviewed", "in review", "landing", "serving"), "busy"
    ),
    **dict.fromkeys(("pending", "ready", "candidate", "queued", "given", "waits", "not served"), "wait"),
    **dict.fromkeys(("needs_human", "wants a person", "paused"), "want"),
    **dict.fromkeys(("failed", "blocked", "incomplete", "returned", "unreadable"), "bad"),
    **dict.fromkeys(("cancelled", "withdrawn"), "off"),
}
_WORDS = {
    "needs_human": "needs you",
    "no_changes": "no changes",
    "already_there": "already there",
    "candidate": "waits for a lock",
    "given": "in a merge queue",
    "answered": "running",
    "reviewed": "reviewing",
    "wants a person": "needs you",
}
_MOST_BARS = 40
_WIDTH, _LEFT, _RIGHT, _ROW, _AXIS = 960, 190, 10, 20, 22
_LETTERS = 26
"""The longest name beside a bar."""
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")


def clean(text: str) -> str:
    """Return the text without terminal sequences; what else is unprintable is escaped, except line ends."""
    if text.isprintable():
        return text
    return "\n".join(printable(line) for line in _ANSI.sub("", text).replace("\r\n", "\n").split("\n"))


def finalize(value: object) -> object:
    """Clean every text that a template prints, by construction. What the templates made themselves is markup."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else "" if value is None else value


def tone(state: str) -> Tone:
    return _TONE.get(state, "wait")


def state_words(state: str) -> str:
    return _WORDS.get(state, state)


def phase_words(task: TaskState, phase: str) -> str:
    """Return a task's state in words, with what it needs of a person."""
    if task.phase == "needs_human":
        return {"question": "asks you", "review": "needs approval", "budget": "needs budget"}.get(
            task.parked_for or "", "needs you"
        )
    return state_words(phase)


def moment(at: float) -> str:
    """Return a time of the server's clock, with its date where that is not today."""
    if not at:
        return ""
    day = time.strftime("%Y-%m-%d", time.localtime(at))
    return time.strftime("%H:%M:%S" if day == time.strftime("%Y-%m-%d") else "%Y-%m-%d %H:%M", time.localtime(at))


def stretch(seconds: float) -> str:
    """Return a duration: `4.2 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


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
    title = f"When the tasks were worked on: {len(shown)} of {len(state.tasks)}, over {stretch(whole)}"
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
