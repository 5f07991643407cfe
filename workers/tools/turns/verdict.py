"""
`verdict`: how a review ends. Its form is its caller's, who also says whether what was filled in counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import JsonValue

from forgepool.workers.tools.tool import Arguments, Finish, Tool, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace

VERDICT = "verdict"
_SAID = "Ends the review with your verdict. Call it once, alone, when you have read what you judge."


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What becomes of a verdict: it counts, or `void` says why not, and the conversation goes on if it may."""

    void: str = ""
    summary: str = ""
    goes_on: bool = False


F = TypeVar("F", bound=Arguments)


def verdict_tool(form: type[F], take: Callable[[F], Taken]) -> Tool:
    """`take` is called with every form that is filled in as its schema wants it."""

    def verdict(filled: F, workplace: Workplace) -> ToolAnswer:
        taken = take(filled)
        ends = None if taken.goes_on else Finish(summary=taken.summary)
        if taken.void:
            return ToolAnswer(text=f"the verdict does not count: {taken.void}", is_error=True, ends=ends)
        return ToolAnswer(text="OK: the verdict counts", ends=ends)

    tool = make_typed_tool(VERDICT, _SAID, form, verdict, kind="end")
    return replace(tool, offer=replace(tool.offer, schema=_whole(tool.offer.schema)))


def _whole(schema: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Without references: not every server follows them."""
    named = schema.get("$defs")
    parts = named if isinstance(named, dict) else {}
    rest: dict[str, JsonValue] = {key: value for key, value in schema.items() if key != "$defs"}
    whole = _resolved(rest, parts)
    return whole if isinstance(whole, dict) else rest


def _resolved(value: JsonValue, parts: Mapping[str, JsonValue]) -> JsonValue:
    match value:
        case {"$ref": str(name)}:
            return _resolved(parts[name.removeprefix("#/$defs/")], parts)
        case dict():
            return {key: _resolved(one, parts) for key, one in value.items()}
        case list():
            return [_resolved(one, parts) for one in value]
        case _:
            return value
