"""
A conversation in the shape every vendor takes: sides that alternate, nothing empty, ids all of them accept.

The same turns always give the same shape, and more turns only add to it: caches live by that.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from pydantic import JsonValue

from forgepool.workers.llm.messages import Opaque, Part, StopReason, Text, ToolCall, ToolResult, Turn, Usage, Wire

NO_ANSWER = "(no answer)"
NO_OUTPUT = "(no output)"
NOTHING = "(nothing)"

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def alternating(turns: Iterable[Turn], *, wire: Wire, model: str, account: str = "") -> list[tuple[Part, ...]]:
    """
    The parts of each side in turn, the user's first. In the user's, results come before texts; blocks only another
    wire, model or account would understand are left out.
    """
    sides: list[tuple[str, list[Part]]] = []
    for turn in turns:
        if not sides or sides[-1][0] != turn.role:
            sides.append((turn.role, []))
        sides[-1][1].extend(turn.parts)
    reader = (wire, model, account)
    return [_user_side(parts) if role == "user" else _model_side(parts, reader) for role, parts in sides]


def _user_side(parts: list[Part]) -> tuple[Part, ...]:
    results = [_result(part) for part in parts if isinstance(part, ToolResult)]
    texts = [part for part in parts if isinstance(part, Text) and part.text.strip()]
    return (*results, *texts) or (Text(text=NOTHING),)


def _result(part: ToolResult) -> ToolResult:
    text = part.text if part.text.strip() else NO_OUTPUT
    return part.model_copy(update={"call_id": common_id(part.call_id), "text": text})


def _model_side(parts: list[Part], reader: tuple[Wire, str, str]) -> tuple[Part, ...]:
    kept: list[Part] = []
    for part in parts:
        match part:
            case Text(text=text) if text.strip():
                kept.append(part)
            case ToolCall(id=id, name=name):
                kept.append(part.model_copy(update={"id": common_id(id), "name": common_name(name)}))
            case Opaque(wire=wire, model=model, account=account) if (wire, model, account) == reader:
                kept.append(part)
            case _:
                pass
    # Thought alone is no answer, and the vendors take none that ends with it.
    if not kept or isinstance(kept[-1], Opaque):
        kept.append(Text(text=NO_ANSWER))
    return tuple(kept)


def common_id(name: str) -> str:
    """A call's id as every vendor takes it; some servers' own ids only they do."""
    if _ID.fullmatch(name):
        return name
    return f"call_{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def common_name(name: str) -> str:
    """
    A tool's name as every vendor takes it. Models call what there is not, `functions.bash` or nothing at all, and a
    vendor would refuse all of the conversation for it.
    """
    return _NO_NAME.sub("_", name)[:64] or "unnamed"


def read_call(*, id: str, name: str, text: str) -> ToolCall:
    """A call whose arguments came as text; no text at all is no arguments."""
    try:
        arguments = _strictly(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return ToolCall(id=id, name=name, malformed=text)
    return ToolCall(id=id, name=name, arguments=arguments)


def join_pieces(pieces: Iterable[str]) -> str:
    """
    The pieces of a streamed text in one. A character beyond the sixteen-bit range may come as two halves in two
    pieces; what stays half is replaced, since it could not be written down.
    """
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _strictly(text: str) -> dict[str, JsonValue]:
    value = json.loads(text, parse_constant=_no_json, parse_float=_finite, object_pairs_hook=_unrepeated)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    # Half a character, escaped, is JSON, but nothing that could be written to a transcript or a file.
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number


def _unrepeated(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name is given twice")
    return read


TOKEN_CHARACTERS = 4
_MOST_TOKENS = 10_000_000
"""Beyond any window; who says more cannot count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorCounts:
    """A vendor's counts, as far as it gave any that can be; `input` is all of the input."""

    input: int | None = None
    cached: int | None = None
    written: int | None = None
    written_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None


def count(said: object, name: str) -> int | None:
    """One count out of a vendor's usage; None for what is not there, negative, absurd or no number."""
    number = getattr(said, name, None)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return int(number) if 0 <= number <= _MOST_TOKENS else None


def guess_input(sent: object) -> int:
    """Of a request's body."""
    return len(json.dumps(sent, ensure_ascii=False)) // TOKEN_CHARACTERS + 1


def settle_counts(told: VendorCounts, *, sent: object, said_characters: int) -> Usage:
    """What is taken to be true. No request is without input, and nothing that was said without output."""
    shown = told.input or guess_input(sent)
    told = told if (told.cached or 0) + (told.written or 0) <= shown else replace(told, cached=0, written=0)
    guess = said_characters // TOKEN_CHARACTERS + 1 if said_characters else 0
    output = told.output or guess
    written = told.written or 0
    return Usage(
        input_tokens=shown,
        cached_tokens=told.cached or 0,
        written_tokens=written,
        written_1h_tokens=min(told.written_1h or 0, written),
        output_tokens=output,
        reasoning_tokens=min(told.reasoning or 0, output),
        cost_usd=None,
    )


_REFUSED = re.compile(
    r"content_?filter|filter|safety|refus|blocked|blocklist|prohibited|guardrail|moderation|recitation"
)
_TOO_LONG = re.compile(r"length|max_\w*tokens|max_?tokens|token_?limit")


def find_stop_reason(word: object, good: Mapping[str, StopReason]) -> StopReason | None:
    """`end` stands for either good end; None where the answer has not come to one."""
    text = str(word or "")[:100]
    if text in good:
        return good[text]
    low = text.lower()
    if _REFUSED.search(low):
        return "refusal"
    return "max_tokens" if _TOO_LONG.search(low) else None
