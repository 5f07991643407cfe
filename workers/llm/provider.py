"""
The seam between the loop and any model: one method. A conversation goes in, a complete turn comes out.

How the turn arrives (streamed, in one piece, from a file) is the provider's affair, as is trying again. A
turn that did not arrive completely is not a turn.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from workers.llm.messages import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOffer:
    """A tool as the model sees it; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything a model is shown. The same request twice is the same question."""

    system: tuple[str, ...]
    tools: tuple[ToolOffer, ...]
    turns: tuple[Turn, ...]
    """Begins and ends with the user's side."""


class ModelFailed(Exception):
    """The model gave no turn; the sentence says what is wrong and what would mend it."""


class Provider(Protocol):
    def ask(self, request: Request, *, stop: Callable[[], bool]) -> Turn:
        """
        The model's next turn. Who waits for long asks `stop` meanwhile and, told so, gives up.

        Raises:
            ModelFailed: there is no turn, and asking again would not bring one.
        """
