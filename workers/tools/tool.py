"""Tools, and how a model's call becomes exactly one answer, whatever the model sent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.llm.provider import ToolOffer
from forgepool.workers.schema.mistakes import explain_errors
from forgepool.workers.schema.reports import LeadRequest, Report
from forgepool.workers.tools.workplace import ToolRefused, Workplace


class Arguments(BaseModel):
    """The arguments of a tool. An unknown argument is a mistake that the model is told."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The model says it is done."""

    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The model has committed to a plan."""

    plan: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAsked:
    """The model asks a person."""

    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """The model's plan needs paths that another task holds now."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The model has answered, and what it cites exists."""

    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """The model asks the orchestrator for something, and its conversation rests until the reply."""

    request: LeadRequest


Ends = Finish | Planned | PersonAsked | Queued | Reported | Parked
"""The ways a conversation ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The answer to the model."""

    text: str
    is_error: bool = False
    ends: Ends | None = None


ToolKind = Literal["read", "write", "run", "end"]
"""`read` changes nothing in the worktree; `run` may change anything; `end` concerns the conversation itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    offer: ToolOffer
    kind: ToolKind
    call: Callable[[Mapping[str, JsonValue], Workplace], ToolAnswer]
    """
    Checks the arguments and does the work.

    It may raise ToolRefused, ValueError (an encoding's too) and OSError, which `carry_out` turns into answers.
    """

    @property
    def name(self) -> str:
        return self.offer.name


A = TypeVar("A", bound=Arguments)


def make_typed_tool(
    name: str, description: str, arguments: type[A], function: Callable[[A, Workplace], ToolAnswer], *, kind: ToolKind
) -> Tool:
    """Make a tool whose arguments are a pydantic model."""
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    offer = ToolOffer(name=name, description=description, schema=schema)

    def call(given: Mapping[str, JsonValue], workplace: Workplace) -> ToolAnswer:
        try:
            filled = arguments.model_validate(given)
        except ValidationError as wrong:
            found = "; ".join(sentence for _, sentence in explain_errors(dict(given), arguments, wrong, "the call"))
            raise ToolRefused(f"{name}: {found}. Its arguments are: {', '.join(arguments.model_fields)}") from wrong
        return function(filled, workplace)

    return Tool(offer=offer, kind=kind, call=call)


def carry_out(call: ToolCall, tools: Sequence[Tool], workplace: Workplace) -> ToolAnswer:
    """Answer one call. It never raises for what the model sent or for what the disk says."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        names = ", ".join(tool.name for tool in tools)
        return ToolAnswer(text=f"no tool is called {call.name!r}; the tools are: {names}", is_error=True)
    if call.malformed is not None:
        return ToolAnswer(
            text=f"not run: the arguments of {call.name} are not one JSON object; send it again", is_error=True
        )
    try:
        return tool.call(call.arguments, workplace)
    except ToolRefused as refused:
        return ToolAnswer(text=str(refused), is_error=True)
    except UnicodeError:
        return ToolAnswer(text=f"{call.name}: half a character among its arguments; send UTF-8", is_error=True)
    except ValueError as trouble:
        why = str(trouble).partition("\n")[0] or "a value that cannot be used"
        return ToolAnswer(text=f"{call.name}: {why}", is_error=True)
    except OSError as trouble:
        where = f" ({workplace.name(trouble.filename)})" if trouble.filename else ""
        return ToolAnswer(text=f"{call.name}: {trouble.strerror}{where}", is_error=True)
