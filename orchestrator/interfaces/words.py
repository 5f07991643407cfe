"""Words of all interfaces: hostile texts made harmless, times, the words of states and the marks they get."""

import re
import time
from typing import Literal, get_args

from forgepool.orchestrator.cli.output.say import printable
from forgepool.orchestrator.state.task import TaskState

Tone = Literal["good", "busy", "wait", "want", "bad", "off"]
"""The look of a state. Each has a mark of its own shape, so that no state is told by colour alone."""
TONES: tuple[Tone, ...] = get_args(Tone)
_TONE: dict[str, Tone] = {
    **dict.fromkeys(("landed", "no_changes", "reported", "already_there", "done", "green"), "good"),
    **dict.fromkeys(
        ("running", "answered", "testing", "tested", "reviewing", "reviewed", "in review", "landing", "serving"), "busy"
    ),
    **dict.fromkeys(("pending", "ready", "waiting", "candidate", "queued", "given", "waits", "not served"), "wait"),
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
    "waiting": "rests for results",
    "answered": "running",
    "reviewed": "reviewing",
    "wants a person": "needs you",
}
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")


def clean(text: str) -> str:
    """Return the text without terminal sequences; what else is unprintable is escaped, except line ends."""
    if text.isprintable():
        return text
    return "\n".join(printable(line) for line in _ANSI.sub("", text).replace("\r\n", "\n").split("\n"))


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


def attempt_words(task: TaskState, allowed: int) -> str:
    """Return how often a task was sent, and how many of the allowed failures it has had."""
    if not task.charged:
        return str(task.last_attempt)
    return f"{task.last_attempt}; {task.charged} of {allowed} allowed {'has' if task.charged == 1 else 'have'} failed"


def moment(at: float) -> str:
    """Return a time of the server's clock, with its date where that is not today."""
    if not at:
        return ""
    day = time.strftime("%Y-%m-%d", time.localtime(at))
    return time.strftime("%H:%M:%S" if day == time.strftime("%Y-%m-%d") else "%Y-%m-%d %H:%M", time.localtime(at))
