"""
Detection of conversations that make no progress: pure functions of the transcript, for the harness to act on.

`find_exploration_end` ends a PLAN that finds nothing new. `stuck` notices a model that repeats itself: the first time
it gets a `warning`, the second time the attempt ends. The evidence is the transcript, never the view.
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
"""Model turns that PLAN may take. Longer explorations do not end by themselves."""
_RECENT = 300
"""Entries looked at. Older repetitions do not count, and long conversations are judged as fast as short ones."""
_QUIET = 5
_REPEATS = 3
_FAILURES = 5
_ONLY_READING = 15
_WRITING = {"write_file", "edit_file", "apply_patch", "rename_symbol"}
_WAITING = {"check_background"}
"""Tools that an agent calls repeatedly in order to wait."""
_READING_TOOLS = {
    *("read_file", "glob", "grep", "find_symbol", "find_references", "diagnostics", "check_background"),
}
_KIND_CHARACTERS = 1_000
"""Characters of a failure that are compared."""
_MARK = "[the harness] You are going in circles: "


def find_exploration_end(entries: Sequence[Entry], *, most: int = MOST_EXPLORING, made: str = "plan") -> str | None:
    """Return why PLAN must end without what is to be `made`, or None."""
    entries = under_way(entries)
    asked = iterations(entries)
    if asked >= most:
        return f"exploration took {asked} turns without a {made}; {most} are allowed"
    if asked < _QUIET:
        return None
    done = exchanges(entries)
    before = [exchange for exchange in done if exchange.iteration <= asked - _QUIET]
    lately = [exchange for exchange in done if exchange.iteration > asked - _QUIET]
    if _files_read(lately) - _files_read(before) or not lately:
        return None
    known = {_asked(exchange) for exchange in before}
    repeats = 0
    for exchange in lately:
        repeats += _asked(exchange) in known
        known.add(_asked(exchange))
    if repeats * 2 < len(lately):
        return None
    return f"{_QUIET} turns in a row read no new file and repeated {repeats} of {len(lately)} calls"


def stuck(entries: Sequence[Entry], phase: PhaseName) -> str | None:
    """Return the evidence that the model repeats itself, or None. Only entries since the last warning count."""
    done = exchanges(_since_warning(under_way(entries))[-_RECENT:])
    return _repeated(done) or _failing(done) or (_only_reading(done) if phase == "execute" else None)


def warning(reason: str) -> str:
    """Return the one warning that the model gets."""
    return (
        f"{_MARK}{reason}. Say in a sentence what you have learned and why it does not work, then do something else. "
        "If the task cannot be done as it is, end here and say why. If this goes on, the attempt is stopped."
    )


def was_warned(entries: Sequence[Entry]) -> bool:
    """Report whether the model was warned in the current conversation."""
    return was_told(entries, _MARK)


def was_told(entries: Sequence[Entry], mark: str) -> bool:
    """Report whether the model was told something that begins so in the current conversation."""
    return any(_begins(entry, mark) for entry in under_way(entries))


def _since_warning(entries: Sequence[Entry]) -> Sequence[Entry]:
    for at in range(len(entries) - 1, -1, -1):
        if _begins(entries[at], _MARK):
            return entries[at:]
    return entries


def _begins(entry: Entry, mark: str) -> bool:
    if not isinstance(entry, TurnSaid) or entry.turn.role != "user":
        return False
    return any(isinstance(part, Text) and part.text.startswith(mark) for part in entry.turn.parts)


def _files_read(done: Sequence[ToolExchange]) -> set[str]:
    return {
        normal_path(text_argument(exchange.call.arguments, "path"))
        for exchange in done
        if exchange.call.name == "read_file" and exchange.worked
    }


def _asked(exchange: ToolExchange) -> tuple[str, str]:
    arguments = dict(exchange.call.arguments)
    if isinstance(path := arguments.get("path"), str):
        arguments["path"] = normal_path(path)
    return exchange.call.name, json.dumps(arguments, sort_keys=True)


def _answered(exchange: ToolExchange) -> str:
    """Return the text of a result, for a command without times."""
    return _without_times(exchange.result.text) if exchange.call.name == "bash" else exchange.result.text


def _repeated(done: Sequence[ToolExchange]) -> str | None:
    """Report the last call if the same call gave the same result twice before, and nothing was written since."""
    seen: dict[tuple[tuple[str, str], str], int] = {}
    for exchange in reversed(done):
        if exchange.call.name in _WRITING and exchange.worked:
            return None
        if exchange.call.name in _WAITING:
            continue
        key = (_asked(exchange), _answered(exchange))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == _REPEATS:
            return f"the same call of {exchange.call.name} gave the same answer {_REPEATS} times: {_shown(key[0][1])}"
    return None


def _failing(done: Sequence[ToolExchange]) -> str | None:
    """Report five failures in a row of the last tool, all of one kind."""
    if not done:
        return None
    tool = done[-1].call.name
    last = [exchange for exchange in done if exchange.call.name == tool][-_FAILURES:]
    if len(last) < _FAILURES or any(exchange.worked for exchange in last):
        return None
    if len({_kind(exchange.result.text) for exchange in last}) > 1:
        return None
    return f"{tool} failed {_FAILURES} times in a row in the same way: {_shown(_sentence(last[-1].result.text))}"


def _only_reading(done: Sequence[ToolExchange]) -> str | None:
    newest = sorted({exchange.iteration for exchange in done}, reverse=True)[:_ONLY_READING]
    if len(newest) < _ONLY_READING:
        return None
    if not all(_is_reading(exchange) for exchange in done if exchange.iteration >= newest[-1]):
        return None
    return f"{_ONLY_READING} turns in a row only read, and nothing was written"


def _is_reading(exchange: ToolExchange) -> bool:
    if exchange.call.name == "bash":
        return reads_only(text_argument(exchange.call.arguments, "command"))
    return exchange.call.name in _READING_TOOLS


def _kind(text: str) -> str:
    """Normalise a failure: for a tool without names and numbers, for a command without times."""
    sentence = _sentence(text)[:_KIND_CHARACTERS]
    if sentence.startswith("["):
        return _without_times(sentence)
    return re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\S*[/.]\w\S*|\d+", "_", sentence)


def _sentence(text: str) -> str:
    """Return the essence of a failure: the first sentence of a tool's result; a command's status and last line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if lines and lines[0].startswith("["):
        return f"{lines[0]} {lines[-1]}"
    return (lines or [""])[0].split(";")[0]


def _without_times(text: str) -> str:
    """Remove seconds, which differ from run to run. Whole numbers stay: one failed test fewer is progress."""
    return re.sub(r"(?<!\d)\d+\.\d+", "0", text)


def _shown(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
