"""
The seam between the loop and any model: one method. A conversation goes in, a complete turn comes out.

How the turn arrives (streamed, in one piece, from a file) is the provider's affair; what arrives meanwhile is told to
whoever listens. A turn that did not arrive completely is not a turn. An adapter asks once; trying again, waiting and
falling back are providers that stand before it.
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
    """Blocks, the most lasting first: what all tasks share, then what this phase and task add."""
    tools: tuple[ToolOffer, ...]
    turns: tuple[Turn, ...]
    """Begins and ends with the user's side."""
    phase: PhaseName = "execute"
    lasting: bool = False
    """Whether the conversation will be long: its stable beginning is worth an hour in the cache, not five minutes."""
    lasting_parts: int | None = None
    """How many parts of the user's first say outlast what follows them; None is all."""
    rebuilt: bool = False
    """Whether the turns are not what the last answer was given to: what a vendor counted then says nothing of them."""
    max_output_tokens: int | None = None
    """None is the model's own most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of what the model is saying. Nothing may be concluded from it: the turn may never be completed."""

    kind: Literal["text", "thinking", "call"]
    text: str
    """Of a call: its arguments, as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTry:
    """One try that brought no turn, and what is done about it."""

    model: str
    account: str
    trouble: "Trouble"
    said: str
    status: int | None
    seconds: float
    wait_s: float | None
    """Seconds until the next try of the same model; None when there is none."""
    usage: Usage = field(default_factory=Usage)
    """What it cost all the same, told or guessed: an answer that broke off is charged for."""


LlmEvent = Delta | ProviderTry
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
Why there is no turn. Worth trying again after a pause: `rate_limit` (too many calls just now), `overloaded`, `server`,
`connection`, `silence` (nothing came for too long), `truncated` (the answer ended without its end). Not before a time
that is stated or guessed, by nobody on that account: `usage_limit`. Another model may do: `authentication`,
`bad_request`. The conversation must become shorter: `overflow`. `stopped`: the asker gave up. `no_turn`: a script has
none. `unavailable`: every model that could be asked is shut off or failed.
"""

PASSING: frozenset[Trouble] = frozenset(("rate_limit", "overloaded", "server", "connection", "silence", "truncated"))


class ModelFailed(Exception):
    """The model gave no turn; the sentence says what is wrong and what would mend it."""

    def __init__(
        self,
        sentence: str,
        *,
        trouble: Trouble = "no_turn",
        status: int | None = None,
        retry_after_s: float | None = None,
        resets_at: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(sentence)
        self.trouble = trouble
        self.status = status
        """HTTP status, where one came; 200 for an error inside a stream."""
        self.retry_after_s = retry_after_s
        """Seconds the vendor asked to wait."""
        self.resets_at = resets_at
        """Unix seconds at which a usage limit ends, as far as the vendor said."""
        self.usage = usage or Usage()
        """What it cost all the same."""


def deaf(event: LlmEvent) -> None:
    """Listens to nothing."""


class Provider(Protocol):
    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        """
        The model's next turn. Who waits for long asks `stop` meanwhile and, told so, gives up.

        Raises:
            ModelFailed: there is no turn, and this provider will not get one by asking again.
        """


_VERSION = re.compile(r"/v\d+\w*(/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    model: str
    """As the vendor calls it."""
    api_key: str = field(default="", repr=False)
    """Empty for a server that wants none."""
    base_url: str | None = None
    """With or without `/v1`; None is the vendor's own."""
    headers: Mapping[str, str] = field(default_factory=dict)
    max_output_tokens: int | None = None
    """The most for one answer where a request does not say; None is the vendor's choice."""
    silence_s: float = 120.0
    """Seconds without a byte after which there will be no answer."""
    quiet_s: float = 600.0
    """Seconds in which nothing of the answer came, only signs of life, after which there will be none."""
    longest_s: float = 1200.0
    """Seconds that one try may take in all."""
    effort: str | None = None
    """How hard the model should think, in the vendors' words (`none`, `minimal`, `low` ... `max`); None leaves it."""
    name: str = ""
    """What it is called in sentences; empty is the model's name."""
    account: str = ""
    """Our name for whose door it is; what is sealed for one account no other can open."""

    def most_tokens(self, asked: int | None) -> int | None:
        """For one answer: what is asked for, as far as the model gives as much."""
        return min((most for most in (asked, self.max_output_tokens) if most is not None), default=None)

    @property
    def called(self) -> str:
        return self.name or self.model


def add_version(base_url: str) -> str:
    """The address with the version the wire has in it, `/v1` where it names none; without its query."""
    bare = _bare(base_url)
    return bare if _VERSION.search(urlsplit(bare).path) else f"{bare}/v1"


def strip_version(base_url: str) -> str:
    """The address without the wire's version and without its query."""
    return _bare(base_url).removesuffix("/v1")


def query(base_url: str) -> dict[str, str]:
    """What an address wants sent along with every request (`?api-version=...`)."""
    return dict(parse_qsl(urlsplit(base_url).query, keep_blank_values=True))


def _bare(base_url: str) -> str:
    return urlunsplit(urlsplit(base_url)._replace(query="", fragment="")).rstrip("/")
