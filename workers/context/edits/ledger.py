"""
The ledger: a line for what happened, by rules and from facts alone, that outlives every rebuild.

Lines are only appended: who keeps them keeps the same bytes from one rebuild to the next. A ledger that has outgrown
its room is condensed: it then names every path and keeps every decision and requirement all the same, as far as there
is room for them, how each test and build ended when it was last run, and the last failures; of other commands it says
how many there were.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from forgepool.workers.context.edits.masks import HARNESS
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.names import find_definitions
from forgepool.workers.llm.messages import Text, Turn
from forgepool.workers.shell.purpose.file_access import Action, Read, Write

_LIST_CHARACTERS = 4_000
_LISTED_OUTCOMES = 12
_LISTED_FAILURES = 8
_LINE_CHARACTERS = 160
_PERSON_CHARACTERS = 4_000
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
    return [_ended(named, deed) for named, deed in list(newest.items())[-_LISTED_OUTCOMES:]]


def failures(deeds: Sequence[Deed]) -> list[str]:
    """The newest things that failed, tests and builds left out, the newest last."""
    failed: list[Deed] = []
    for deed in reversed(deeds):
        if deed.failed and deed.action not in ("test", "build"):
            failed.append(deed)
        if len(failed) == _LISTED_FAILURES:
            break
    return [
        f"step {deed.step}, {_clip(deed.command or deed.call.name)}: {_clip(_first_line(deed.whole))}"
        for deed in reversed(failed)
    ]


def find_said(turns: Iterable[Turn]) -> Iterator[str]:
    """What persons said on the user's side, in their words."""
    for turn in turns:
        for part in turn.parts:
            if turn.role == "user" and isinstance(part, Text) and by_person(part.text):
                yield _clip(part.text.strip(), _PERSON_CHARACTERS)


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
    return f"`{_clip(named)}` {'failed' if deed.failed else 'succeeded'}{status} (step {deed.step})"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _clip(text: str, most: int = _LINE_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


_MOST_SYMBOLS = 6
_MOST_DECISIONS = 4
"""Of one turn."""
_MOST_OUTCOMES, _MOST_FAILURES = 30, 8
"""Of a condensed ledger."""
_COMMAND_CHARACTERS = 110
_LEAST_SAID, _SAID_CHARACTERS = 15, 220
_REQUIREMENT_CHARACTERS = 20_000
_FAILURE_LINES = 3
_FAILURE_CHARACTERS = 160
_PERSON = "  the person said: "
_NO_END = 1 << 40
_DECIDES = re.compile(
    r"\b(?:decided|chose|going with|root cause|turns out|found that|must(?: not)?"
    r"|the (?:fix|cause|problem|bug) (?:is|was))\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_ITEM = re.compile(r"^\s*(?:[-*#>]+|\d+[.)])\s+")
_TELLS_FAILURE = re.compile(r"^(?:FAILED|ERROR|FAIL|E  |error|.*(?:Error|Exception|panic)\b)|^--- FAIL|\bnot ok\b")
_FRAME = re.compile(r"^\s*(?:\[exit status|\[killed|</?\w+>|<returncode>|```)")
_CHECKS: frozenset[Action] = frozenset({"test", "build"})
_DONE = {"create": "created", "edit": "edited", "delete": "deleted", "move": "moved", "shell": "changed by a command"}


def lines(turns: Sequence[Turn], deeds: Sequence[Deed], first: int, last: int) -> Iterator[str]:
    """Of the turns at places `first` up to, not including, `last`; `deeds` are those of these turns, in order."""
    done = 0
    for place in range(max(1, first), last):
        yield from _said(turns[place])
        while done < len(deeds) and deeds[done].turn <= place:
            yield line(deeds[done])
            done += 1


def line(deed: Deed) -> str:
    """`12 read src/a.py:10-40 (Foo, bar)`: the step, what was done and how that ended."""
    return f"{deed.step} {_told(deed)}{_ending(deed)}"


def decisions(text: str) -> list[str]:
    """The sentences in which a turn decides or finds something, as they were said; the last few of them."""
    found = (_plain(each) for each in _SENTENCE_END.split(text) if _DECIDES.search(each))
    return [_short(each, _SAID_CHARACTERS) for each in found if len(each) > _LEAST_SAID][-_MOST_DECISIONS:]


def _said(turn: Turn) -> Iterator[str]:
    """The model's decisions; on the user's side, what a person wants."""
    if turn.role == "assistant":
        yield from (f"  decided: {said}" for said in decisions(turn.text))
        return
    for part in turn.parts:
        if isinstance(part, Text) and by_person(part.text):
            # Folded, so that no line of it can look like one of the ledger's own.
            yield f"{_PERSON}{_short(part.text.strip(), _REQUIREMENT_CHARACTERS)}".replace("\n", "\n    | ")


def _told(deed: Deed) -> str:
    match deed.action:
        case "read":
            where = ", ".join(map(_read, deed.reads)) or _command(deed)
            symbols = ", ".join(find_definitions(deed.whole)[:_MOST_SYMBOLS])
            return f"read {where} ({symbols})" if symbols else f"read {where}"
        case "write":
            written = "; ".join(map(_written, deed.writes)) or f"changed files: {_command(deed)}"
            return f"{written}; tested: {_command(deed)}" if _is_check(deed) else written
        case "search":
            return f"searched: {_command(deed)}{_hits(deed)}"
        case "test":
            return f"tested: {_command(deed)}"
        case "build":
            return f"built: {_command(deed)}"
        case _:
            return f"{deed.call.name}: {_command(deed)}" if not deed.command else f"ran: {_command(deed)}"


def _read(read: Read) -> str:
    if read.whole:
        return read.path
    return f"part of {read.path}" if read.part else f"{read.path}:{read.first or 1}-{read.last or ''}"


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
        return " -> ok" if _is_check(deed) else ""
    status = f"exit {deed.status}" if deed.status is not None else "failed"
    said = failure(deed.whole)
    return f" -> {status}{f': {said}' if said else ''}"


def failure(text: str) -> str:
    """The lines that tell what failed, a few of them; else the last one."""
    plain = [each.strip() for each in text.splitlines() if each.strip() and not _FRAME.match(each)]
    telling = [each for each in plain if _TELLS_FAILURE.match(each)] or plain[-1:]
    return "; ".join(_short(each, _FAILURE_CHARACTERS) for each in dict.fromkeys(telling[-_FAILURE_LINES:]))


def _is_check(deed: Deed) -> bool:
    return not _CHECKS.isdisjoint({deed.action, *deed.does})


def condense_lines(turns: Sequence[Turn], deeds: Sequence[Deed], last: int, *, room: int = _NO_END) -> Iterator[str]:
    """
    As `lines`, of all turns up to `last`, and much shorter; of about `room` characters at most.

    Where that is too little, the oldest go first: decisions before paths, and both before what persons said.
    """
    ends, files = list(_endings(deeds)), _files(deeds)
    left = max(0, room - _size(ends))
    told = [_short(each, max(_SAID_CHARACTERS, left // 4)) for place in range(1, last) for each in _said(turns[place])]
    persons = _newest(told, left // 2, _is_persons)
    shown = _newest(files, max(left // 3, left - _size(told)))
    left -= _size(told[each] for each in persons) + _size(files[each] for each in shown)
    said = persons | _newest(told, left, lambda each: not _is_persons(each))
    yield from _with_gaps(told, said, "decisions and wishes")
    yield from _with_gaps(files, shown, "files")
    yield from ends


def _endings(deeds: Sequence[Deed]) -> Iterator[str]:
    """How each test and build ended when it was last run, the last failures, and how many other commands there were."""
    others: list[Deed] = []
    checked: dict[str, Deed] = {}
    for deed in deeds:
        if _is_check(deed):
            checked.pop(_told(deed), None)
            checked[_told(deed)] = deed
        elif not deed.reads and not deed.writes:
            others.append(deed)
    if others:
        yield f"  searches and other commands: {len(others)}, the last at step {others[-1].step}"
    failed = [deed for deed in deeds if deed.failed and not _is_check(deed)]
    kept = [*failed[-_MOST_FAILURES:], *list(checked.values())[-_MOST_OUTCOMES:]]
    yield from map(line, sorted(kept, key=lambda deed: deed.step))


def _files(deeds: Iterable[Deed]) -> list[str]:
    """A line for each, the one touched last at the end: what was done to it how often, and when last."""
    files: dict[str, list[str]] = {}
    steps: dict[str, int] = {}
    for deed in deeds:
        done = [(read.path, "read") for read in deed.reads] + [(one.path, _DONE[one.how]) for one in deed.writes]
        for path, what in done:
            files[path] = files.pop(path, [])
            files[path].append(what)
            steps[path] = deed.step
    return [f"  {path}: {_counted(whats)}, last at step {steps[path]}" for path, whats in files.items()]


def _counted(whats: Sequence[str]) -> str:
    return ", ".join(f"{what} {whats.count(what)}x" for what in dict.fromkeys(whats))


def _newest(told: Sequence[str], room: int, of: Callable[[str], bool] = bool) -> set[int]:
    """The places of the last of these that there is room for."""
    kept: set[int] = set()
    for place in range(len(told) - 1, -1, -1):
        if of(told[place]):
            room -= len(told[place]) + 1
            if room < 0:
                break
            kept.add(place)
    return kept


def _with_gaps(told: Sequence[str], kept: set[int], what: str) -> Iterator[str]:
    if len(kept) < len(told):
        yield f"  ({len(told) - len(kept)} earlier {what} are left out here)"
    yield from (each for place, each in enumerate(told) if place in kept)


def _size(told: Iterable[str]) -> int:
    return sum(len(each) + 1 for each in told)


def _is_persons(told: str) -> bool:
    return told.startswith(_PERSON)


def _plain(sentence: str) -> str:
    return " ".join(_ITEM.sub("", sentence).split())


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
