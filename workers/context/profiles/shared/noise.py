"""
Process noise: results that nobody needs to read again, because they only confirm, or because a later one that is shown
in full has all that they could be read for.
"""

import json
import re
from dataclasses import dataclass, field

from forgepool.workers.context.edits.masks import find_seen, text_of
from forgepool.workers.context.edits.state import ContextState
from forgepool.workers.context.history.actions import Deed, Read
from forgepool.workers.context.shorten.new_results import bases
from forgepool.workers.tools.endings import COMPACT

_DONE = "[done]"
_OUTDATED = "[a listing; files were created, moved or deleted since]"
_LISTINGS = {"glob", "list", "ls", "list_dir", "list_files"}
_LISTING_COMMAND = re.compile(r"(?:ls|tree|find|fd|git ls-files)\b[^|;&<>$`\n]*")
_ASIDE = {"description", "timeout", "timeout_s"}
"""Arguments that change nothing of what is done."""
_ENDING_EITHER_WAY = ("test", "build", "run")
"""Of these a failure is an outcome too, and replaces the one before."""


@dataclass(slots=True)
class _Later:
    """What came after a deed, and has made it noise. Deeds are taken newest first."""

    calls: dict[str, int] = field(default_factory=dict)
    """By what was called: the newest step."""
    reads: dict[str, list[tuple[Read, int]]] = field(default_factory=dict)
    """By path, newest first."""
    moved: bool = False
    """Whether files have come or gone."""

    def take(self, deed: Deed, *, in_full: bool) -> None:
        self.moved = self.moved or any(write.how != "edit" for write in deed.writes)
        if not in_full or (deed.failed and deed.action not in _ENDING_EITHER_WAY) or _told_nothing(deed):
            return
        self.calls.setdefault(_called(deed), deed.step)
        if deed.action == "read":
            for read in deed.reads:
                self.reads.setdefault(read.path, []).append((read, deed.step))

    def replaces(self, deed: Deed) -> str:
        """What is to be shown of it; empty where it is no noise."""
        if _confirms(deed):
            return _DONE
        if deed.action in ("write", "end"):
            return ""
        step = self.calls.get(_called(deed)) or self._read_again(deed)
        if step is not None:
            return f"[superseded by step {step}]"
        return _OUTDATED if self.moved and _lists(deed) else ""

    def _read_again(self, deed: Deed) -> int | None:
        """The newest step by which all that it read was read again."""
        if deed.action != "read" or not deed.reads:
            return None
        steps = [self._covering(read) for read in deed.reads]
        return max((step for step in steps if step is not None), default=None) if None not in steps else None

    def _covering(self, read: Read) -> int | None:
        return next((step for other, step in self.reads.get(read.path, ()) if _covers(other, read)), None)


def noise(state: ContextState) -> dict[int, str]:
    """By step, what is to be shown in place of a result that is noise; none that is longer than what is shown now."""
    spared = {step for deed in state.deeds for step in bases(deed)}
    candidates = {deed.step for deed in find_seen(state)} - spared
    later = _Later()
    found: dict[int, str] = {}
    for deed in reversed(state.deeds):
        text = later.replaces(deed) if deed.step in candidates else ""
        if text and len(text) < len(text_of(state, deed)):
            found[deed.step] = text
        later.take(deed, in_full=deed.step not in state.edit.results and deed.result.text == deed.whole)
    return found


def _confirms(deed: Deed) -> bool:
    """A tool's word that it has done what it was called for. What a command printed is data, whatever it wrote."""
    if deed.failed or deed.result.is_error:
        return False
    return deed.call.name == COMPACT or (deed.action == "write" and not deed.command and not deed.reads)


def _told_nothing(deed: Deed) -> bool:
    """It was refused, or never run: what the same call showed before still stands."""
    return deed.result.is_error and deed.status is None


def _lists(deed: Deed) -> bool:
    if deed.command:
        return _LISTING_COMMAND.fullmatch(deed.command.strip()) is not None
    return deed.call.name in _LISTINGS


def _covers(other: Read, read: Read) -> bool:
    """What is asked for without lines may be a page of it only: it covers no more than the like."""
    if read.part or other.part:
        return False
    if read.whole or other.whole:
        return read.whole and other.whole
    return (other.first or 1) <= (read.first or 1) and _last(other) >= _last(read)


def _last(read: Read) -> float:
    return float("inf") if read.last is None else read.last


def _called(deed: Deed) -> str:
    given = {key: value for key, value in deed.call.arguments.items() if key not in _ASIDE}
    return f"{deed.call.name} {json.dumps(given, sort_keys=True)}"
