"""
The tools that steer a conversation. `commit_plan`, `report`, `finish`, `ask` and `verdict` end it; `compact` clears its
history.

What they say is the model's word; the harness checks for itself before it lets the conversation end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeVar

from pydantic import Field, JsonValue

from forgepool.workers.schema.reports import Evidence, Report
from forgepool.workers.tools.tool import (
    Arguments,
    Finish,
    PersonAsked,
    Planned,
    Queued,
    Reported,
    Tool,
    ToolAnswer,
    make_typed_tool,
)
from forgepool.workers.tools.workplace import ToolRefused, Workplace


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """
    The answer to a task that wants to change paths. `queued`: another task holds some; this one starts again once
    they are free.
    """

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
    """`finish` for an agent that was given everything and can look nothing up."""

    missing: tuple[str, ...] = Field(description=_MISSING)


class InjectedPlanArguments(CommitPlanArguments):
    """`commit_plan` for an agent that was given everything and can look nothing up."""

    missing: tuple[str, ...] = Field(description=_MISSING)


def finish_tool(unfinished: Callable[[], str | None], *, injected: bool = False) -> Tool:
    """
    Make `finish`. `unfinished` says why the work cannot end yet, such as that nothing changed; None when it can.

    `injected`: the agent cannot look anything up, and its summary must say what it lacked.
    """

    def finish(arguments: FinishArguments, workplace: Workplace) -> ToolAnswer:
        why = unfinished()
        if why is not None:
            return ToolAnswer(text=f"not finished: {why}", is_error=True)
        return ToolAnswer(text="OK: finished", ends=Finish(summary=_with_missing(arguments.summary, arguments)))

    description = "Ends the work. Call it once, alone, when everything that was asked is done."
    return make_typed_tool(
        FINISH, description, InjectedFinishArguments if injected else FinishArguments, finish, kind="end"
    )


def commit_plan_tool(may_touch: MayTouch, *, injected: bool = False) -> Tool:
    """Make `commit_plan`. `injected` is as in `finish_tool`; the plan then says what was missing."""

    def commit_plan(arguments: CommitPlanArguments, workplace: Workplace) -> ToolAnswer:
        files = tuple(dict.fromkeys(workplace.name(workplace.path(each)) for each in arguments.files_to_modify))
        permission = may_touch(files)
        match permission.verdict:
            case "granted":
                plan = _with_missing(arguments.plan, arguments)
                return ToolAnswer(text="OK: committed", ends=Planned(plan=plan, files=files))
            case "queued":
                text = f"the plan has to wait: {permission.why}; the task begins again when it need not"
                return ToolAnswer(text=text, is_error=True, ends=Queued(why=permission.why))
            case "refused":
                return ToolAnswer(text=f"the plan is not committed: {permission.why}", is_error=True)

    description = (
        "Ends the exploration with a plan. The work itself begins afresh, knowing this plan and what was learned."
    )
    return make_typed_tool(
        "commit_plan", description, InjectedPlanArguments if injected else CommitPlanArguments, commit_plan, kind="end"
    )


REPORT = "report"
_SUMMARY_WORDS = 150


class EvidenceArguments(Arguments):
    path: str = Field(default="", description="a file of the repository")
    lines: tuple[int, int] | None = Field(default=None, description="the first and the last line meant in that file")
    task: str = Field(default="", description="a task whose result you were given")
    commit: str = Field(default="", description="a commit, by its id")


class ReportArguments(Arguments):
    summary: str = Field(min_length=1, description=f"the answer in at most {_SUMMARY_WORDS} words")
    output: str = Field(default="", max_length=60_000, description="the whole answer, for those who need more")
    missing: tuple[Annotated[str, Field(max_length=1_000)], ...] = Field(max_length=50, description=_MISSING)
    evidence: tuple[EvidenceArguments, ...] = Field(
        max_length=200, description="what the answer rests on; each has exactly one of path, task and commit"
    )


def report_tool(find_wrong: Callable[[Sequence[Evidence]], Sequence[str]]) -> Tool:
    """Make `report`. `find_wrong` returns a sentence for each citation of what does not exist."""

    def report(arguments: ReportArguments, workplace: Workplace) -> ToolAnswer:
        cited = [Evidence(**dict(one)) for one in arguments.evidence]
        cited = [one.model_copy(update={"path": _within(workplace, one.path)}) for one in cited]
        words = len(arguments.summary.split())
        wrong = [f"the summary has {words} words; at most {_SUMMARY_WORDS}"] if words > _SUMMARY_WORDS else []
        wrong += find_wrong(cited)
        if wrong:
            return ToolAnswer(text=f"the report is not accepted: {'; '.join(wrong)}", is_error=True)
        given = {name: getattr(arguments, name) for name in ("summary", "output", "missing")}
        return ToolAnswer(text="OK: reported", ends=Reported(report=Report(**given, evidence=tuple(cited))))

    description = "Ends the work with your answer. Call it once, alone. What it cites is looked up."
    tool = make_typed_tool(REPORT, description, ReportArguments, report, kind="end")
    return replace(tool, offer=replace(tool.offer, schema=_whole(tool.offer.schema)))


def _within(workplace: Workplace, path: str) -> str:
    """Return a path as the repository names it; one outside stays as it is, and is then not found."""
    try:
        return workplace.name(workplace.path(path)) if path else ""
    except ToolRefused:
        return path


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
    """The reception of a verdict: it counts, or `void` says why not, and `goes_on` lets the conversation continue."""

    void: str = ""
    summary: str = ""
    goes_on: bool = False


F = TypeVar("F", bound=Arguments)


def verdict_tool(form: type[F], take: Callable[[F], Taken]) -> Tool:
    """Make the tool. `take` gets every form that satisfies the schema."""

    def verdict(filled: F, workplace: Workplace) -> ToolAnswer:
        taken = take(filled)
        ends = None if taken.goes_on else Finish(summary=taken.summary)
        if taken.void:
            return ToolAnswer(text=f"the verdict does not count: {taken.void}", is_error=True, ends=ends)
        return ToolAnswer(text="OK: the verdict counts", ends=ends)

    tool = make_typed_tool(VERDICT, _SAID, form, verdict, kind="end")
    return replace(tool, offer=replace(tool.offer, schema=_whole(tool.offer.schema)))


def _whole(schema: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the schema without references, which not every server follows."""
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
            return {key: _resolved(item, parts) for key, item in value.items()}
        case list():
            return [_resolved(item, parts) for item in value]
        case _:
            return value
