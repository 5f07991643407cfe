"""
The state of a conversation, derived by rules from its transcript, for EXECUTE to begin with.

No model writes it. Files, plan, test output and the red phase come from results. The model's own sentences are kept as
decisions and labelled so. `excerpts` adds the text of files that were read, so that the model need not read them again.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import yaml

from forgepool.workers.context.transcript.entries import Entry, PlanCommitted, TurnSaid
from forgepool.workers.context.transcript.exchanges import ToolExchange, exchanges, text_argument
from forgepool.workers.schema.orders import Message
from forgepool.workers.shell.purpose.file_access import normal_path
from forgepool.workers.shell.purpose.programs import is_test, reads_only

_MOST_CHARACTERS = 8_000
_MOST_DECISIONS = 12
_DECISION_CHARACTERS = 300
_OUTPUT_CHARACTERS = 3_000
_NUMBERED = re.compile(r"^ *(\d+)\t", re.MULTILINE)
_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_DECIDES = re.compile(
    r"\b(?:I'll|I will|we'll|let's|decided|the (?:fix|plan|cause|reason|problem|issue|bug|change) (?:is|was)|root cause"
    r"|instead of|rather than|because|so that|must(?: not)?|should(?: not)?|turns out|found that|needs? to)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class FileRead(Message):
    path: str
    lines: tuple[tuple[int, int], ...] = ()
    """The first and last line of each stretch shown, in order and with gaps between them."""


class Summary(Message):
    """The state of a conversation."""

    files_read: tuple[FileRead, ...] = ()
    """Files in the order of their first reading."""
    files_written: tuple[str, ...] = ()
    plan_committed: bool = False
    key_decisions: tuple[str, ...] = ()
    """Sentences of the model, oldest first: claims, not facts."""
    last_test_output: str = ""
    red_phase_confirmed: bool = False


def summarise_entries(
    entries: Sequence[Entry], *, root: str = "", tests: Sequence[str] = (), changed: Iterable[str] = ()
) -> Summary:
    """
    Summarise the given entries.

    `root` is the worktree, for paths a model wrote in full. `tests` are known test commands, such as the task's
    acceptance. `changed` are paths that git reports as changed.
    """
    done = exchanges(entries)
    return Summary(
        files_read=_files_read(done, root),
        files_written=tuple(dict.fromkeys([*(path for each in done for path in paths_written(each, root)), *changed])),
        plan_committed=any(_has_plan(entry) for entry in entries) or _worked(done, "commit_plan"),
        key_decisions=_decisions(entries),
        last_test_output=_last_test_output(done, tests),
        red_phase_confirmed=_worked(done, "confirm_red_phase"),
    )


def render_summary(summary: Summary) -> str:
    """
    Return the summary as YAML of at most 8,000 characters. Where that is too little, the oldest items give way to a
    count.
    """
    share = 1.0
    while len(text := _yaml(summary, share)) > _MOST_CHARACTERS:
        share *= 0.7
    return text


def synthetic_plan(summary: Summary, card: str, *, why: str) -> str:
    """Write the plan for an EXECUTE whose PLAN committed none, from facts alone."""
    title = next((line.lstrip("# ") for line in card.splitlines() if line.strip()), "the task")
    read = [each.path for each in summary.files_read]
    seen = f"Read so far: {', '.join(read[:30])}." if read else "No file was read."
    return "\n".join(
        [
            f"The harness wrote this plan, because none was committed: {why}.",
            f"1. Do what the task card asks: {title}",
            f"2. {seen} Read again only what you are about to change.",
            "3. Make the smallest change that does it, then run what the card says must succeed.",
            "4. Finish, and name in the summary what you could not find out.",
        ]
    )


def stretches(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return line numbers as stretches: 1, 2, 3, 7 become (1, 3), (7, 7)."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def paths_written(exchange: ToolExchange, root: str) -> tuple[str, ...]:
    """Return the files a call names and wrote; none where it failed."""
    if not exchange.worked:
        return ()
    if exchange.call.name in ("write_file", "edit_file"):
        return tuple(filter(None, [normal_path(text_argument(exchange.call.arguments, "path"), root)]))
    if exchange.call.name == "apply_patch":
        patches = (value for value in exchange.call.arguments.values() if isinstance(value, str))
        return tuple(normal_path(path, root) for patch in patches for path in _patched(patch))
    return ()


def _patched(patch: str) -> list[str]:
    """Return the paths in a patch's headers. No line of a hunk looks like one."""
    lines = [line for line in patch.splitlines() if line.startswith(_PATCHED)]
    return [path for line in lines if (path := line.partition(": ")[2].strip())]


def _files_read(done: Sequence[ToolExchange], root: str) -> tuple[FileRead, ...]:
    lines: dict[str, set[int]] = {}
    for exchange in done:
        if exchange.call.name == "read_file" and exchange.worked:
            path = normal_path(text_argument(exchange.call.arguments, "path"), root)
            lines.setdefault(path, set()).update(map(int, _NUMBERED.findall(exchange.result.text)))
    return tuple(FileRead(path=path, lines=stretches(numbers)) for path, numbers in lines.items())


def _has_plan(entry: Entry) -> bool:
    return isinstance(entry, PlanCommitted) and not entry.synthetic


def _worked(done: Sequence[ToolExchange], tool: str) -> bool:
    return any(exchange.call.name == tool and exchange.worked for exchange in done)


def _decisions(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the newest sentences in which the model decides or finds something, each once."""
    found: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, TurnSaid) and entry.turn.role == "assistant":
            for sentence in map(_plain, _SENTENCE_END.split(entry.turn.text)):
                if len(sentence) > 15 and _DECIDES.search(sentence):
                    found.setdefault(sentence.casefold(), sentence[:_DECISION_CHARACTERS])
    return tuple(found.values())[-_MOST_DECISIONS:]


def _plain(sentence: str) -> str:
    return " ".join(sentence.strip().lstrip("-*#>0123456789. ").split())


def _last_test_output(done: Sequence[ToolExchange], tests: Sequence[str]) -> str:
    """Return the end of the last test run's output, or of the last failed command's where no test ran."""
    runs = [exchange for exchange in done if exchange.call.name == "confirm_red_phase" or _ran_tests(exchange, tests)]
    failed = [exchange for exchange in done if exchange.call.name == "bash" and not exchange.worked]
    last = (runs or failed)[-1:]
    return last[0].result.text.strip()[-_OUTPUT_CHARACTERS:] if last else ""


def _ran_tests(exchange: ToolExchange, tests: Sequence[str]) -> bool:
    command = text_argument(exchange.call.arguments, "command")
    return exchange.call.name == "bash" and (is_test(command) or any(test in command for test in tests if test.strip()))


def _yaml(summary: Summary, share: float) -> str:
    """Render the summary with this share of each list and of the output."""
    read = [_file_read(each) for each in summary.files_read]
    fields = {
        "files_read": _newest(read, int(200 * share)),
        "files_written": _newest(summary.files_written, int(200 * share)),
        "plan_committed": summary.plan_committed,
        "key_decisions": _newest(summary.key_decisions, max(1, int(_MOST_DECISIONS * share))),
        "last_test_output": _legible(summary.last_test_output[-max(200, int(_OUTPUT_CHARACTERS * share)) :]),
        "red_phase_confirmed": summary.red_phase_confirmed,
    }
    return str(yaml.dump(fields, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000))


class _Dumper(yaml.SafeDumper):
    """A dumper that writes text of several lines as it reads."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _legible(text: str) -> str:
    """Remove tabs and trailing blanks, for which YAML would escape the whole text."""
    return "\n".join(line.rstrip() for line in text.expandtabs(4).split("\n"))


def _file_read(read: FileRead) -> str:
    shown = ", ".join(f"{first}-{last}" for first, last in read.lines)
    return f"{read.path}: lines {shown}" if shown else read.path


def _newest(items: Sequence[str], most: int) -> list[str]:
    left_out = len(items) - most
    return [f"({left_out} earlier ones are left out)", *items[left_out:]] if left_out > 0 else list(items)


BUDGET_CHARACTERS = 24_000
_LINE = re.compile(r"^ *(\d+)\t.*$", re.MULTILINE)
_COMMANDS = {"bash", "bash_background"}
_CHANGING_NOTHING = {
    *(
        "read_file",
        "glob",
        "grep",
        "find_symbol",
        "find_references",
        "diagnostics",
        "finish",
        "commit_plan",
        "report",
        "ask",
    ),
}
_NAMING_WHAT_IT_WRITES = {"write_file", "edit_file", "apply_patch"}
_CUT_CHARACTERS = 2_000
"""Characters from which `read_file` may cut a line."""

Lines = Mapping[int, str]
"""The lines of one file by number, each with the number in front as it was shown."""


def excerpts(
    entries: Sequence[Entry],
    paths: Iterable[str],
    *,
    root: str = "",
    budget: int = BUDGET_CHARACTERS,
    current: Callable[[str], str | None] | None = None,
) -> str:
    """
    Return the newest known lines of those paths that were read, in the order of the paths.

    Files that do not fit together get equal shares, and missing lines are named. `current` returns the present text of
    a file as `read_file` shows it, or None where it is gone; outdated lines are left out.
    """
    known = _known(exchanges(entries), root)
    wanted = {path: known[path] for path in dict.fromkeys(normal_path(each, root) for each in paths) if path in known}
    if current is not None:
        wanted = {path: _still_so(lines, current(path)) for path, lines in wanted.items()}
    wanted = {path: lines for path, lines in wanted.items() if lines}
    rooms = _rooms({path: len(_numbered(lines)) for path, lines in wanted.items()}, budget)
    return "\n".join(_excerpt(path, lines, rooms[path]) for path, lines in wanted.items())


def _known(done: Sequence[ToolExchange], root: str) -> dict[str, dict[int, str]]:
    known: dict[str, dict[int, str]] = {}
    for exchange in done:
        if exchange.call.name == "read_file" and exchange.worked:
            path = normal_path(text_argument(exchange.call.arguments, "path"), root)
            known.setdefault(path, {}).update(_lines(exchange.result.text))
        elif _may_write_anything(exchange):
            known.clear()
        for path in paths_written(exchange, root):
            known.pop(path, None)
    return {path: lines for path, lines in known.items() if lines}


def _may_write_anything(exchange: ToolExchange) -> bool:
    if exchange.call.name in _COMMANDS:
        return not reads_only(text_argument(exchange.call.arguments, "command"))
    if exchange.call.name in _NAMING_WHAT_IT_WRITES:
        return False
    return exchange.call.name not in _CHANGING_NOTHING


def _still_so(lines: Lines, text: str | None) -> dict[int, str]:
    present = [] if text is None else text.split("\n")
    return {
        number: line
        for number, line in lines.items()
        if number <= len(present) and _is_shown(line.partition("\t")[2], present[number - 1])
    }


def _is_shown(shown: str, line: str) -> bool:
    return shown == line or (len(line) > _CUT_CHARACTERS and shown.startswith(f"{line[:_CUT_CHARACTERS]} ["))


def _lines(text: str) -> dict[int, str]:
    return {int(found[1]): found[0] for found in _LINE.finditer(text)}


def _numbered(lines: Lines) -> str:
    """Return the lines in order, with a mark at each gap."""
    parts = ["\n".join(lines[number] for number in range(first, last + 1)) for first, last in stretches(lines)]
    return "\n   ...\n".join(parts)


def _rooms(sizes: Mapping[str, int], budget: int) -> dict[str, int]:
    """Divide the budget: what a small file leaves goes to the larger ones."""
    rooms: dict[str, int] = {}
    for place, (path, size) in enumerate(sorted(sizes.items(), key=lambda each: each[1])):
        rooms[path] = min(size, budget // (len(sizes) - place))
        budget -= rooms[path]
    return rooms


def _excerpt(path: str, lines: Lines, room: int) -> str:
    kept = _fitting(lines, room) if len(_numbered(lines)) > room else dict(lines)
    shown = ", ".join(f"{first}-{last}" for first, last in stretches(kept)) or "none"
    missing = stretches(set(lines) - set(kept))
    note = f"; also read, not repeated here: {', '.join(f'{a}-{b}' for a, b in missing)}" if missing else ""
    return f"### {path} (lines {shown}{note})\n{_numbered(kept)}\n"


def _fitting(lines: Lines, room: int) -> dict[int, str]:
    kept: dict[int, str] = {}
    for number in sorted(lines):
        room -= len(lines[number]) + 1
        if room < 0:
            break
        kept[number] = lines[number]
    return kept
