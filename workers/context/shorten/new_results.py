"""
Birth transforms: they shorten a result when it enters a conversation, and never later.

A shortened form refers only to results that are shown in full. So the whole text is at most one step away, and before
hiding a result a profile consults `bases`. A first line with an exit status always stays.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from hashlib import blake2b
from typing import Literal

from forgepool.workers.context.shorten.testlogs import Readings, reading, refers_to_lines, without_passed
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.shell.purpose.file_access import Action, Read, Write
from forgepool.workers.tools.files.text_file import receipt

CONTEXT = 2
"""Unchanged lines shown around a change."""
MOST_LINES = 2_000
"""Lines that differ on either side, beyond which a comparison takes too long."""


def difference(old: str, new: str, limit: int) -> str | None:
    """
    Return the hunks of a diff without file names; empty for equal texts.

    None means that they exceed `limit` characters, or that the texts are too long. Counting unshared lines first makes
    a refusal cheap.
    """
    before, after = old.split("\n"), new.split("\n")
    if _least(before, after) > limit:
        return None
    at, cut = _alike(before, after)
    before, after = before[at : len(before) - cut], after[at : len(after) - cut]
    if max(len(before), len(after)) > MOST_LINES:
        return None
    text = "\n".join(_hunks(before, after, at))
    return text if len(text) <= limit else None


def _least(before: Sequence[str], after: Sequence[str]) -> int:
    """Count the characters of unshared lines, which any diff has at least."""
    old, new = Counter(before), Counter(after)
    alone = (old - new) + (new - old)
    return max(0, sum((len(line) + 2) * times for line, times in alone.items()) - 1)


def _alike(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """Count the lines both begin and end with, less those shown around a change."""
    shorter = min(len(before), len(after))
    at = 0
    while at < shorter and before[at] == after[at]:
        at += 1
    cut = 0
    while cut < shorter - at and before[-1 - cut] == after[-1 - cut]:
        cut += 1
    return max(0, at - CONTEXT), max(0, cut - CONTEXT)


def _hunks(before: Sequence[str], after: Sequence[str], at: int) -> list[str]:
    lines: list[str] = []
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT):
        _, old_first, _, new_first, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        lines.append(f"@@ -{_range(old_first, old_end, at)} +{_range(new_first, new_end, at)} @@")
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                lines += [f" {line}" for line in before[old_from:old_to]]
                continue
            lines += [f"-{line}" for line in before[old_from:old_to]]
            lines += [f"+{line}" for line in after[new_from:new_to]]
    return lines


def _range(first: int, end: int, at: int) -> str:
    """Return a hunk's range, from 1, without a length of one."""
    return str(at + first + 1) if end - first == 1 else f"{at + first + 1},{end - first}"


Spill = Callable[[str], str | None]
"""Writes a text to a file for the agent and returns its path; None where that fails."""
By = Literal["", "receipt", "identical", "overlap", "difference", "tests", "cap"]

_ENDED = re.compile(
    r"(?:\[(?:exit status|ended by signal|killed|not started)[^\n]*\]|<returncode>-?\d+</returncode>)\n"
)
_BASE = re.compile(
    r"(?m)^\[(?:(?:the rest is )?identical to the result of step (\d+) \(.*\)"
    r"|lines \d+-\d+ are as in step (\d+)|as in step (\d+) but for:)\]$"
)
_NAMED_BY = ("path", "file_path", "command", "pattern", "query")
_ASIDE = frozenset({"description", "timeout", "timeout_s"})
_NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """The forms to try and their limits. None or False disables a form."""

    receipts: bool = True
    identical_characters: int | None = 200
    overlaps: bool = True
    differences: bool = True
    """Shorten repeated commands to a diff. Reads stay whole: an agent that reads a file again wants to change it."""
    saved_characters: int = 400
    """Characters that an overlap or a difference must save."""
    overlap_saved: float = 0.3
    """The share of its text that an overlap must save."""
    difference_share: float = 0.5
    """The greatest share of its text that a difference may take."""
    tests: bool = True
    tests_saved_characters: int = 1_000
    tests_saved: float = 0.3
    cap_characters: int | None = 16_000
    """Characters beyond which a result is cut. Reads are exempt: they come in pages."""

    @classmethod
    def lossless(cls) -> "Birth":
        """Return the forms from which the text can be restored byte for byte."""
        return cls(tests=False, cap_characters=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entering:
    """A new result and the facts about its call."""

    call: ToolCall
    text: str
    action: Action
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    failed: bool = False
    iteration: int = 0
    """The number of the model's turn that made the call."""
    shown_from: int = 1
    """The first step from which all results are shown as they entered."""
    spill: Spill | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Newborn:
    text: str
    by: By = ""
    bases: frozenset[int] = frozenset()
    """Steps whose results it refers to."""


def bases(deed: Deed) -> frozenset[int]:
    """Return the steps a shortened result refers to. Where one of them is hidden, its `whole` must be shown."""
    if deed.result.text == deed.whole:
        return frozenset()
    return _steps(deed.result.text)


@dataclass(slots=True)
class Births:
    """
    The memory of a conversation that later results may refer to, so that each result is looked at once.

    Deeds are taken in order, each after its result was shortened.
    """

    birth: Birth
    _texts: dict[bytes, tuple[int, ToolCall]] = field(default_factory=dict)
    """The newest step that shows each text in full, by digest without its first line."""
    _runs: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    """The newest step and text that show the result of each call in full."""
    _readings: Readings = field(default_factory=Readings)

    def take(self, deed: Deed) -> None:
        for write in deed.writes:
            self._readings.forget(write)
        (_, shown), (_, whole) = _parted(deed.result.text), _parted(deed.whole)
        if deed.result.text == deed.whole:
            self._texts[_digest(whole)] = (deed.step, deed.call)
            self._runs[_key(deed.call)] = (deed.step, whole)
        elif not refers_to_lines(shown):
            return
        if (read := reading(deed.action, deed.reads, whole)) is not None:
            self._readings.take(deed.step, read, shown)

    def shorten_result(self, entering: Entering) -> Newborn:
        found = self._receipt(entering) or self._identical(entering) or self._shortest(entering)
        born = found or Newborn(text=entering.text)
        cap = self.birth.cap_characters
        if cap is not None and len(born.text) > cap and born.by != "tests" and entering.action != "read":
            born = _capped(entering, cap) or born
        return born if len(born.text) < len(entering.text) else Newborn(text=entering.text)

    def _receipt(self, entering: Entering) -> Newborn | None:
        """Replace the echo of a written text. The tool's other words stay, and the call still holds the text."""
        if not self.birth.receipts or entering.failed or entering.action != "write" or len(entering.writes) != 1:
            return None
        write, content = entering.writes[0], _content(entering.call)
        echo = content.rstrip("\n")
        at = entering.text.find(echo)
        if write.how != "create" or not echo or at < 0 or 2 * len(echo) < len(entering.text):
            return None
        told = receipt(len(content.encode("utf-8", "surrogatepass")), write.path, entering.iteration)
        if told in entering.text:
            return None
        return Newborn(text=entering.text[:at] + told + entering.text[at + len(echo) :], by="receipt")

    def _identical(self, entering: Entering) -> Newborn | None:
        least = self.birth.identical_characters
        ended, body = _parted(entering.text)
        if least is None or len(body) < least:
            return None
        step, call = self._texts.get(_digest(body), (0, entering.call))
        if step < max(1, entering.shown_from):
            return None
        what = "the rest is identical" if ended else "identical"
        text = f"{ended}[{what} to the result of step {step} ({_name(call)})]"
        return Newborn(text=text, by="identical", bases=frozenset({step}))

    def _shortest(self, entering: Entering) -> Newborn | None:
        forms = [self._overlap(entering), self._difference(entering), self._tests(entering)]
        for form in sorted((form for form in forms if form is not None), key=lambda form: len(form.text)):
            if (kept := _with_whole(form, entering)) is not None:
                return kept
        return None

    def _overlap(self, entering: Entering) -> Newborn | None:
        ended, body = _parted(entering.text)
        read = reading(entering.action, entering.reads, body) if self.birth.overlaps else None
        text = self._readings.cut_overlap(read, body, entering.shown_from) if read is not None else None
        worth = max(self.birth.saved_characters, int(len(body) * self.birth.overlap_saved))
        if text is None or len(body) - len(text) < worth:
            return None
        return Newborn(text=ended + text, by="overlap", bases=_steps(text))

    def _difference(self, entering: Entering) -> Newborn | None:
        ended, body = _parted(entering.text)
        step, before = self._runs.get(_key(entering.call), (0, ""))
        if not self.birth.differences or entering.action == "read" or step < max(1, entering.shown_from):
            return None
        heading = f"{ended}[as in step {step} but for:]\n"
        limit = min(len(body) - self.birth.saved_characters, int(len(body) * self.birth.difference_share))
        hunks = difference(before, body, limit - len(heading))
        return None if hunks is None else Newborn(text=heading + hunks, by="difference", bases=frozenset({step}))

    def _tests(self, entering: Entering) -> Newborn | None:
        if not self.birth.tests or entering.spill is None or entering.action in ("read", "search", "end"):
            return None
        ended, body = _parted(entering.text)
        cap = self.birth.cap_characters
        needed = max(self.birth.tests_saved_characters, int(len(body) * self.birth.tests_saved))
        if cap is not None and len(entering.text) > cap:
            needed = 1
        text = without_passed(body) if len(body) > needed else None
        if text is None:
            return None
        left = body.count("\n") - text.count("\n")
        text = f"{ended}{text}\n[{left} lines on what passed, and warnings, are left out]"
        return Newborn(text=text, by="tests") if len(entering.text) - len(text) >= needed else None


def _capped(entering: Entering, cap: int) -> Newborn | None:
    """Cut to both ends, more of the last; None where the whole cannot be kept."""
    text = entering.text
    head_end, tail_start = cap // 3, len(text) - (cap - cap // 3)
    head_end = text.rfind("\n", 0, head_end) + 1 or head_end
    tail_start = text.find("\n", tail_start) + 1 or tail_start
    path = entering.spill(text) if entering.spill is not None else None
    if path is None:
        return None
    head = text[:head_end]
    note = f"[{tail_start - head_end:,} characters are left out here; all of it: read_file or grep {path}]"
    between = "" if head.endswith("\n") else "\n"
    return Newborn(text=f"{head}{between}{note}\n{text[tail_start:]}", by="cap")


def _with_whole(form: Newborn, entering: Entering) -> Newborn | None:
    """Add a note where the whole text is; None where the form needs that and it cannot be kept."""
    if form.by == "overlap":
        return form
    path = entering.spill(entering.text) if entering.spill is not None else None
    if path is None:
        return form if form.by == "difference" else None
    return replace(form, text=f"{form.text}\n[all of it: read_file or grep {path}]")


def _parted(text: str) -> tuple[str, str]:
    """Split off the first line with an exit status."""
    ended = _ENDED.match(text)
    return (ended[0], text[ended.end() :]) if ended else ("", text)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _key(call: ToolCall) -> bytes:
    """Return a key equal for calls that do the same, apart from descriptions and time limits."""
    given = sorted((name, str(value)) for name, value in call.arguments.items() if name not in _ASIDE)
    return _digest(f"{call.name} {given!r}")


def _name(call: ToolCall) -> str:
    texts = [value for key in _NAMED_BY if isinstance(value := call.arguments.get(key), str)]
    name = " ".join(" ".join([call.name, *texts[:1]]).split())
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"


def _content(call: ToolCall) -> str:
    return max((value for value in call.arguments.values() if isinstance(value, str)), key=len, default="")


def _steps(text: str) -> frozenset[int]:
    return frozenset(int(step) for found in _BASE.findall(text) for step in found if step)


def mend_edit(edit: Edit, deeds: Sequence[Deed]) -> Edit:
    """Show results in full where they would refer to something the edit hides."""
    whole: dict[int, str] = {}
    for deed in reversed(deeds):
        if deed.turn < edit.cut:
            break
        if deed.step not in edit.results and any(_is_gone(step, deeds, edit) for step in bases(deed)):
            whole[deed.step] = deed.whole
    return edit.model_copy(update={"results": {**edit.results, **whole}}) if whole else edit


def _is_gone(step: int, deeds: Sequence[Deed], edit: Edit) -> bool:
    if not 0 < step <= len(deeds):
        return True
    base = deeds[step - 1]
    return base.turn < edit.cut or edit.results.get(step, base.whole) != base.whole
