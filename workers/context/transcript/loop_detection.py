"""
Does a conversation get anywhere? Two pure questions to its transcript, for the harness to act on.

`find_exploration_end` ends a PLAN that finds nothing new. `stuck` sees a model that goes in circles: the first time it
is told so (`warning`), the second time the attempt ends (`was_warned`). The evidence is the transcript, never the view
that the model is shown: what a view leaves out has happened all the same.
"""

import json
import re
from collections.abc import Sequence

from forgepool.workers.context.transcript.entries import Entry, TurnSaid
from forgepool.workers.context.transcript.exchanges import ToolExchange, exchanges, iterations, text_argument, under_way
from forgepool.workers.llm.messages import Text
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.shell.purpose.file_access import normal_path
from forgepool.workers.shell.purpose.programs import reads_only

MOST_EXPLORING = 20
"""Turns of the model that PLAN may take; from P-080, which counts a longer exploration as one that will not end."""
_RECENT = 300
"""Entries that are looked at: what is longer ago is no circle, and a long conversation is judged as fast as any."""
_QUIET = 5
_REPEATS = 3
_FAILURES = 5
_ONLY_READING = 15
_WRITING = {"write_file", "edit_file", "apply_patch", "rename_symbol"}
_WAITING = {"check_background"}
"""Asking these again is how one waits."""
_READING_TOOLS = {
    *("read_file", "glob", "grep", "find_symbol", "find_references", "diagnostics", "check_background"),
}
_KIND_CHARACTERS = 1_000
"""Of a failure, by which it is known; the rest may be of any length."""
_MARK = "[the harness] You are going in circles: "


def find_exploration_end(entries: Sequence[Entry], *, most: int = MOST_EXPLORING) -> str | None:
    """
    Why PLAN is to end without a plan of the model's, or None.

    It ends after `most` turns; or when five turns in a row read no file for the first time and at least half of what
    they asked for had been asked before.
    """
    entries = under_way(entries)
    asked = iterations(entries)
    if asked >= most:
        return f"exploration took {asked} turns without a plan; {most} are allowed"
    if asked < _QUIET:
        return None
    done = exchanges(entries)
    before = [one for one in done if one.iteration <= asked - _QUIET]
    lately = [one for one in done if one.iteration > asked - _QUIET]
    if _files_read(lately) - _files_read(before) or not lately:
        return None
    known = {_asked(one) for one in before}
    repeats = 0
    for one in lately:
        repeats += _asked(one) in known
        known.add(_asked(one))
    if repeats * 2 < len(lately):
        return None
    return f"{_QUIET} turns in a row read no new file and repeated {repeats} of {len(lately)} calls"


def stuck(entries: Sequence[Entry], phase: PhaseName) -> str | None:
    """
    What shows that the model goes in circles, or None. Only what happened since the last `warning` counts.

    In every phase: the same call with the same answer three times, nothing written between; five failures of one kind
    in a row from one tool. In EXECUTE: fifteen turns that only read.
    """
    done = exchanges(_since_warning(under_way(entries))[-_RECENT:])
    return _repeated(done) or _failing(done) or (_only_reading(done) if phase == "execute" else None)


def warning(reason: str) -> str:
    """What the model is told, once."""
    return (
        f"{_MARK}{reason}. Say in a sentence what you have learned and why it does not work, then do something else. "
        "If the task cannot be done as it is, end here and say why. If this goes on, the attempt is stopped."
    )


def was_warned(entries: Sequence[Entry]) -> bool:
    """Whether the model was told already in the conversation under way."""
    return any(_is_warning(entry) for entry in under_way(entries))


def _since_warning(entries: Sequence[Entry]) -> Sequence[Entry]:
    for at in range(len(entries) - 1, -1, -1):
        if _is_warning(entries[at]):
            return entries[at:]
    return entries


def _is_warning(entry: Entry) -> bool:
    if not isinstance(entry, TurnSaid) or entry.turn.role != "user":
        return False
    return any(isinstance(part, Text) and part.text.startswith(_MARK) for part in entry.turn.parts)


def _files_read(done: Sequence[ToolExchange]) -> set[str]:
    return {
        normal_path(text_argument(one.call.arguments, "path"))
        for one in done
        if one.call.name == "read_file" and one.worked
    }


def _asked(one: ToolExchange) -> tuple[str, str]:
    """A call as what it asks for, in one spelling."""
    arguments = dict(one.call.arguments)
    if isinstance(path := arguments.get("path"), str):
        arguments["path"] = normal_path(path)
    return one.call.name, json.dumps(arguments, sort_keys=True)


def _answered(one: ToolExchange) -> str:
    """An answer as what it says; of a command, whatever time it took."""
    return _without_times(one.result.text) if one.call.name == "bash" else one.result.text


def _repeated(done: Sequence[ToolExchange]) -> str | None:
    """The last call, if it and its answer have been there twice before, with nothing written since."""
    seen: dict[tuple[tuple[str, str], str], int] = {}
    for one in reversed(done):
        if one.call.name in _WRITING and one.worked:
            return None
        if one.call.name in _WAITING:
            continue
        key = (_asked(one), _answered(one))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == _REPEATS:
            return f"the same call of {one.call.name} gave the same answer {_REPEATS} times: {_shown(key[0][1])}"
    return None


def _failing(done: Sequence[ToolExchange]) -> str | None:
    """Five failures in a row of the tool used last, all of one kind."""
    if not done:
        return None
    tool = done[-1].call.name
    last = [one for one in done if one.call.name == tool][-_FAILURES:]
    if len(last) < _FAILURES or any(one.worked for one in last):
        return None
    if len({_kind(one.result.text) for one in last}) > 1:
        return None
    return f"{tool} failed {_FAILURES} times in a row in the same way: {_shown(_sentence(last[-1].result.text))}"


def _only_reading(done: Sequence[ToolExchange]) -> str | None:
    newest = sorted({one.iteration for one in done}, reverse=True)[:_ONLY_READING]
    if len(newest) < _ONLY_READING:
        return None
    if not all(_is_reading(one) for one in done if one.iteration >= newest[-1]):
        return None
    return f"{_ONLY_READING} turns in a row only read, and nothing was written"


def _is_reading(one: ToolExchange) -> bool:
    if one.call.name == "bash":
        return reads_only(text_argument(one.call.arguments, "command"))
    return one.call.name in _READING_TOOLS


def _kind(text: str) -> str:
    """A failure without what differs between two of a kind: of a tool, the names and numbers; of a command, times."""
    sentence = _sentence(text)[:_KIND_CHARACTERS]
    if sentence.startswith("["):
        return _without_times(sentence)
    return re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\S*[/.]\w\S*|\d+", "_", sentence)


def _sentence(text: str) -> str:
    """What a failure says: of a tool's answer its first sentence; of a command its status and its last line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if lines and lines[0].startswith("["):
        return f"{lines[0]} {lines[-1]}"
    return (lines or [""])[0].split(";")[0]


def _without_times(text: str) -> str:
    """Seconds differ from run to run. Whole numbers stay: one failed test fewer is headway."""
    return re.sub(r"(?<!\d)\d+\.\d+", "0", text)


def _shown(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
