"""
What the harness knows of a conversation, in sentences: files, outcomes, failures, what a person said.

It stands wherever a model's summary says something else, and is told anew from all deeds at each rebuild: nothing of it
wears off.
"""

from collections.abc import Iterable, Iterator, Sequence

from forgepool.workers.context.edits.masks import HARNESS
from forgepool.workers.context.history.actions import Deed
from forgepool.workers.llm.messages import Text, Turn

_LIST_CHARACTERS = 4_000
_MOST_OUTCOMES = 12
_MOST_FAILURES = 8
_LINE_CHARACTERS = 160
_SAID_CHARACTERS = 4_000
_HOW = {"create": "created", "edit": "edited", "delete": "deleted", "move": "moved", "shell": "changed by a command"}


def files(deeds: Iterable[Deed]) -> str:
    """Paths written, each with what was done to it last, and paths only read. A failed command may have done less."""
    written: dict[str, str] = {}
    read: dict[str, None] = {}
    for deed in deeds:
        for write in deed.writes:
            written.pop(write.path, None)
            written[write.path] = f"{write.path} ({_HOW[write.how]})"
        read.update((each.path, None) for each in deed.reads)
    only_read = [path for path in read if path not in written]
    return f"Written: {_listed([*written.values()])}\nRead: {_listed(only_read)}"


def outcomes(deeds: Sequence[Deed]) -> list[str]:
    """How each test and build ended when it was last run, the newest last."""
    newest: dict[str, Deed] = {}
    for deed in deeds:
        if deed.action in ("test", "build"):
            named = deed.command or deed.call.name
            newest.pop(named, None)
            newest[named] = deed
    return [_ended(named, deed) for named, deed in list(newest.items())[-_MOST_OUTCOMES:]]


def failures(deeds: Sequence[Deed]) -> list[str]:
    """The newest things that failed, tests and builds left out, the newest last."""
    failed: list[Deed] = []
    for deed in reversed(deeds):
        if deed.failed and deed.action not in ("test", "build"):
            failed.append(deed)
        if len(failed) == _MOST_FAILURES:
            break
    return [
        f"step {deed.step}, {_short(deed.command or deed.call.name)}: {_short(_first_line(deed.whole))}"
        for deed in reversed(failed)
    ]


def find_said(turns: Iterable[Turn]) -> Iterator[str]:
    """What persons said on the user's side, in their words."""
    for turn in turns:
        for part in turn.parts:
            if turn.role == "user" and isinstance(part, Text) and by_person(part.text):
                yield _short(part.text.strip(), _SAID_CHARACTERS)


def by_person(text: str) -> bool:
    return bool(text.strip()) and not text.startswith(HARNESS)


def _listed(names: list[str]) -> str:
    """The newest that there is room for, oldest first."""
    room = _LIST_CHARACTERS
    kept: list[str] = []
    for name in reversed(names):
        room -= len(name) + 2
        if room < 0:
            break
        kept.append(name)
    left = len(names) - len(kept)
    earlier = f"{left} earlier ones, " if left else ""
    return f"{earlier}{', '.join(reversed(kept))}" if names else "none"


def _ended(named: str, deed: Deed) -> str:
    status = "" if deed.status is None else f", exit status {deed.status}"
    return f"`{_short(named)}` {'failed' if deed.failed else 'succeeded'}{status} (step {deed.step})"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _short(text: str, most: int = _LINE_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
