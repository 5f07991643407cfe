"""
The facts of a conversation in sentences, and the ledger: a line for each event, which outlives every rebuild.

Rules derive all of it from the deeds, and it overrides a model's summary. The ledger only grows, so its beginning stays
the same bytes. A ledger that outgrows its room is condensed to paths, decisions and requirements. The last result of
each test and build, the last failures, and a count of other commands follow them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

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
_DONE = {"create": "created", "edit": "edited", "delete": "deleted", "move": "moved", "shell": "changed by a command"}


def files(deeds: Iterable[Deed]) -> str:
    """
    List the paths written with the last change to each, and the paths only read. A failed command may have done less.
    """
    written: dict[str, str] = {}
    read: dict[str, None] = {}
    for deed in deeds:
        for write in deed.writes:
            written.pop(write.path, None)
            written[write.path] = f"{write.path} ({_DONE[write.how]})"
        read.update((each.path, None) for each in deed.reads)
    only_read = [path for path in read if path not in written]
    return f"Written: {_listed([*written.values()])}\nRead: {_listed(only_read)}"


def outcomes(deeds: Sequence[Deed]) -> list[str]:
    """Return the last result of each test and build, the newest last."""
    newest: dict[str, Deed] = {}
    for deed in deeds:
        if deed.action in _CHECKS:
            named = deed.command or deed.call.name
            newest.pop(named, None)
            newest[named] = deed
    return [_ended(named, deed) for named, deed in list(newest.items())[-_LISTED_OUTCOMES:]]


def failures(deeds: Sequence[Deed]) -> list[str]:
    """Return the newest failures other than tests and builds, the newest last."""
    failed = [deed for deed in deeds if deed.failed and deed.action not in _CHECKS][-_LISTED_FAILURES:]
    return [
        f"step {deed.step}, {_short(deed.command or deed.call.name)}: {_short(_first_line(deed.whole))}"
        for deed in failed
    ]


def find_said(turns: Iterable[Turn]) -> Iterator[str]:
    """Yield what persons wrote on the user's side."""
    for turn in turns:
        for part in turn.parts:
            if turn.role == "user" and isinstance(part, Text) and by_person(part.text):
                yield _short(part.text.strip(), _PERSON_CHARACTERS)


def by_person(text: str) -> bool:
    return bool(text.strip()) and not text.startswith(HARNESS)


def _listed(names: list[str]) -> str:
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


_MOST_SYMBOLS = 6
_MOST_DECISIONS = 4
"""Decisions of one turn."""
_MOST_OUTCOMES, _MOST_FAILURES = 30, 8
"""Lines of a condensed ledger."""
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


def lines(turns: Sequence[Turn], deeds: Sequence[Deed], first: int, last: int) -> Iterator[str]:
    """Yield the lines for the turns from `first` up to, not including, `last`, with their deeds in order."""
    done = 0
    for place in range(max(1, first), last):
        yield from _said(turns[place])
        while done < len(deeds) and deeds[done].turn <= place:
            yield line(deeds[done])
            done += 1


def line(deed: Deed) -> str:
    """Return the line of a deed: step, action and outcome, as in `12 read src/a.py:10-40 (Foo, bar)`."""
    return f"{deed.step} {_told(deed)}{_ending(deed)}"


def decisions(text: str) -> list[str]:
    """Return the last few sentences in which a turn decides or finds something."""
    found = (_plain(each) for each in _SENTENCE_END.split(text) if _DECIDES.search(each))
    return [_short(each, _SAID_CHARACTERS) for each in found if len(each) > _LEAST_SAID][-_MOST_DECISIONS:]


def _said(turn: Turn) -> Iterator[str]:
    """Yield the model's decisions, or what persons wrote."""
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
    words = deed.command.split() or map(str, deed.call.arguments.values())
    return _short(" ".join(words), _COMMAND_CHARACTERS)


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
    """Return a few lines that tell what failed, or else the last line."""
    plain = [each.strip() for each in text.splitlines() if each.strip() and not _FRAME.match(each)]
    telling = [each for each in plain if _TELLS_FAILURE.match(each)] or plain[-1:]
    return "; ".join(_short(each, _FAILURE_CHARACTERS) for each in dict.fromkeys(telling[-_FAILURE_LINES:]))


def _is_check(deed: Deed) -> bool:
    return not _CHECKS.isdisjoint({deed.action, *deed.does})


def condense_lines(turns: Sequence[Turn], deeds: Sequence[Deed], last: int, *, room: int = _NO_END) -> Iterator[str]:
    """
    Yield a much shorter ledger of all turns up to `last`, of about `room` characters at most.

    Where that is too little, the oldest lines go first: decisions before paths, and both before what persons wrote.
    """
    ends, files = list(_endings(deeds)), _files(deeds)
    left = max(0, room - _size(ends))
    told = [_short(each, max(_SAID_CHARACTERS, left // 4)) for place in range(1, last) for each in _said(turns[place])]
    persons = _newest(told, left // 2, of_person=True)
    shown = _newest(files, max(left // 3, left - _size(told)))
    left -= _size(told[each] for each in persons) + _size(files[each] for each in shown)
    said = persons | _newest(told, left, of_person=False)
    yield from _with_gaps(told, said, "decisions and wishes")
    yield from _with_gaps(files, shown, "files")
    yield from ends


def _endings(deeds: Sequence[Deed]) -> Iterator[str]:
    """Yield the last results of tests and builds, the last failures, and the count of other commands."""
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
    """Return a line for each file, the last touched at the end: what was done how often, and when last."""
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


def _newest(told: Sequence[str], room: int, *, of_person: bool = False) -> set[int]:
    kept: set[int] = set()
    for place in range(len(told) - 1, -1, -1):
        if told[place].startswith(_PERSON) == of_person:
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


def _plain(sentence: str) -> str:
    return " ".join(_ITEM.sub("", sentence).split())


def _short(text: str, most: int = _LINE_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
