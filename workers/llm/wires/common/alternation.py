"""
A conversation in the shape every vendor takes: sides that alternate, nothing empty, ids all of them accept.

The same turns always give the same shape, and more turns only add to it: caches live by that.
"""

import hashlib
import re
from collections.abc import Iterable

from forgepool.workers.llm.messages import Opaque, Part, Text, ToolCall, ToolResult, Turn, Wire

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
