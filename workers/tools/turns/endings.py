"""
The tools that end a conversation: `commit_plan`, `finish`, `ask`. What they say is the model's word; the harness looks
for itself before it lets the conversation end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

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
