"""OpenAI's Batch: a file with one call, and a batch of it that carries our name for the call in its metadata."""

import json
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from forgepool.workers.llm.batch import WAITS, BatchLook
from forgepool.workers.llm.messages import Turn
from forgepool.workers.llm.provider import ModelFailed, ModelRequest
from forgepool.workers.llm.wires import faults, openai_chat, openai_responses
from forgepool.workers.llm.wires.anthropic_batch import name_call
from forgepool.workers.llm.wires.openai_chat import OpenAIChat
from forgepool.workers.llm.wires.openai_responses import OpenAIResponses

if TYPE_CHECKING:
    from openai.types import Batch

_CLOCKS_S = 120.0
"""Seconds by which the vendor's clock may be behind ours."""
_CALL = "forgepool_call"
"""The key of a batch's metadata that has the name of its call."""
_ENDS = {"failed": "has failed", "expired": "has expired", "cancelled": "is cancelled"}

T = TypeVar("T")


class OpenAIBatches:
    """A batch lane: one model over either of OpenAI's wires."""

    def __init__(self, live: OpenAIResponses | OpenAIChat) -> None:
        self._live = live

    def create(self, key: str, request: ModelRequest) -> str:
        client, newer = self._live.client, isinstance(self._live, OpenAIResponses)
        asked = (openai_responses.body if newer else openai_chat.body)(self._live.endpoint, request)
        asked = {key: value for key, value in asked.items() if key not in ("stream", "stream_options")}
        where: Any = "/v1/responses" if newer else "/v1/chat/completions"
        line = {"custom_id": name_call(key), "method": "POST", "url": where, "body": asked}
        text = (json.dumps(line, ensure_ascii=False) + "\n").encode()
        file = self._ask(lambda: client.files.create(file=(f"{name_call(key)}.jsonl", text), purpose="batch"))
        made = self._ask(
            lambda: client.batches.create(
                completion_window="24h", endpoint=where, input_file_id=file.id, metadata={_CALL: name_call(key)}
            )
        )
        return made.id

    def find(self, key: str, since: float, others: Collection[str]) -> str | None:
        return self._ask(lambda: self._find(name_call(key), since - _CLOCKS_S))

    def _find(self, called: str, since: float) -> str | None:
        for batch in self._live.client.batches.list(limit=100):
            if batch.created_at < since:
                return None
            if (batch.metadata or {}).get(_CALL) == called:
                return batch.id
        return None

    def look(self, batch: str, key: str) -> BatchLook:
        try:
            found = self._ask(lambda: self._live.client.batches.retrieve(batch))
        except ModelFailed as failed:
            if failed.status != 404:
                raise
            return BatchLook(kind="over", why=f"the vendor has no batch {batch}")
        if found.status not in (*_ENDS, "completed"):
            return WAITS
        # A batch that was cancelled or has expired may have been answered before.
        result = next((line for line in self._results(found) if line.get("custom_id") == name_call(key)), {})
        match result.get("response"):
            case {"status_code": 200, "body": dict() as answer}:
                return BatchLook(kind="answered", answer=answer)
            case {"body": error}:
                said = faults.from_body(error).message
            case _:
                said = "" if result else _told(found)
        ended = _ENDS.get(found.status, "could not be answered")
        return BatchLook(kind="over", why=f"its batch {ended}{f': {said}' if said else ''}")

    def cancel(self, batch: str) -> None:
        with suppress(ModelFailed):  # Ended, or gone: the next look says it.
            self._ask(lambda: self._live.client.batches.cancel(batch))

    def read(self, answer: object, request: ModelRequest) -> Turn:
        read = openai_responses.read_whole if isinstance(self._live, OpenAIResponses) else openai_chat.read_whole
        return read(self._live.endpoint, request, answer)

    def _results(self, batch: "Batch") -> list[dict[str, Any]]:
        files = [file for file in (batch.output_file_id, batch.error_file_id) if file]
        return self._ask(lambda: [line for file in files for line in self._lines(file)])

    def _lines(self, file: str) -> list[dict[str, Any]]:
        text = self._live.client.files.content(file).text
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def _ask(self, asked: Callable[[], T]) -> T:
        return faults.guard(asked, self._live.endpoint)


def _told(batch: "Batch") -> str:
    """Return the vendor's words about a batch that it did not take."""
    said = batch.errors.data if batch.errors is not None else None
    return "; ".join(error.message for error in said or () if error.message)
