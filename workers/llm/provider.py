"""
The seam between the loop and any model: one method, which takes a conversation and returns a complete turn.

The provider decides how the turn arrives (streamed, in one piece, from a file), and reports pieces to a listener. A
turn that did not arrive completely is not a turn. An adapter asks once; other providers stand before it to retry, wait
and fall back.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from pydantic import JsonValue

from forgepool.workers.llm.messages import Turn, Usage
from forgepool.workers.schema.orders import PhaseName


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOffer:
    """A tool as the model sees it; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Everything a model is shown. The same request twice is the same question."""

    system: tuple[str, ...]
    """Blocks, the most stable first: what all tasks share, then what this phase and task add."""
    tools: tuple[ToolOffer, ...]
    turns: tuple[Turn, ...]
    """The turns, which begin and end with the user's side."""
    phase: PhaseName = "execute"
    lasting: bool = False
    """The conversation will be long, so its stable beginning is cached for an hour, not five minutes."""
    lasting_parts: int | None = None
    """The number of parts of the first user turn that outlast the others; None is all."""
    shares_first: bool = False
    """The first part of the first user turn is the same in many conversations, so that its end is worth a mark."""
    rebuilt: bool = False
    """The turns are not those of the last question, so the vendor's last count does not apply to them."""
    max_output_tokens: int | None = None
    """The most tokens of the answer; None is the model's own limit."""
    must_call: bool = False
    """The answer must call one of the tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of the answer as it arrives. Nothing may be concluded from it: the turn may never be completed."""

    kind: Literal["text", "thinking", "call"]
    text: str
    """The text; for a call, its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTry:
    """One try that brought no turn, and what follows."""

    model: str
    account: str
    trouble: "Trouble"
    said: str
    status: int | None
    seconds: float
    wait_s: float | None
    """Seconds until the next try of the same model; None when there is none."""
    usage: Usage = field(default_factory=Usage)
    """The tokens it cost anyway, counted or guessed: an answer that broke off is charged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """A piece of the wait for an account's rate limit, so that the wait counts against no limit of time."""

    seconds: float


LimitedUnit = Literal["requests", "input", "output", "tokens"]
"""The units that vendors limit; `tokens` are those of input and output together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The rest of one of a vendor's limits, as an answer tells it."""

    limit: float
    remaining: float
    reset_s: float | None = None
    """Seconds until the whole limit is there again; None where that is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The limits that a vendor's answer tells in its headers."""

    allowances: Mapping[LimitedUnit, Allowance]


LlmEvent = Delta | ProviderTry | Waited | RateLimits
Hear = Callable[[LlmEvent], None]

Trouble = Literal[
    "rate_limit",
    "usage_limit",
    "overloaded",
    "server",
    "connection",
    "silence",
    "truncated",
    "authentication",
    "bad_request",
    "overflow",
    "stopped",
    "no_turn",
    "unavailable",
]
"""
The kinds of failure.

Worth another try after a pause: `rate_limit` (too many calls just now), `overloaded`, `server`, `connection`, `silence`
(nothing came for too long), `truncated` (the answer has no end). `usage_limit` blocks the whole account until a stated
or guessed time. After `authentication` and `bad_request` another model may do. After `overflow` the conversation must
become shorter. `stopped`: the caller gave up. `no_turn`: a script has none. `unavailable`: every model is shut off or
failed.
"""

PASSING: frozenset[Trouble] = frozenset(("rate_limit", "overloaded", "server", "connection", "silence", "truncated"))


class ModelFailed(Exception):
    """The model gave no turn; the sentence says what is wrong and how to mend it."""

    def __init__(
        self,
        sentence: str,
        *,
        trouble: Trouble = "no_turn",
        status: int | None = None,
        retry_after_s: float | None = None,
        resets_at: float | None = None,
        usage: Usage | None = None,
        limits: RateLimits | None = None,
    ) -> None:
        super().__init__(sentence)
        self.trouble = trouble
        self.status = status
        """The HTTP status, where one came; 200 for an error inside a stream."""
        self.retry_after_s = retry_after_s
        """The seconds the vendor asked to wait."""
        self.resets_at = resets_at
        """The Unix time at which a usage limit ends, where the vendor said so."""
        self.usage = usage or Usage()
        """The tokens it cost anyway."""
        self.limits = limits
        """The limits that came with the refusal."""


def deaf(event: LlmEvent) -> None:
    """Ignore the event."""


class Provider(Protocol):
    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        """
        Return the model's next turn. A provider that waits long calls `stop` meanwhile, and gives up once it is
        true.

        Raises:
            ModelFailed: there is no turn, and asking this provider again brings none.
        """


_VERSION = re.compile(r"/v\d+\w*(/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    model: str
    """The vendor's name for the model."""
    api_key: str = field(default="", repr=False)
    """The key; empty for a server that needs none."""
    base_url: str | None = None
    """The address, with or without `/v1`; None is the vendor's own."""
    headers: Mapping[str, str] = field(default_factory=dict)
    max_output_tokens: int | None = None
    """The most tokens of one answer where a request sets none; None is the vendor's choice."""
    silence_s: float = 120.0
    """Seconds without a byte after which a try has failed."""
    quiet_s: float = 600.0
    """Seconds with signs of life only, and nothing of the answer, after which a try has failed."""
    longest_s: float = 1200.0
    """Seconds that one try may take in all."""
    effort: str | None = None
    """
    How hard the model should think, in the vendors' words (`none`, `minimal`, `low` ... `max`); None is its
    default.
    """
    name: str = ""
    """The name for messages; empty is the model's name."""
    account: str = ""
    """Our name for the account; a block sealed for one account cannot be opened by another."""

    def most_tokens(self, asked: int | None) -> int | None:
        """Return the most tokens of one answer: as many as are asked for, within the model's limit."""
        return min((most for most in (asked, self.max_output_tokens) if most is not None), default=None)

    @property
    def called(self) -> str:
        return self.name or self.model


def add_version(base_url: str) -> str:
    """Return the address with the wire's version (`/v1` if it has none), without its query."""
    bare = _bare(base_url)
    return bare if _VERSION.search(urlsplit(bare).path) else f"{bare}/v1"


def strip_version(base_url: str) -> str:
    """Return the address without the wire's version and without its query."""
    return _bare(base_url).removesuffix("/v1")


def query(base_url: str) -> dict[str, str]:
    """Return the query of an address (`?api-version=...`), which goes along with every request."""
    return dict(parse_qsl(urlsplit(base_url).query, keep_blank_values=True))


def _bare(base_url: str) -> str:
    return urlunsplit(urlsplit(base_url)._replace(query="", fragment="")).rstrip("/")
