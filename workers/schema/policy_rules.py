"""
Rules as people write them: the form alone. What is in a message too travels in this form.

Imported by `workers.schema.orders`, and so without its `Message` and all that needs it.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Decision = Literal["allow", "audit", "prompt", "deny"]

_SAME = {"pathGlob": "path", "commandPrefix": "command", "host": "network"}


def _one_or_more(written: object) -> object:
    """A word is short for a list of one."""
    return (written,) if isinstance(written, str) else tuple(written) if isinstance(written, list) else written


def _tokens(written: object) -> object:
    """`git push` is short for `[git, push]`."""
    return (
        tuple(written.split()) if isinstance(written, str) else tuple(written) if isinstance(written, list) else written
    )


def _token_lists(written: object) -> object:
    return tuple(_tokens(each) for each in written) if isinstance(written, list) else written


def _known_by_one_name(written: object) -> object:
    """Other names that keys have elsewhere."""
    if not isinstance(written, dict):
        return written
    for other, name in _SAME.items():
        if other in written and name in written:
            raise ValueError(f"has both '{other}' and '{name}', which are the same; keep '{name}'")
    return {_SAME.get(key, key): value for key, value in written.items()}


_Words = Annotated[tuple[str, ...], BeforeValidator(_one_or_more)]


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MatchEntry(_Written):
    """What a rule is about. All that is said must fit; a list fits by any of its items, an empty one never."""

    phase: Literal["plan", "execute"] | None = None
    tool: _Words | None = None
    path: _Words | None = None
    command: Annotated[tuple[str, ...], BeforeValidator(_tokens)] | None = None
    commands: Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_token_lists)] | None = None
    """Several, of which any will do."""
    without: _Words | None = None
    """Options with which a rule that permits a command does not."""
    network: _Words | None = None
    variable: _Words | None = None


class RuleEntry(_Written):
    name: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")
    match: Annotated[MatchEntry, BeforeValidator(_known_by_one_name)]
    decision: Decision
    reason: str = ""
    match_examples: tuple[str, ...] = ()
    not_match_examples: tuple[str, ...] = ()
