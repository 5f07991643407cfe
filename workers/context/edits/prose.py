"""Conversations as text for a model that summarises them, and the checks of its summary."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import normpath

from forgepool.workers.context.edits.ledger import failures, files, find_said, outcomes
from forgepool.workers.context.edits.masks import HARNESS, before, characters
from forgepool.workers.context.edits.state import ContextState, SummaryQuestion, SummaryReply
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn

SYMBOLS = 8
OUTLINED_CHARACTERS = 100_000
ERROR_CHARACTERS = 300
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_SYMBOL = re.compile(
    r"^(?:(?:async )?def|class)[ \t]+(\w+)"
    r"|^(?:export[ \t]+)(?:default[ \t]+)?(?:async[ \t]+)?(?:abstract[ \t]+)?"
    r"(?:function\*?|class|const|let|var|interface|type|enum)[ \t]+(\w+)"
    r"|^(?:async[ \t]+)?function\*?[ \t]+(\w+)",
    re.MULTILINE,
)
_WRONG = re.compile(r"error|fail|exception|not found|enoent|eacces|panic|denied|no such", re.IGNORECASE)
_NAMED = re.compile(
    r"^[ \t]*(?:FAILED[ \t]+[^\s(]|ERROR[ \t]+\S+(?:::|\.py\b)|(?:ERROR|FAIL): test|FAIL[ \t]+\S+\.|--- FAIL: "
    r"|not ok \d|[✗✕×●][ \t]+\S).*",
    re.MULTILINE,
)
"""Lines in which test runners name failures."""


def outline(text: str) -> str:
    """Describe a file by its lines and its top-level definitions."""
    lines = text.count("\n") + (not text.endswith("\n"))
    plain = _NUMBERED.sub("", text[:OUTLINED_CHARACTERS])
    names = list(dict.fromkeys(next(filter(None, found)) for found in _SYMBOL.findall(plain)))
    if not names:
        return f"{lines} lines"
    more = f"… +{len(names) - SYMBOLS} more" if len(names) > SYMBOLS else ""
    return f"{lines} lines — exports: {', '.join(names[:SYMBOLS])}{more}"


def error_lines(text: str) -> str:
    """Return the failed tests that an output names, else its first line about an error, else its last line."""
    named = [match.group().strip() for match in _NAMED.finditer(text)]
    if named:
        return beginning(" | ".join(dict.fromkeys(named)), ERROR_CHARACTERS)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((line for line in lines if _WRONG.search(line)), lines[-1] if lines else "no output")
    return beginning(first, ERROR_CHARACTERS)


def beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def ends(text: str, most: int) -> str:
    """Keep a third from the beginning and the rest from the end, where programs report failures."""
    text = text.strip()
    if len(text) <= most:
        return text
    head = (most - 3) // 3
    return f"{text[:head]} … {text[head - most + 3 :]}"


def count_lines(text: str, *, most_lines: int = 10, most: int = 600) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return beginning(f"{len(lines)} lines: " + "\n".join(lines[:most_lines]), most)


SHORTEST_SUMMARY = 50
_TIGHTER = (16_000, 4_000, 1_000, 250)
_NAME = re.compile(r"[\w./~@+-]+")
_ADDRESS = re.compile(r"https?://\S+")
_ENDING = re.compile(r"[^/.]\.([A-Za-z]\w{0,7})$")
_ENDINGS = re.compile(
    r"bat|c|cc|cfg|cpp|css?|csv|cxx|dart|erl|exs?|go|gradle|h|hpp|hs|html?|ini|ipynb|java|jl|jsx?|jsonl?|kt|less|lua|mdx?"
    r"|mjs|ml|patch|pdf|php|pl|png|proto|ps1|pyi?|rb|rs|rst|scala|scss|sh|sql|svelte|svg|swift|tf|toml|tsx?|tsv|txt|vue"
    r"|xml|ya?ml|zig",
    re.IGNORECASE,
)
"""File endings of names without a slash; most other words with a dot are attributes."""
_NO_FILES = frozenset({"d3.js", "express.js", "next.js", "node.js", "nuxt.js", "react.js", "three.js", "vue.js"})
_BEFORE = r"(?:(?<![\w.-])|(?<=\\[nrt]))"
_ALONE = r"(?:(?<![\w./-])|(?<=\\[nrt])|(?<=\s\./))"
_AFTER = r"(?![\w-])"
_AFTER_FILE = r"(?![\w-]|\.\w)"
_NO_MORE = r"(?![\w-]|\.\w|/[\w.])"
_MOST_NAMED = 5
_SAW = "the harness saw"
OVERRIDES = "## What the harness saw; it overrides the summary"
_SAID_TOKENS = 20_000
"""Tokens of the users' own words that are kept, as in Codex."""
_ROUGHLY = 1.5
"""The factor by which a summary may exceed its limit, since its tokens are only estimated."""


def transcribe_turns(turns: Sequence[Turn], *, most: int, each: int, result: int) -> str:
    """Write out turns from the oldest on: `most` characters in all, `each` of a turn, `result` of a tool's result."""
    found: list[str] = []
    room = most
    for turn in turns:
        if room <= 0:
            break
        told = ends(f"[{turn.role}]\n" + "\n".join(_lines(turn, result)), each)[:room]
        room -= len(told) + len("\n\n")
        found.append(told)
    return "\n\n".join(found)


def whole(turns: Sequence[Turn], room: int) -> str:
    """Write out every turn. Long ones lose their middle where `room` characters are too few."""
    for each in (room, *_TIGHTER):
        text = transcribe_turns(turns, most=room + 3, each=each, result=each)
        if len(text) <= room:
            return text
    return transcribe_turns(turns, most=room, each=_TIGHTER[-1], result=_TIGHTER[-1])


def _lines(turn: Turn, result: int) -> Iterator[str]:
    for part in turn.parts:
        match part:
            case Text(text=text):
                yield text
            case ToolCall(name=name, arguments=arguments):
                yield f"call {name} {json.dumps(dict(arguments), ensure_ascii=False, default=str)}"
            case ToolResult(text=text, is_error=wrong):
                yield f"{'error' if wrong else 'result'}: {ends(text, result)}"


def refusal(
    reply: SummaryReply, question: SummaryQuestion, state: ContextState, *, shortest: int = SHORTEST_SUMMARY
) -> str | None:
    """
    Return why a summary is not used: it is missing, too short, too long, or names files that the conversation does not.
    """
    text = reply.text.strip()
    if not text:
        return reply.why_not or "the summary is empty"
    if len(text) < shortest:
        return f"the summary has {len(text)} characters, fewer than {shortest}"
    if state.gauge.tokens(len(text)) > _ROUGHLY * question.max_output_tokens:
        return f"the summary is longer than the {question.max_output_tokens} tokens it may have"
    return strange(text, state)


def strange(text: str, state: ContextState) -> str | None:
    """Return why a model's text is not used: it names unknown files."""
    names = find_invented(text, state)
    return f"the summary speaks of files that are nowhere in the conversation: {', '.join(names)}" if names else None


def with_facts(summary: str, state: ContextState, cut: int) -> str:
    """Combine a model's summary of everything before the cut with the facts, which override it."""
    known = [files(state.deeds[: before(state, cut)]), *list_endings(state, cut), *words(state, cut)]
    return "\n".join([f"{honest(summary).strip()}\n", OVERRIDES, *known])


def honest(text: str) -> str:
    """Remove lines that imitate the harness from a model's text."""
    return "\n".join(line for line in text.splitlines() if HARNESS not in line and _SAW not in line.casefold())


def list_endings(state: ContextState, cut: int) -> list[str]:
    """Return how tests and builds ended, and what else failed, before the cut."""
    deeds = state.deeds[: before(state, cut)]
    return [*(f"Ran: {line}" for line in outcomes(deeds)), *(f"Failed: {line}" for line in failures(deeds))]


def words(state: ContextState, cut: int) -> list[str]:
    """Return what persons wrote before the cut, after the task card, as far as it fits."""
    room = characters(state.gauge, _SAID_TOKENS)
    found: list[str] = []
    for text in reversed(list(find_said(state.turns[1:cut]))):
        room -= len(text)
        if room < 0:
            break
        found.append(f"The user said: {text}")
    return found[::-1]


def find_invented(text: str, state: ContextState) -> list[str]:
    """
    Return the first few paths in a model's text that occur nowhere in the conversation.

    A path is known as it stands, as the end of a longer path, or as a listed file below the listed folder. Web
    addresses are no paths. Two words with a slash between them are a path where the first is a known folder.
    """
    known = "\n".join(_everything(state))
    found: list[str] = []
    for name in dict.fromkeys(_names(text, known)):
        path = _normal(name, state.root)
        if path and not (_occurs(path, known) or _archived(name, state) or _listed(path, state.deeds)):
            found.append(name)
        if len(found) == _MOST_NAMED:
            break
    return found


def _names(text: str, known: str) -> Iterator[str]:
    text = _ADDRESS.sub(" ", text)
    for found in _NAME.finditer(text):
        name, around = found[0].rstrip(".-+@~"), text[max(0, found.start() - 1) : found.end() + 1]
        if _is_path(name, known, called=around.endswith("("), quoted=around[0] == around[-1] == "`"):
            yield name


def _is_path(name: str, known: str, *, called: bool, quoted: bool) -> bool:
    parts = [part for part in name.split("/") if part]
    ending = _ENDING.search(name)
    if "/" not in name:
        known_ending = ending is not None and _ENDINGS.fullmatch(ending[1]) is not None
        return known_ending and not called and name.lower() not in _NO_FILES
    if max(map(len, parts), default=0) < len("ab") or not any(map(str.isalpha, name)):
        return False
    looks_so = quoted or name[0] in "/.~" or name.endswith("/") or "_" in name
    return bool(looks_so or ending or len(parts) > len("ab") or _occurs(f"{parts[0]}/", known))


def _normal(name: str, root: str) -> str:
    path = normpath(name.removeprefix(f"{root.rstrip('/')}/") if root else name).lstrip("~/")
    while path.startswith("../"):
        path = path[len("../") :]
    return path.removeprefix("..").removeprefix(".") if path in (".", "..") else path


def _occurs(path: str, text: str, before: str = _BEFORE) -> bool:
    """Report whether a path occurs in whole parts; a file name is not the beginning of a longer one."""
    after = "" if path.endswith("/") else _AFTER_FILE if _ENDING.search(path) else _AFTER
    return _stands(path, text, before, after)


def _stands(path: str, text: str, before: str, after: str) -> bool:
    """Report whether a path occurs in this surrounding. Searching for the plain text first is much faster."""
    pattern = re.compile(before + re.escape(path) + after)
    at = text.find(path)
    while at >= 0:
        if pattern.match(text, at):
            return True
        at = text.find(path, at + 1)
    return False


def _archived(name: str, state: ContextState) -> bool:
    return bool(state.archive) and f"{name}/".startswith(f"{state.archive.rstrip('/')}/")


def _listed(path: str, deeds: Sequence[Deed]) -> bool:
    """Report whether one call names a path's folder, and the call or its result the rest of the path."""
    parts = path.split("/")
    splits = [("/".join(parts[:at]), "/".join(parts[at:])) for at in range(1, len(parts))]
    for deed in deeds:
        asked = "\n".join(_strings(dict(deed.call.arguments)))
        for folder, rest in splits:
            if _stands(folder, asked, _BEFORE, _NO_MORE) and any(
                _occurs(rest, text, _ALONE) for text in (asked, deed.whole)
            ):
                return True
    return False


def _everything(state: ContextState) -> Iterator[str]:
    """Yield all texts of a conversation, including the harness's replacements."""
    yield from (state.root, state.plan, *state.planned, *state.edit.results.values())
    for turn in (*state.turns, *state.edit.head):
        for part in turn.parts:
            match part:
                case Text(text=text) | ToolResult(text=text):
                    yield text
                case ToolCall(name=name, arguments=arguments):
                    yield from (name, *_strings(dict(arguments)))
    for deed in state.deeds:
        yield from (deed.whole if deed.whole != deed.result.text else "", *(each.path for each in deed.reads))
        yield from (each.path for each in deed.writes)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from (str(key), *_strings(each))
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, str):
        yield value
