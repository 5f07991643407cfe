"""
What a tool is, and how a model's call becomes an answer: exactly one, whatever the model sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from workers.llm.messages import ToolCall
from workers.llm.provider import ToolOffer
from workers.tools.refusal import Refused
from workers.tools.workplace import Workplace


class Arguments(BaseModel):
    """What a tool is called with. Closed: an argument it does not know is a mistake the model is told of."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model is told."""

    text: str
    is_error: bool = False
    summary: str | None = None
    """Set by `finish` alone: the conversation ends, with this claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    description: str
    arguments: type[Arguments]
    # The function takes exactly `arguments`; a tuple of tools cannot say so for each of them.
    function: Callable[[Any, Workplace], Answer]

    @property
    def offer(self) -> ToolOffer:
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        return ToolOffer(name=self.name, description=self.description, schema=schema)


def carry_out(call: ToolCall, tools: Sequence[Tool], workplace: Workplace) -> Answer:
    """The answer to one call. Never raises for what the model sent or for what the disk says."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        names = ", ".join(tool.name for tool in tools)
        return Answer(text=f"no tool is called {call.name!r}; the tools are: {names}", is_error=True)
    try:
        arguments = tool.arguments.model_validate(call.arguments)
        return tool.function(arguments, workplace)
    except ValidationError as wrong:
        return Answer(text=f"{call.name}: {_mistakes(wrong, tool)}", is_error=True)
    except Refused as refused:
        return Answer(text=str(refused), is_error=True)
    except UnicodeError:
        return Answer(text=f"{call.name}: half a character among its arguments; send UTF-8", is_error=True)
    except OSError as trouble:
        where = f" ({workplace.name(trouble.filename)})" if trouble.filename else ""
        return Answer(text=f"{call.name}: {trouble.strerror}{where}", is_error=True)


def _mistakes(wrong: ValidationError, tool: Tool) -> str:
    found = [f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in wrong.errors()]
    known = ", ".join(tool.arguments.model_fields)
    return f"{'; '.join(found)}. Its arguments are: {known}"
