"""
The tools that end a conversation: `commit_plan`, `finish`, `ask`. What they say is the model's word; the harness looks
for itself before it lets the conversation end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pydantic import Field, JsonValue

from forgepool.workers.tools.tool import (
    Arguments,
    Finish,
    PersonAsked,
    Planned,
    Queued,
    Tool,
    ToolAnswer,
    make_typed_tool,
)
from forgepool.workers.tools.workplace import Workplace


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Whether a task may change paths. `queued`: somebody holds some of them; it is to begin again when he does not."""

    verdict: Literal["granted", "queued", "refused"]
    why: str = ""


FINISH = "finish"
GRANTED = Permission(verdict="granted")
_MISSING = "what you needed to know and were not given, a line each; empty only if there was nothing"
MayTouch = Callable[[tuple[str, ...]], Permission]


class FinishArguments(Arguments):
    summary: str = Field(min_length=1, description="what was done, in a sentence or two")


class AskArguments(Arguments):
    question: str = Field(min_length=1, description="one question that a person can answer without this conversation")


class CommitPlanArguments(Arguments):
    plan: str = Field(min_length=1, description="what will be done and why, step by step, with the facts it rests on")
    files_to_modify: tuple[str, ...] = Field(
        description="paths of every file to be changed, created or removed; empty where nothing has to be changed"
    )


class InjectedFinishArguments(FinishArguments):
    """Of an agent that was given everything, and could look nothing up."""

    missing: tuple[str, ...] = Field(description=_MISSING)


class InjectedPlanArguments(CommitPlanArguments):
    """As of `finish`."""

    missing: tuple[str, ...] = Field(description=_MISSING)


def finish_tool(unfinished: Callable[[], str | None], *, injected: bool = False) -> Tool:
    """
    `unfinished` says why the work cannot be finished yet, such as that nothing was changed; None when it can.

    `injected`: the agent cannot look anything up, and has to say what it lacked; its summary then says it.
    """

    def finish(arguments: FinishArguments, workplace: Workplace) -> ToolAnswer:
        why = unfinished()
        if why is not None:
            return ToolAnswer(text=f"not finished: {why}", is_error=True)
        return ToolAnswer(text="OK: finished", ends=Finish(summary=_with_missing(arguments.summary, arguments)))

    said = "Ends the work. Call it once, alone, when everything that was asked is done."
    return make_typed_tool(FINISH, said, InjectedFinishArguments if injected else FinishArguments, finish, kind="end")


def commit_plan_tool(may_touch: MayTouch, *, injected: bool = False) -> Tool:
    """`injected` as of `finish_tool`; the plan then says what was missing."""

    def commit_plan(arguments: CommitPlanArguments, workplace: Workplace) -> ToolAnswer:
        files = tuple(dict.fromkeys(workplace.name(workplace.path(each)) for each in arguments.files_to_modify))
        said = may_touch(files)
        match said.verdict:
            case "granted":
                plan = _with_missing(arguments.plan, arguments)
                return ToolAnswer(text="OK: committed", ends=Planned(plan=plan, files=files))
            case "queued":
                text = f"the plan has to wait: {said.why}; the task begins again when it need not"
                return ToolAnswer(text=text, is_error=True, ends=Queued(why=said.why))
            case "refused":
                return ToolAnswer(text=f"the plan is not committed: {said.why}", is_error=True)

    said = "Ends the exploration with a plan. The work itself begins afresh, knowing this plan and what was learned."
    return make_typed_tool(
        "commit_plan", said, InjectedPlanArguments if injected else CommitPlanArguments, commit_plan, kind="end"
    )


def _with_missing(text: str, arguments: Arguments) -> str:
    if not isinstance(arguments, InjectedFinishArguments | InjectedPlanArguments):
        return text
    lines = "".join(f"\n- {each}" for each in arguments.missing) or " nothing"
    return f"{text.rstrip()}\n\nMissing from what the agent was given, as it says:{lines}"


def _ask(arguments: AskArguments, workplace: Workplace) -> ToolAnswer:
    return ToolAnswer(
        text="OK: asked; the work rests until a person has answered", ends=PersonAsked(question=arguments.question)
    )


ASK = make_typed_tool(
    "ask",
    "Asks a person, and lets the work rest until the answer is there. Only where the task cannot be done without it.",
    AskArguments,
    _ask,
    kind="end",
)


COMPACT = "compact"


class CompactArguments(Arguments):
    reason: str = Field(min_length=1, description="why now, and what of the history is still needed")


def _compact(arguments: CompactArguments, workplace: Workplace) -> ToolAnswer:
    return ToolAnswer(text="OK: before your next turn the history is cleared of noise, if there is enough of it")


COMPACT_TOOL = make_typed_tool(
    COMPACT,
    "Clears your history of noise: confirmations, listings and results that later ones replace. Data in use stays. "
    "Call it before work that needs the whole picture, or when told how full the context is; never in the middle of "
    "an analysis, nor as a precaution.",
    CompactArguments,
    _compact,
    kind="read",
)


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
