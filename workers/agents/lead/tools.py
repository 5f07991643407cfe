"""The tools of a lead. Those that need the orchestrator end the conversation with a request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from pydantic import Field, JsonValue

from forgepool.workers.agents.lead.rules import LeadStanding, find_refusal
from forgepool.workers.schema.reports import DispatchedTask, LeadRequest, Report
from forgepool.workers.tools.tool import Arguments, Parked, Reported, Tool, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import ToolRefused, Workplace

_Lines = tuple[str, ...]


class FrameArguments(Arguments):
    questions: _Lines = Field(min_length=2, max_length=4, description="the 2 to 4 questions that decide the goal")
    dependencies: _Lines = Field(description="which of them must be answered before which; empty if none")
    known: _Lines = Field(min_length=1, description="what is known already, and from where")
    expected: _Lines = Field(min_length=1, description="a line for each task, `id: the result you expect`")
    would_change_the_plan: _Lines = Field(min_length=1, description="results that would change the plan, and how")


class DispatchArguments(Arguments):
    tasks: tuple[DispatchedTask, ...] = Field(min_length=1, max_length=20)


class CollectArguments(Arguments):
    what: str = Field(
        default="ready", min_length=1, description="a task's id; `ready`: what has ended; `all`: wait for everything"
    )


class CheckpointArguments(Arguments):
    changed: _Lines = Field(min_length=1, description="what the results change in what you believed; take a side")
    in_tension: _Lines = Field(description="which results disagree, with each other or with the frame")
    open: _Lines = Field(description="what is still open, and which task answers it")


class BriefArguments(Arguments):
    what_matters: _Lines = Field(min_length=1, description="results that decide the goal, each with its task's id")
    disagrees: _Lines = Field(description="what disagrees, and which side you take")
    gaps: _Lines = Field(description="what was not looked at, not found, or failed")
    calibration: _Lines = Field(description="how sure each claim is, and why")
    direction: _Lines = Field(min_length=1, description="what the synthesis will say")


class CancelArguments(Arguments):
    ids: _Lines = Field(min_length=1)
    why: str = Field(min_length=10, description="one sentence")


class ReadResultArguments(Arguments):
    id: str = Field(min_length=1)
    depth: Literal["summary", "full"] = "summary"


class TextArguments(Arguments):
    text: str = Field(min_length=1, max_length=60_000)


A = TypeVar("A", bound=Arguments)
_SUMMARY_WORDS = 100


def lead_tools(
    standing: Callable[[], LeadStanding], find_wrong: Callable[[DispatchedTask], Sequence[str]]
) -> tuple[Tool, ...]:
    """
    Make the tools. `standing` is asked at each call; a call against the rules is refused with a sentence.

    `find_wrong` says which skill and which files that a task names do not exist.
    """
    tools = (*_NOTING, *_request_tools(standing, find_wrong), *_ENDING)
    return tuple(guard(tool, standing) for tool in tools)


def _request_tools(
    standing: Callable[[], LeadStanding], find_wrong: Callable[[DispatchedTask], Sequence[str]]
) -> tuple[Tool, ...]:
    """Make the tools that end the conversation until the orchestrator has replied."""

    def park(**fields: object) -> ToolAnswer:
        request = LeadRequest.model_validate({"number": standing().asked + 1, **fields})
        return ToolAnswer(text=f"OK: request {request.number}; its reply follows", ends=Parked(request=request))

    def dispatch(given: DispatchArguments, workplace: Workplace) -> ToolAnswer:
        if wrong := [sentence for one in given.tasks for sentence in find_wrong(one)]:
            raise ToolRefused(f"not run: {'; '.join(wrong)}")
        return park(do="dispatch", tasks=given.tasks)

    def collect(given: CollectArguments, workplace: Workplace) -> ToolAnswer:
        return park(do="collect", what=given.what)

    def read_result(given: ReadResultArguments, workplace: Workplace) -> ToolAnswer:
        return park(do="read", what=given.id, full=given.depth == "full")

    def cancel(given: CancelArguments, workplace: Workplace) -> ToolAnswer:
        return park(do="cancel", ids=given.ids, why=given.why)

    return (
        _make("dispatch", _DISPATCH, DispatchArguments, dispatch),
        _make("collect", _COLLECT, CollectArguments, collect),
        _make("read_result", _READ, ReadResultArguments, read_result),
        _make("cancel", "Cancels tasks that are not needed any more.", CancelArguments, cancel),
    )


def _make(name: str, description: str, form: type[A], function: Callable[[A, Workplace], ToolAnswer]) -> Tool:
    return make_typed_tool(name, description, form, function, kind="end")


def _note(arguments: Arguments, workplace: Workplace) -> ToolAnswer:
    return ToolAnswer(text="OK: kept in sight")


def _end(arguments: TextArguments, workplace: Workplace) -> ToolAnswer:
    words = arguments.text.split()
    summary = " ".join(words[:_SUMMARY_WORDS]) + (" ..." if len(words) > _SUMMARY_WORDS else "")
    return ToolAnswer(
        text="OK: this ends your work", ends=Reported(report=Report(summary=summary, output=arguments.text))
    )


_DISPATCH = "Adds tasks to the run. The reply names the ids that were taken, or what is wrong; then none is added."
_COLLECT = "Brings the headers of results. Where there is none yet you rest until there is one, which costs nothing."
_READ = "Brings the summary of a task that has ended, or the whole of its result."
_SYNTHESIZE = (
    "Ends the run's work with a synthesis for the person. A sentence that says that something landed, is green, done, "
    "fixed, measured or reviewed must name the task's id in backticks, or the commit; else it is struck."
)
_NOTING = (
    _make("frame", "Says, before anything is dispatched, how you see the goal.", FrameArguments, _note),
    _make("checkpoint", "Says what the results so far come to.", CheckpointArguments, _note),
    _make("brief", "Says, when everything is collected, what the synthesis rests on.", BriefArguments, _note),
)
_ENDING = (
    _make("synthesize", _SYNTHESIZE, TextArguments, _end),
    _make("answer", "Ends with an answer, where no task is needed to give it.", TextArguments, _end),
)


def guard(tool: Tool, standing: Callable[[], LeadStanding]) -> Tool:
    """Return the tool, which is refused where the rules of a lead do not allow it now."""

    def call(given: Mapping[str, JsonValue], workplace: Workplace) -> ToolAnswer:
        if (why := find_refusal(tool.name, standing())) is not None:
            raise ToolRefused(f"not run: {why}")
        return tool.call(given, workplace)

    return replace(tool, call=call)
