"""
Anthropic's Message Batches: a batch of one call, under our name for it.

The vendor lists batches without the names of their calls, which only the results have. So a batch under way whose
maker is unknown cannot be told from one of ours, and is waited for.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from forgepool.workers.llm.batch import WAITS, BatchLook
from forgepool.workers.llm.messages import Turn
from forgepool.workers.llm.provider import ModelFailed, ModelRequest
from forgepool.workers.llm.wires import faults
from forgepool.workers.llm.wires.anthropic import AnthropicMessages, Body, body, read_whole

if TYPE_CHECKING:
    from anthropic.types.messages import MessageBatch

_CLOCKS_S = 120.0
"""Seconds by which the vendor's clock may be behind ours."""
_PATH = "/v1/messages/batches"

T = TypeVar("T")


class AnthropicBatches:
    """A batch lane: one model over Anthropic's wire."""

    def __init__(self, live: AnthropicMessages) -> None:
        self._live = live

    def create(self, key: str, request: ModelRequest) -> str:
        params = _unmarked(body(self._live.endpoint, request))
        made: list[Any] = [{"custom_id": name(key), "params": params}]
        return self._ask(lambda: self._live.client.messages.batches.create(requests=made)).id

    def find(self, key: str, since: float, others: Collection[str]) -> str | None:
        unsure = False
        for batch in self._ask(lambda: list(self._since(since - _CLOCKS_S))):
            if batch.id in others or _count(batch) != 1:
                continue
            if batch.processing_status != "ended":
                unsure = True
            elif any(line.get("custom_id") == name(key) for line in self._results(batch.id)):
                return batch.id
        return "" if unsure else None

    def _since(self, since: float) -> "Iterator[MessageBatch]":
        for batch in self._live.client.messages.batches.list(limit=100):
            if batch.created_at.timestamp() < since:
                return
            yield batch

    def look(self, batch: str, key: str) -> BatchLook:
        try:
            found = self._ask(lambda: self._live.client.messages.batches.retrieve(batch))
        except ModelFailed as failed:
            if failed.status != 404:
                raise
            return BatchLook(kind="over", why=f"the vendor has no batch {batch}")
        if found.processing_status != "ended":
            return WAITS
        result = next((line["result"] for line in self._results(batch) if line.get("custom_id") == name(key)), None)
        match result:
            case {"type": "succeeded", "message": dict() as message}:
                return BatchLook(kind="answered", answer=message)
            case {"type": "errored", "error": error}:
                said = faults.from_body(error).message or "without a reason"
                return BatchLook(kind="over", why=f"the vendor could not answer it in a batch: {said}")
            case {"type": "expired" | "canceled" as word}:
                return BatchLook(kind="over", why=f"its batch {'has expired' if word == 'expired' else 'is cancelled'}")
            case _:
                return BatchLook(kind="over", why="its batch has no result for it")

    def cancel(self, batch: str) -> None:
        with suppress(ModelFailed):  # Ended, or gone: the next look says it.
            self._ask(lambda: self._live.client.messages.batches.cancel(batch))

    def read(self, answer: object, request: ModelRequest) -> Turn:
        return read_whole(self._live.endpoint, request, answer)

    def _results(self, batch: str) -> list[Body]:
        import httpx2

        # Not the address that the batch names, to which the key would go along.
        options: Any = {"headers": {"Accept": "application/binary"}}
        path = f"{_PATH}/{batch}/results"
        reply = self._ask(lambda: self._live.client.get(path, cast_to=httpx2.Response, options=options))
        return self._ask(lambda: [json.loads(line) for line in reply.text.splitlines() if line.strip()])

    def _ask(self, asked: Callable[[], T]) -> T:
        return faults.guard(asked, self._live.endpoint)


def name(key: str) -> str:
    """Return the call's name as vendors take it: of few characters, and no dots."""
    return f"forgepool-{hashlib.sha256(key.encode()).hexdigest()[:40]}"


def _count(batch: "MessageBatch") -> int:
    counts = batch.request_counts
    return counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired


def _unmarked(asked: Body) -> Body:
    """Return the request without streaming, and without cache marks: no later call would read what is cached."""
    messages = (block for message in asked["messages"] for block in message["content"])
    for block in (*asked.get("system", ()), *asked.get("tools", ()), *messages):
        block.pop("cache_control", None)
    return {key: value for key, value in asked.items() if key != "stream"}
