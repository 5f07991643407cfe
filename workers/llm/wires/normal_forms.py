"""
One form for all vendors: of the conversations they are sent, and of the calls, counts and endings they send.

Conversations get alternating sides, nothing empty, and ids that every vendor accepts. The same turns always give the
same form, and more turns only add to it, because caches depend on that.
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
    Return the parts of each side in turn, the user's first.

    On the user's side, results come before texts. Blocks for another wire, model or account are left out.
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
    """Return a call's id in a form that every vendor accepts."""
    if _ID.fullmatch(name):
        return name
    return f"call_{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def common_name(name: str) -> str:
    """
    Return a tool's name in a form that every vendor accepts.

    Models call tools that do not exist, such as `functions.bash`, and a vendor would refuse the whole conversation.
    """
    return _NO_NAME.sub("_", name)[:64] or "unnamed"


def read_call(*, id: str, name: str, text: str) -> ToolCall:
    """Make a call from arguments that came as text; an empty text means none."""
    try:
        arguments = _strictly(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return ToolCall(id=id, name=name, malformed=text)
    return ToolCall(id=id, name=name, arguments=arguments)


def join_pieces(pieces: Iterable[str]) -> str:
    """
    Join the pieces of a streamed text.

    A character beyond 16 bits may come as two halves in two pieces. A half that stays alone is replaced, since it
    cannot be written.
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
"""More tokens than any window holds; a larger count is a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorCounts:
    """A vendor's plausible token counts; `input` is all of the input."""

    input: int | None = None
    cached: int | None = None
    written: int | None = None
    written_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None


def count(usage: object, name: str) -> int | None:
    """Read one count from a vendor's usage; None where it is missing, negative, absurd or no number."""
    number = getattr(usage, name, None)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return int(number) if 0 <= number <= _MOST_TOKENS else None


def guess_input(sent: object) -> int:
    """Guess the tokens of a request's body."""
    return len(json.dumps(sent, ensure_ascii=False)) // TOKEN_CHARACTERS + 1


def settle_counts(counts: VendorCounts, *, sent: object, said_characters: int) -> Usage:
    """
    Settle on the usage of an answer. Every request has input, and every text has output, even if the vendor counts
    none.
    """
    shown = counts.input or guess_input(sent)
    counts = counts if (counts.cached or 0) + (counts.written or 0) <= shown else replace(counts, cached=0, written=0)
    guess = said_characters // TOKEN_CHARACTERS + 1 if said_characters else 0
    output = counts.output or guess
    written = counts.written or 0
    return Usage(
        input_tokens=shown,
        cached_tokens=counts.cached or 0,
        written_tokens=written,
        written_1h_tokens=min(counts.written_1h or 0, written),
        output_tokens=output,
        reasoning_tokens=min(counts.reasoning or 0, output),
        cost_usd=None,
    )


_REFUSED = re.compile(
    r"content_?filter|filter|safety|refus|blocked|blocklist|prohibited|guardrail|moderation|recitation"
)
_TOO_LONG = re.compile(r"length|max_\w*tokens|max_?tokens|token_?limit")


def find_stop_reason(word: object, good: Mapping[str, StopReason]) -> StopReason | None:
    """Return the reason for an answer's end; `end` is either good end. None: it has no good end."""
    text = str(word or "")[:100]
    if text in good:
        return good[text]
    low = text.lower()
    if _REFUSED.search(low):
        return "refusal"
    return "max_tokens" if _TOO_LONG.search(low) else None
