"""
The ledger: a line for what happened, by rules and from facts alone, that outlives every rebuild.

Lines are only appended: a ledger's blocks are the same bytes in one rebuild as in the next, so that a cache keeps them.
Only a ledger that has outgrown its room is condensed, oldest lines first, and then names every path and keeps every
decision and requirement all the same.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from workers.context.deeds import Deed, Read, Write
from workers.context.names import defined
from workers.llm.messages import Text, Turn

_MOST_SYMBOLS = 6
_COMMAND_CHARACTERS = 110
_LEAST_SAID, _SAID_CHARACTERS = 15, 220
_REQUIREMENT_CHARACTERS = 4_000
_FAILURE_LINES = 3
_FAILURE_CHARACTERS = 160
_DECIDES = re.compile(
    r"\b(?:decided|chose|going with|root cause|turns out|found that|must(?: not)?"
    r"|the (?:fix|cause|problem|bug) (?:is|was))\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_TELLS_FAILURE = re.compile(r"^(?:FAILED|ERROR|FAIL|E  |error|.*(?:Error|Exception|panic)\b)|^--- FAIL|\bnot ok\b")
_FRAME = re.compile(r"^\s*(?:\[exit status|\[killed|</?\w+>|<returncode>|```)")
_DONE = {"create": "created", "edit": "edited", "delete": "deleted", "move": "moved", "shell": "changed by a command"}


def lines(turns: Sequence[Turn], deeds: Sequence[Deed], first: int, last: int) -> Iterator[str]:
    """Of the turns at places `first` up to, not including, `last`; `deeds` are those of these turns, in order."""
    waiting = list(deeds)
    for place in range(max(1, first), last):
        turn = turns[place]
        if turn.role == "user":
            yield from _requirements(turn)
            continue
        if said := decision(turn.text):
            yield f"  decided: {said}"
        while waiting and waiting[0].turn <= place:
            yield line(waiting.pop(0))


def line(deed: Deed) -> str:
    """`12 read src/a.py:10-40 (Foo, bar)`: the step, what was done and how that ended."""
    return f"{deed.step} {_told(deed)}{_ending(deed)}"


def decision(text: str) -> str:
    """The sentence in which a turn decides or finds something, as it was said; empty where it does not."""
    found = (_plain(each) for each in _SENTENCE_END.split(text) if _DECIDES.search(each))
    return _short(([each for each in found if len(each) > _LEAST_SAID] or [""])[-1], _SAID_CHARACTERS)


def _requirements(turn: Turn) -> Iterator[str]:
    for part in turn.parts:
        if isinstance(part, Text) and part.text.strip() and not part.text.startswith("[the harness]"):
            yield f"  the person said: {_short(part.text.strip(), _REQUIREMENT_CHARACTERS)}"


def _told(deed: Deed) -> str:
    match deed.action:
        case "read":
            where = ", ".join(map(_read, deed.reads[:4])) or _command(deed)
            symbols = ", ".join(defined(deed.whole)[:_MOST_SYMBOLS])
            return f"read {where} ({symbols})" if symbols else f"read {where}"
        case "write":
            return "; ".join(map(_written, deed.writes[:6])) or f"changed files: {_command(deed)}"
        case "search":
            return f"searched: {_command(deed)}{_hits(deed)}"
        case "test":
            return f"tested: {_command(deed)}"
        case "build":
            return f"built: {_command(deed)}"
        case _:
            return f"{deed.call.name}: {_command(deed)}" if not deed.command else f"ran: {_command(deed)}"


def _read(read: Read) -> str:
    return read.path if read.whole else f"{read.path}:{read.first or 1}-{read.last or ''}"


def _written(write: Write) -> str:
    size = f" ({write.characters:,} characters)" if write.characters else ""
    return f"{_DONE[write.how]} {write.path}{size}"


def _command(deed: Deed) -> str:
    if deed.command:
        return _short(" ".join(deed.command.split()), _COMMAND_CHARACTERS)
    return _short(" ".join(str(value) for value in deed.call.arguments.values()), _COMMAND_CHARACTERS)


def _hits(deed: Deed) -> str:
    found = [each for each in deed.whole.splitlines() if each.strip() and not _FRAME.match(each)]
    return f" -> {len(found)} line{'' if len(found) == 1 else 's'}"


def _ending(deed: Deed) -> str:
    if not deed.failed:
        return " -> ok" if deed.action in ("test", "build") else ""
    status = f"exit {deed.status}" if deed.status is not None else "failed"
    said = failure(deed.whole)
    return f" -> {status}{f': {said}' if said else ''}"


def failure(text: str) -> str:
    """The lines that tell what failed, a few of them; else the last one."""
    plain = [each.strip() for each in text.splitlines() if each.strip() and not _FRAME.match(each)]
    telling = [each for each in plain if _TELLS_FAILURE.match(each)] or plain[-1:]
    return "; ".join(_short(each, _FAILURE_CHARACTERS) for each in dict.fromkeys(telling[-_FAILURE_LINES:]))


def condensed(deeds: Iterable[Deed]) -> Iterator[str]:
    """What the oldest deeds come to, a line for each file and command: how often, the last step, the last ending."""
    files: dict[str, list[str]] = {}
    commands: dict[str, list[Deed]] = {}
    for deed in deeds:
        for read in deed.reads:
            files.setdefault(read.path, []).append("read")
        for write in deed.writes:
            files.setdefault(write.path, []).append(_DONE[write.how])
        if not deed.reads and not deed.writes and deed.action != "end":
            commands.setdefault(_told(deed).partition(" -> ")[0], []).append(deed)
    for path, done in files.items():
        counts = ", ".join(f"{what} {done.count(what)}x" for what in dict.fromkeys(done))
        yield f"  {path}: {counts}"
    for told, each in commands.items():
        times = f" {len(each)}x," if len(each) > 1 else ""
        yield f"  {told}{times} last at {each[-1].step}{_ending(each[-1])}"


def _plain(sentence: str) -> str:
    return " ".join(sentence.strip().lstrip("-*#>0123456789. ").split())


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
