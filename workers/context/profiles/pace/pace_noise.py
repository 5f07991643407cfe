"""
What PACE's first stage takes for noise, deed by deed: what was read of a path and the path was written since, and the
earlier runs of a command that was run again. By rules alone, and whole results only.

Order decides: a read made after the last write of its path is never noise, nor is one of which a part is still so.
Where a later result refers to an earlier one ("identical to step 12"), the earlier one stays as long as the later.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from forgepool.workers.context.history.actions import Deed, Read, Write, touches
from forgepool.workers.context.shorten.new_results import bases
from forgepool.workers.context.transcript.exchanges import text_argument
from forgepool.workers.tools.commands.red_phase import CONFIRM

_YOUNG = 4
"""Exchanges that follow a write before its text counts as old."""
_ROOM = 200
"""Characters a placeholder may always have; a longer one must be shorter than what it stands for."""
_RECEIPT = re.compile(r"OK: wrote \d[\d,]* bytes to .+ \(iter \d+\)")


def make_evicted_text(path: str) -> str:
    return f"[evicted: {path} was read here but has since been written — see current version on disk]"


def make_repeated_text(command: str) -> str:
    return f"[dedup: {command} — see most recent output later in history]"


def make_elided_text(characters: int, path: str) -> str:
    return f"[elided: {characters:,} characters, written to {path} — see current version on disk]"


def is_receipt(text: str) -> bool:
    """
    Whether it answers a write (`workers.tools.files.text_file.receipt`), and so repeats nothing of what was written.
    """
    return _RECEIPT.fullmatch(text.strip()) is not None


@dataclass(slots=True, kw_only=True)
class Noise:
    """Grows with what it is given to learn; begins anew where that is another conversation's."""

    order_aware: bool = True
    write_bodies: bool = True
    superseded_reads: bool = False
    results: dict[int, str] = field(default_factory=dict)
    """By step: what may stand in place of a result."""
    inputs: dict[int, Mapping[str, JsonValue]] = field(default_factory=dict)
    """By step: what may stand in place of a call's arguments."""
    referred: dict[int, list[int]] = field(default_factory=dict)
    """By step: the later steps whose results refer to it."""
    planned: Deed | None = None
    """Where a plan was committed last."""
    _learned: list[Deed] = field(default_factory=list)
    _reads: dict[str, list[tuple[Deed, Read]]] = field(default_factory=dict)
    """By path: what was read of it since it was last written."""
    _so: dict[int, set[str]] = field(default_factory=dict)
    """By step of a read: the paths that were not written since."""
    _written: set[str] = field(default_factory=set)
    _runs: dict[str, Deed] = field(default_factory=dict)
    """By command: its newest run."""
    _bodies: dict[str, Deed] = field(default_factory=dict)
    """By path: the newest call that wrote all of it."""
    _young: deque[Deed] = field(default_factory=deque)

    def learn(self, deeds: Sequence[Deed]) -> None:
        """Linear in what is new; what is known is compared, mostly by identity."""
        if list(deeds[: len(self._learned)]) != self._learned:
            self._forget()
        for deed in deeds[len(self._learned) :]:
            self._take(deed)

    def find_hidden(self, start: int, end: int) -> dict[int, str]:
        """Of results to calls in the turns from `start` to before `end`."""
        found = {step: text for step, text in self.results.items() if start <= self._turn(step) < end}
        for step in sorted(found.keys() & self.referred.keys(), reverse=True):
            if any(later not in found for later in self.referred[step]):
                del found[step]
        return found

    def find_elided(self, start: int, end: int) -> dict[int, Mapping[str, JsonValue]]:
        return {step: texts for step, texts in self.inputs.items() if start <= self._turn(step) < end}

    def _turn(self, step: int) -> int:
        return self._learned[step - 1].turn

    def _forget(self) -> None:
        for memory in (self.results, self.inputs, self.referred, self._reads, self._so, self._runs, self._bodies):
            memory.clear()
        self._learned.clear()
        self._written.clear()
        self._young.clear()
        self.planned = None

    def _take(self, deed: Deed) -> None:
        self._learned.append(deed)
        for step in bases(deed):
            self.referred.setdefault(step, []).append(deed.step)
        if deed.call.name == "commit_plan" and not deed.failed:
            self.planned = deed
        self._ran(deed)
        if not deed.failed or deed.command:
            for write in deed.writes:
                self._wrote(write)
        if not deed.failed:
            self._remember_body(deed)
            # What else a command did has printed too, and is not in the file.
            if deed.action == "read" and deed.does <= {"read"}:
                self._remember_read(deed)
        while self._young and len(self._learned) - self._young[0].step >= _YOUNG:
            old = self._young.popleft()
            if self._bodies.get(old.writes[0].path) is old:
                self._elide(self._bodies.pop(old.writes[0].path))

    def _ran(self, deed: Deed) -> None:
        if not deed.command or deed.call.name == CONFIRM or _in_background(deed):
            return
        command = text_argument(deed.call.arguments, "command") or deed.command
        if (before := self._runs.get(command)) is not None:
            placeholder = make_repeated_text(before.command)
            if len(placeholder) <= max(_ROOM, len(before.result.text)):
                self.results.setdefault(before.step, placeholder)
        self._runs[command] = deed

    def _wrote(self, write: Write) -> None:
        for path in self._met(write):
            for deed, _ in self._reads.pop(path, ()):
                self._written_since(deed, path)
            if (body := self._bodies.pop(path, None)) is not None:
                self._elide(body)
        self._written.add(write.path)

    def _met(self, write: Write) -> list[str]:
        """The known paths that a write concerns."""
        if write.how in ("create", "edit"):
            return [write.path]
        return [path for path in {**self._reads, **self._bodies} if touches(write, path)]

    def _written_since(self, deed: Deed, path: str) -> None:
        left = self._so[deed.step]
        left.discard(path)
        if not left:
            self.results.setdefault(
                deed.step, make_evicted_text(", ".join(dict.fromkeys(read.path for read in deed.reads)))
            )

    def _remember_read(self, deed: Deed) -> None:
        self._so[deed.step] = {read.path for read in deed.reads}
        for read in deed.reads:
            if self.superseded_reads:
                self._supersede(read)
            self._reads.setdefault(read.path, []).append((deed, read))
            if not self.order_aware and read.path in self._written:
                self._written_since(deed, read.path)

    def _supersede(self, read: Read) -> None:
        """What an earlier call read and this one reads again, all of it."""
        for before, part in self._reads.get(read.path, ()):
            if len(before.reads) == 1 and _covers(read, part):
                self.results.setdefault(before.step, make_repeated_text(f"read {part.path}"))

    def _remember_body(self, deed: Deed) -> None:
        if self.write_bodies and not deed.command and len(deed.writes) == 1 and deed.writes[0].how == "create":
            self._bodies[deed.writes[0].path] = deed
            self._young.append(deed)

    def _elide(self, deed: Deed) -> None:
        """The longest text of the call, where it is longer than what would stand for it."""
        texts = {name: value for name, value in deed.call.arguments.items() if isinstance(value, str)}
        name = max(texts, key=lambda each: len(texts[each]), default="")
        placeholder = make_elided_text(len(texts.get(name, "")), deed.writes[0].path)
        if len(texts.get(name, "")) > len(placeholder):
            self.inputs[deed.step] = {**deed.call.arguments, name: placeholder}


def _in_background(deed: Deed) -> bool:
    """Its answer names what runs on, and each run is another."""
    return deed.call.name == "bash_background" or deed.call.arguments.get("run_in_background") is True


def _covers(later: Read, earlier: Read) -> bool:
    if later.whole or later.part:
        return later.whole
    if earlier.first is None or earlier.last is None or later.first is None or later.last is None:
        return False
    return later.first <= earlier.first and earlier.last <= later.last
