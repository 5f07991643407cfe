"""
Hot files: what the agent has lately worked on, as it last saw it, for the head of a rebuilt view.

A carrier is a read's result, or the text that a call wrote. What a later call may have written over is stale, and is
left out: where it can be had, the file's text as it is now stands in its place.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from forgepool.workers.context.history.actions import Deed, Read, Write, touches

_TEXTS = ("content", "command", "file_text")
"""Arguments that hold a file's whole text: a tool's, or a shell command's that feeds it to the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    step: int
    path: str
    label: str
    text: str


def hot(
    deeds: Sequence[Deed],
    *,
    dropped: int,
    touched_since: int,
    also: Iterable[str] = (),
    room: int,
    current: Callable[[str], str | None],
) -> list[Carrier]:
    """
    What of the first `dropped` deeds is to stay, oldest first, of at most `room` characters together.

    Of files touched by a deed of a turn from the place `touched_since` on, and of the paths in `also`. A carrier is
    left out where a later one shows the same lines. Of files that nothing fresh is shown of, `current` has the text.
    """
    touched = _touched(deeds, touched_since) | set(also)
    found: list[Carrier] = []
    shown: dict[str, list[Read]] = {}
    written: dict[str, Write] = {}
    for deed in reversed(deeds):
        for read, text in _carried(deed):
            covered = shown.get(read.path, [])
            if read.path not in touched or _covers(covered, read):
                continue
            if any(touches(write, read.path) for write in written.values()):
                continue
            shown[read.path] = [*covered, read]
            if deed.step <= dropped:
                found.append(Carrier(step=deed.step, path=read.path, label=_label(read), text=text))
        # Of a command that failed it is not known how far it came.
        written |= {write.path: write for write in deed.writes}
    found += _as_they_are(touched - shown.keys(), deeds, current)
    return sorted(_fitting(found, room), key=_step)


def _touched(deeds: Sequence[Deed], since: int) -> set[str]:
    paths: set[str] = set()
    for deed in reversed(deeds):
        if deed.turn < since:
            break
        paths.update(_paths(deed))
    return paths


def _as_they_are(
    paths: Iterable[str], deeds: Sequence[Deed], current: Callable[[str], str | None]
) -> Iterator[Carrier]:
    steps = {path: deed.step for deed in deeds for path in _paths(deed)}
    for path in sorted(paths):
        text = current(path)
        if text is not None:
            yield Carrier(step=steps.get(path, 0), path=path, label=f"{path}, as it is now", text=text)


def _fitting(found: Iterable[Carrier], room: int) -> Iterator[Carrier]:
    """The newest first; one that does not fit does not keep out a smaller one."""
    for each in sorted(found, key=_step, reverse=True):
        if len(each.text) <= room:
            room -= len(each.text)
            yield each


def _carried(deed: Deed) -> Iterator[tuple[Read, str]]:
    """The text of a file, where the call holds it or its result does, and not only what makes it."""
    if deed.failed:
        return
    if deed.action == "read" and len(deed.reads) == 1:
        yield deed.reads[0], deed.whole
    text = next((value for name in _TEXTS if isinstance(value := deed.call.arguments.get(name), str)), None)
    whole = [write for write in deed.writes if write.how == "create" and write.characters is not None]
    others = [write for write in deed.writes if write not in whole]
    if text is not None and len(whole) == 1 and not any(touches(write, whole[0].path) for write in others):
        yield Read(path=whole[0].path), text


def _paths(deed: Deed) -> Iterator[str]:
    yield from (read.path for read in deed.reads)
    yield from (write.path for write in deed.writes)


def _covers(shown: Iterable[Read], read: Read) -> bool:
    return any(one.whole or _within(read, one) for one in shown)


def _within(read: Read, other: Read) -> bool:
    if read.part or other.part or read.whole or (read.last is None and other.last is not None):
        return False
    return (other.first or 1) <= (read.first or 1) and (other.last is None or (read.last or 0) <= other.last)


def _label(read: Read) -> str:
    if read.whole:
        return read.path
    return f"part of {read.path}" if read.part else f"{read.path}, lines {read.first or 1} to {read.last or 'the end'}"


def _step(carrier: Carrier) -> int:
    return carrier.step
