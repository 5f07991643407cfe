"""
Birth transforms: a result shortened when it enters a conversation, and never later.

A form refers only to results that are still shown, and shown in full; so it is at most one step away from what it
leaves out, and whoever lets go of a result looks at `bases` first. A first line that says how a command ended stays in
front of every form. What it cost the worker to make a result, and whether that is an error, is not seen here.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal

from forgepool.workers.context.history.actions import Action, Deed, Read, Write
from forgepool.workers.context.shorten.difference import difference
from forgepool.workers.context.shorten.overlap import Readings, reading, refers_to_lines
from forgepool.workers.context.shorten.testlogs import without_passed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.tools.files.text_file import receipt

Spill = Callable[[str], str | None]
"""Writes a text to a file the agent can read, and says under which path; None where that could not be done."""
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
    """Which forms are tried, and from when on. None or False is never."""

    receipts: bool = True
    identical_characters: int | None = 200
    overlaps: bool = True
    differences: bool = True
    """Not of readings: who reads a file again wants its text as it is now, to change it."""
    saved_characters: int = 400
    """What an overlap or a difference saves at least."""
    overlap_saved: float = 0.3
    """And of its text, an overlap."""
    difference_share: float = 0.5
    """The most that a difference may have of its text."""
    tests: bool = True
    tests_saved_characters: int = 1_000
    tests_saved: float = 0.3
    cap_characters: int | None = 16_000
    """Not of readings: who reads wants the lines asked for, and the tools that read give them in pages."""

    @classmethod
    def lossless(cls) -> "Birth":
        """Every form is one from which, with what is shown, the text can be made again byte for byte."""
        return cls(tests=False, cap_characters=None)

    def shorten_result(self, entering: "Entering", before: Iterable[Deed]) -> "Newborn":
        """As `Births` says after it took all of `before`, oldest first."""
        births = Births(self)
        for deed in before:
            births.take(deed)
        return births.shorten_result(entering)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entering:
    """A result, and what is known of its call."""

    call: ToolCall
    text: str
    action: Action
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    failed: bool = False
    iteration: int = 0
    """The number of the model's turn that called."""
    shown_from: int = 1
    """The first step whose result is still shown as it was born, and every later one is."""
    spill: Spill | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Newborn:
    text: str
    by: By = ""
    bases: frozenset[int] = frozenset()
    """The steps whose results it refers to."""


def bases(deed: Deed) -> frozenset[int]:
    """The steps that a shortened result refers to: where one of them is no longer shown, its `whole` is to be."""
    if deed.result.text == deed.whole:
        return frozenset()
    return _steps(deed.result.text)


@dataclass(slots=True)
class Births:
    """
    Remembers of a conversation what a later result may refer to, so that no birth looks at all that went before.

    A deed is taken once, after its result was born, in order.
    """

    birth: Birth
    _texts: dict[bytes, tuple[int, ToolCall]] = field(default_factory=dict)
    """By digest of the text without its first line: the newest step that shows it in full."""
    _runs: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    """By call: the newest step that shows its result in full, and that text."""
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
        """In place of the echo; what a tool says beside it stays, and with the call's input so does all of it."""
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
    """Both ends, the end counting for more; None where the whole could not be kept elsewhere."""
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
    """With a note of where all of it is. None where a form needs one and the whole could not be kept."""
    if form.by == "overlap":
        return form
    path = entering.spill(entering.text) if entering.spill is not None else None
    if path is None:
        return form if form.by == "difference" else None
    return replace(form, text=f"{form.text}\n[all of it: read_file or grep {path}]")


def _parted(text: str) -> tuple[str, str]:
    """The line that says how a command ended, where there is one, and the rest."""
    ended = _ENDED.match(text)
    return (ended[0], text[ended.end() :]) if ended else ("", text)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _key(call: ToolCall) -> bytes:
    """Equal for calls that do the same: what a call is described as, and how long it may take, do not count."""
    given = sorted((name, str(value)) for name, value in call.arguments.items() if name not in _ASIDE)
    return _digest(f"{call.name} {given!r}")


def _name(call: ToolCall) -> str:
    """A call as a person would speak of it, on one line."""
    texts = [value for key in _NAMED_BY if isinstance(value := call.arguments.get(key), str)]
    name = " ".join(" ".join([call.name, *texts[:1]]).split())
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"


def _content(call: ToolCall) -> str:
    """The longest text it was called with."""
    return max((value for value in call.arguments.values() if isinstance(value, str)), key=len, default="")


def _steps(text: str) -> frozenset[int]:
    return frozenset(int(step) for found in _BASE.findall(text) for step in found if step)


def mend_edit(edit: Edit, deeds: Sequence[Deed]) -> Edit:
    """The edit, with the whole text of every result shown that would refer to one which is not shown in full."""
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
