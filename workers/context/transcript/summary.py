"""
What a conversation has come to, by rules and from its transcript alone: the state that EXECUTE begins with.

No model writes any of it. What the harness saw (files read and written, the plan, the tests' last output, the red
phase) is taken from results, never from what the model says it did; its own sentences are kept as decisions and
called that. The six fields are those of P-033. The text of files is `excerpts`' affair.
"""

import re
from collections.abc import Iterable, Sequence

import yaml

from forgepool.workers.context.transcript.entries import Entry, PlanCommitted, TurnSaid
from forgepool.workers.context.transcript.exchanges import ToolExchange, exchanges, text_argument
from forgepool.workers.schema.orders import Message
from forgepool.workers.shell.purpose.file_access import normal_path
from forgepool.workers.shell.purpose.programs import is_test

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
    """First and last line of each stretch that was shown, in order, none touching the next."""


class Summary(Message):
    """P-033, field by field."""

    files_read: tuple[FileRead, ...] = ()
    """In the order in which they were first read."""
    files_written: tuple[str, ...] = ()
    plan_committed: bool = False
    key_decisions: tuple[str, ...] = ()
    """Sentences of the model, oldest first: what it said, not what is so."""
    last_test_output: str = ""
    red_phase_confirmed: bool = False


def summarise_entries(
    entries: Sequence[Entry], *, root: str = "", tests: Sequence[str] = (), changed: Iterable[str] = ()
) -> Summary:
    """
    The summary of all that the entries hold; whoever wants one conversation's gives its entries alone.

    `root` is the worktree, for paths that a model wrote in full; `tests` are commands known to be tests, such as the
    task's acceptance; `changed` are paths that git says have changed, whoever changed them.
    """
    done = exchanges(entries)
    return Summary(
        files_read=_files_read(done, root),
        files_written=tuple(dict.fromkeys([*_files_written(done, root), *changed])),
        plan_committed=any(_has_plan(entry) for entry in entries) or _worked(done, "commit_plan"),
        key_decisions=_decisions(entries),
        last_test_output=_last_test_output(done, tests),
        red_phase_confirmed=_worked(done, "confirm_red_phase"),
    )


def render_summary(summary: Summary) -> str:
    """
    The summary as YAML of at most 8,000 characters. Where that is too little, the oldest of each list is left out,
    and it says how much.
    """
    share = 1.0
    while len(text := _yaml(summary, share)) > _MOST_CHARACTERS:
        share *= 0.7
    return text


def synthetic_plan(summary: Summary, card: str, *, why: str) -> str:
    """The plan EXECUTE works by when PLAN ended without one: honest about that, and no wiser than the facts."""
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
    """Line numbers as stretches: 1, 2, 3, 7 are (1, 3), (7, 7)."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def paths_written(one: ToolExchange, root: str) -> tuple[str, ...]:
    """The files that a call wrote, as far as it names them; none where it failed."""
    if not one.worked:
        return ()
    if one.call.name in ("write_file", "edit_file"):
        return tuple(filter(None, [normal_path(text_argument(one.call.arguments, "path"), root)]))
    if one.call.name == "apply_patch":
        patches = (value for value in one.call.arguments.values() if isinstance(value, str))
        return tuple(normal_path(path, root) for patch in patches for path in _patched(patch))
    return ()


def _patched(patch: str) -> list[str]:
    """By the lines that name files, which no line of a hunk is: each of those begins with its mark."""
    lines = [line for line in patch.splitlines() if line.startswith(_PATCHED)]
    return [path for line in lines if (path := line.partition(": ")[2].strip())]


def _files_read(done: Sequence[ToolExchange], root: str) -> tuple[FileRead, ...]:
    lines: dict[str, set[int]] = {}
    for one in done:
        if one.call.name == "read_file" and one.worked:
            path = normal_path(text_argument(one.call.arguments, "path"), root)
            lines.setdefault(path, set()).update(map(int, _NUMBERED.findall(one.result.text)))
    return tuple(FileRead(path=path, lines=stretches(numbers)) for path, numbers in lines.items())


def _files_written(done: Sequence[ToolExchange], root: str) -> list[str]:
    return [path for one in done for path in paths_written(one, root)]


def _has_plan(entry: Entry) -> bool:
    return isinstance(entry, PlanCommitted) and not entry.synthetic


def _worked(done: Sequence[ToolExchange], tool: str) -> bool:
    return any(one.call.name == tool and one.worked for one in done)


def _decisions(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The newest sentences in which the model decides or finds something, each once."""
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
    """The end of the last run of tests; where none was run, of the last command that failed."""
    runs = [one for one in done if one.call.name == "confirm_red_phase" or _ran_tests(one, tests)]
    failed = [one for one in done if one.call.name == "bash" and not one.worked]
    last = (runs or failed)[-1:]
    return last[0].result.text.strip()[-_OUTPUT_CHARACTERS:] if last else ""


def _ran_tests(one: ToolExchange, tests: Sequence[str]) -> bool:
    command = text_argument(one.call.arguments, "command")
    return one.call.name == "bash" and (is_test(command) or any(test in command for test in tests if test.strip()))


def _yaml(summary: Summary, share: float) -> str:
    """With this share of each list and of the output."""
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
    """Writes text of several lines as it is, not as one line of escapes."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _legible(text: str) -> str:
    """Without what would make YAML write it as one line of escapes."""
    return "\n".join(line.rstrip() for line in text.expandtabs(4).split("\n"))


def _file_read(read: FileRead) -> str:
    shown = ", ".join(f"{first}-{last}" for first, last in read.lines)
    return f"{read.path}: lines {shown}" if shown else read.path


def _newest(items: Sequence[str], most: int) -> list[str]:
    left_out = len(items) - most
    return [f"({left_out} earlier ones are left out)", *items[left_out:]] if left_out > 0 else list(items)
