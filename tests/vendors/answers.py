"""Answers of a brain: a turn or a fault, independent of any vendor. The wires translate them."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Wire = Literal["anthropic", "openai-responses", "openai-chat"]
Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One valid request as it arrived, with properties for common questions about it."""

    wire: Wire
    path: str
    headers: Mapping[str, str]
    """Header names are in lower case."""
    body: Body
    raw: bytes
    number: int
    """Number of this request among all the server answered, from 1."""

    @property
    def key(self) -> str:
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def tools(self) -> list[str]:
        """Return the names of the tools offered."""
        return [tool.get("name") or tool.get("function", {}).get("name", "") for tool in self.body.get("tools") or ()]

    @property
    def system(self) -> str:
        if self.wire == "openai-responses":
            return str(self.body.get("instructions") or "")
        if self.wire == "anthropic":
            return _text(self.body.get("system"))
        return "\n".join(_text(one["content"]) for one in self._messages if one.get("role") in ("system", "developer"))

    @property
    def texts(self) -> list[str]:
        """Return the texts of the user's side without tool results, oldest first. The first holds the task card."""
        said = [one for one in self._messages if one.get("role") == "user"]
        return [text for text in (_text(one["content"]) for one in said) if text]

    @property
    def results(self) -> list[str]:
        """Return the results of all calls so far, oldest first."""
        return list(self._results())

    @property
    def answered(self) -> int:
        """Return the number of the assistant's turns in the request."""
        roles = [one.get("role") or _ROLES.get(one.get("type", ""), "") for one in self._messages]
        return sum(
            role == "assistant" and before != "assistant" for before, role in zip(["", *roles], roles, strict=False)
        )

    @property
    def _messages(self) -> list[Body]:
        key = "input" if self.wire == "openai-responses" else "messages"
        shown = self.body.get(key) or []
        return [{"role": "user", "content": shown}] if isinstance(shown, str) else shown

    def _results(self) -> Iterator[str]:
        for message in self._messages:
            if message.get("role") == "tool":
                yield _text(message["content"])
            elif message.get("type") in ("function_call_output", "custom_tool_call_output"):
                yield _text(message["output"])
            elif isinstance(message.get("content"), list):
                results = (block for block in message["content"] if block.get("type") == "tool_result")
                yield from (_text(block.get("content")) for block in results)


_ROLES = {"reasoning": "assistant", "function_call": "assistant", "custom_tool_call": "assistant"}


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block, dict) and "text" in block)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The usage that an answer reports; `input` is all of the input."""

    input: int = 0
    cached: int = 0
    written: int = 0
    written_1h: int = 0
    output: int = 0
    reasoning: int = 0


Stop = Literal["end", "calls", "max_tokens", "refusal", "overflow", "pause"]
Call = tuple[str, Mapping[str, Any] | str]
"""A tool's name and its arguments; a string is sent unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """One turn of the model. By default it is the empty turn that some models give."""

    text: str = ""
    calls: Sequence[Call] = ()
    thinking: str = ""
    redacted: bool = False
    """True if the thinking is shown only sealed (`redacted_thinking`, or a reasoning item without a summary)."""
    phase: str = ""
    """The Responses API's mark on the text."""
    usage: Tokens | None = None
    """None means the count of the simulated prompt cache. On the chat wire, `Tokens()` leaves usage out."""
    stop: Stop | None = None
    """None means `calls` if there are calls, and otherwise `end`."""
    pause_s: float = 0.0
    """Seconds of silence before the answer begins."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ends(self) -> Stop:
        return self.stop or ("calls" if self.calls else "end")


_HALF = Say(
    text="I will write it.",
    calls=[("write_file", {"path": "calc.py", "content": "def add(a, b):\n    return a + b\n"})],
)

Kind = Literal[
    "rate_limit",
    "usage_limit",
    "overloaded",
    "server",
    "authentication",
    "forbidden",
    "no_model",
    "bad_request",
    "overflow",
    "too_large",
    "reset",
    "reset_midway",
    "cut",
    "error_event",
    "failed_event",
    "silence",
    "silence_midway",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """
    An answer without a turn. The first ten kinds are answers with an HTTP status of their own.

    `reset` resets the connection before any header, and `reset_midway` in the middle of the answer. `cut` ends the
    stream cleanly in the middle of a tool's arguments. `error_event` and `failed_event` (`response.failed`) are inside
    a stream of status 200.

    `silence` sends nothing, and `silence_midway` half an answer, for `seconds`; then the connection is reset.
    """

    kind: Kind
    status: int | None = None
    """HTTP status to use instead of the vendor's own."""
    code: str = ""
    """Error code or type to use instead of the vendor's own."""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 60.0
    half: Say = _HALF
    """The turn that was being sent when the connection broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A stream as some other server sends it: the JSON of each event, or text that is not JSON."""

    events: Sequence[Body | str]


Answer = Say | Fault | Raw
Brain = Callable[[Seen], Answer]


MALFORMED = Say(text="Writing.", calls=[("write_file", '{"path": "calc.py" oops}')])
REFUSAL = Say(text="I can't help with that.", stop="refusal")
OVERFLOW_MIDWAY = Say(text="So far", stop="overflow")
MAX_TOKENS_IN_CALL = Say(
    text="Writing.", calls=[("write_file", '{"path": "calc.py", "content": "def add')], stop="max_tokens"
)
EMPTY = Say()


def scripted(*answers: Answer) -> Brain:
    """Give one answer after another to any request. A request beyond them is refused as bad."""
    left, lock = list(answers), threading.Lock()

    def brain(seen: Seen) -> Answer:
        with lock:
            if left:
                return left.pop(0)
        return Fault(kind="bad_request", message=f"the script has {len(answers)} answers, and this asks for one more")

    return brain


def arguments_text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
