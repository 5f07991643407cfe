"""
Policy rules as people write them and as messages carry them.

`workers.schema.orders` imports this module, which therefore cannot use its `Message`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from forgepool.workers.schema.mistakes import Duration, show_value

Decision = Literal["allow", "audit", "prompt", "deny"]
Unattended = Literal["deny", "park"]
"""The answer to a call that needs a person's approval: denied, or the task waits for a person."""

_SAME = {"pathGlob": "path", "commandPrefix": "command", "host": "network"}


def _one_or_more(written: object) -> object:
    """Read a word as a list of one."""
    return (written,) if isinstance(written, str) else tuple(written) if isinstance(written, list) else written


def _tokens(written: object) -> object:
    """Read `git push` as `[git, push]`."""
    return (
        tuple(written.split()) if isinstance(written, str) else tuple(written) if isinstance(written, list) else written
    )


def _token_lists(written: object) -> object:
    return tuple(_tokens(each) for each in written) if isinstance(written, list) else written


def _known_by_one_name(written: object) -> object:
    """Translate the names that other tools give to a key."""
    if not isinstance(written, dict):
        return written
    for other, name in _SAME.items():
        if other in written and name in written:
            raise ValueError(f"has both '{other}' and '{name}', which are the same; keep '{name}'")
    return {_SAME.get(key, key): value for key, value in written.items()}


_Words = Annotated[tuple[str, ...], BeforeValidator(_one_or_more, json_schema_input_type=str | tuple[str, ...])]


_Tokens = Annotated[tuple[str, ...], BeforeValidator(_tokens, json_schema_input_type=str | tuple[str, ...])]


def _other_names(schema: dict[str, Any]) -> None:
    """Add the names that other tools give to a key."""
    keys = schema["properties"]
    keys.update({other: keys[name] for other, name in _SAME.items()})


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MatchEntry(_Written):
    """
    The things a rule is about. Every key given must match; a list matches by any of its items, an empty one never.
    """

    model_config = ConfigDict(json_schema_extra=_other_names)

    phase: Literal["plan", "execute"] | None = None
    tool: _Words | None = None
    path: _Words | None = None
    command: _Tokens | None = None
    commands: (
        Annotated[
            tuple[tuple[str, ...], ...],
            BeforeValidator(_token_lists, json_schema_input_type=tuple[str | tuple[str, ...], ...]),
        ]
        | None
    ) = None
    """Alternatives to `command`."""
    without: _Words | None = None
    """Options that exclude a command from a rule that permits it."""
    network: _Words | None = None
    variable: _Words | None = None


class RuleEntry(_Written):
    name: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")
    match: Annotated[MatchEntry, BeforeValidator(_known_by_one_name)]
    decision: Decision
    reason: str = ""
    match_examples: tuple[str, ...] = ()
    not_match_examples: tuple[str, ...] = ()


class VerifyTerms(_Written):
    """The bounds of the target's checks before the built-in agent's work counts as verified."""

    rounds: int = Field(default=2, ge=1, le=10)
    """The most times that a red check sends the work back to its author; after these the gate alone runs them."""
    within_s: Annotated[Duration, Field(gt=0)] = 600.0
    """Seconds for all checks of one round. What has not ended then is left to the gate."""


def _usual_bounds(written: object) -> object:
    if written not in ("checks", None) and not isinstance(written, dict | VerifyTerms):
        keys = "its keys are 'rounds' and 'within_s', both optional"
        raise ValueError(f"must be `checks` or a mapping, is {show_value(written)}; {keys}")
    return {} if written == "checks" else written


WrittenVerify = Annotated[
    VerifyTerms | None, BeforeValidator(_usual_bounds, json_schema_input_type=Literal["checks"] | VerifyTerms | None)
]


class ScanTerms(BaseModel):
    """The terms by which the gate will scan the work, and by which the worker scans it before."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    grants: tuple[str, ...] = ()
    """Globs of protected paths and tests that a person lets the task change."""
    waive: tuple[str, ...] = ()
    """Rules that a person waives for it."""
    reviewed: bool = False
    """The plan has the work reviewed, so that findings for attention are left to the reviewer."""
    checks: dict[str, str] = Field(default_factory=dict)
    """The commands of the plan's checks by name. Their set-ups are among the order's."""
    verify: VerifyTerms | None = Field(default=None, exclude_if=lambda terms: terms is None)
    """Set where the target's checks run there, too."""
    definitions: tuple[str, ...] = Field(default=(), exclude_if=lambda checks: not checks)
    """The plan's checks whole, each in JSON; only with `verify`."""
