"""
Hot files: what the agent has lately worked on, as it last saw it, for the head of a rebuilt view.

A carrier is a read's result, or the text that a call wrote. What a later call wrote over is stale, and goes first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from workers.context.deeds import Deed, Read, Write, touches

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
    touched = {path for deed in deeds if deed.turn >= touched_since for path in _paths(deed)} | set(also)
    found: list[Carrier] = []
    covered: dict[str, list[Read]] = {}
    written: list[Write] = []
    for deed in reversed(deeds):
        carriers = [] if deed.failed else list(_carried(deed))
        for read, text in carriers:
            stale = any(touches(write, read.path) for write in written)
            if read.path in touched and not _covers(covered.get(read.path, ()), read):
                if stale:
                    continue
                covered.setdefault(read.path, []).append(read)
                if deed.step <= dropped:
                    found.append(Carrier(step=deed.step, path=read.path, label=_label(read), text=text))
        if not deed.failed:
            written += deed.writes
    found += _as_they_are(touched - covered.keys(), deeds, current)
    return sorted(_fitting(found, room), key=lambda each: each.step)


def _as_they_are(
    paths: Iterable[str], deeds: Sequence[Deed], current: Callable[[str], str | None]
) -> Iterator[Carrier]:
    steps = {path: deed.step for deed in deeds for path in _paths(deed)}
    for path in sorted(paths):
        text = current(path)
        if text is not None:
            yield Carrier(step=steps.get(path, 0), path=path, label=f"{path}, as it is now", text=text)


def _fitting(found: Sequence[Carrier], room: int) -> list[Carrier]:
    """The newest first; one that does not fit does not keep out a smaller one."""
    kept: list[Carrier] = []
    for each in sorted(found, key=lambda each: -each.step):
        if len(each.text) <= room:
            room -= len(each.text)
            kept.append(each)
    return kept


def _carried(deed: Deed) -> Iterable[tuple[Read, str]]:
    if deed.action == "read" and len(deed.reads) == 1:
        yield deed.reads[0], deed.whole
    created = [write for write in deed.writes if write.how == "create"]
    text = next((value for name in _TEXTS if isinstance(value := deed.call.arguments.get(name), str)), None)
    if len(created) == 1 and text is not None:
        yield Read(path=created[0].path), text


def _paths(deed: Deed) -> Iterable[str]:
    yield from (read.path for read in deed.reads)
    yield from (write.path for write in deed.writes)


def _covers(shown: Iterable[Read], read: Read) -> bool:
    return any(one.whole or _within(read, one) for one in shown)


def _within(read: Read, other: Read) -> bool:
    if read.part or other.part or read.whole or (read.last is None and other.last is not None):
        return False
    return (other.first or 1) <= (read.first or 1) and (other.last is None or (read.last or 0) <= other.last)


def _label(read: Read) -> str:
    return read.path if read.whole else f"{read.path}, lines {read.first or 1} to {read.last or 'the end'}"
