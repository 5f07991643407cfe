"""
The batch endpoints of both vendors, as their documentation and their kits' types have them.

Anthropic: `/v1/messages/batches`. OpenAI: `/v1/files` and `/v1/batches`, for the calls of either of its wires. A batch
ends `delay_s` after it was made, and its calls are answered by the server's brain then, each once. A call that is never
answered costs nothing. `fates` decides what else becomes of a call, by the number of its batch.
"""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Literal

from vendors.answers import Answer, Body, Wire

Fate = Literal["answered", "errored", "expired", "failed"]
"""`failed`: OpenAI refuses the whole file after it has taken it, and Anthropic has no such end."""
Step = Literal["making", "made", "looked", "ended"]
"""`made`: the vendor has the batch, and its maker does not know yet."""
Reply = tuple[int, Body | str]
Call = Callable[[Wire, Mapping[str, str], Body], Answer | Body]
"""Answers one call: a whole answer's body, or what stood in its way."""

_PATH = re.compile(r".*/v1/(?P<what>messages/batches|batches|files)(/(?P<id>[^/]+))?(/(?P<word>[a-z]+))?")
_URLS: Mapping[str, Wire] = {"/v1/responses": "openai-responses", "/v1/chat/completions": "openai-chat"}
_CODES = {"expired": "batch_expired", "cancelled": "batch_cancelled", "errored": "server_error"}


@dataclass(slots=True, kw_only=True)
class VendorBatch:
    id: str
    number: int
    anthropic: bool
    lines: list[Body]
    headers: Mapping[str, str]
    metadata: Mapping[str, str] = field(default_factory=dict)
    made: float = field(default_factory=time.time)
    cancelled: float = math.inf
    ended: str = ""
    """How all calls ended; empty until they have."""
    results: list[Body] = field(default_factory=list)
    file: str = ""


class VendorBatches:
    def __init__(self, call: Call) -> None:
        self._call = call
        self.delay_s = 0.0
        self.cancelling_s = 0.0
        """Seconds that a cancelled batch takes to end; it may be answered until then."""
        self.fates: Mapping[int, Fate] = {}
        self.heard: Callable[[Step], None] = lambda step: None
        """Called at each step, before the client hears of it."""
        self.refuse: Reply | None = None
        """The answer to every attempt to make one."""
        self.forget: set[str] = set()
        """Ids of batches that are unknown now."""
        self.all: list[VendorBatch] = []
        self.looks: list[str] = []
        """The ids that were looked at, in order."""
        self._files: dict[str, bytes] = {}
        self._lock = threading.RLock()

    @property
    def answered(self) -> int:
        """Return how many calls were answered, which are those that are paid."""
        return sum(batch.ended == "answered" for batch in self.all)

    def take(self, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> Reply | None:
        """Return the answer to a request; None where it is about no batch."""
        match = _PATH.fullmatch(path.partition("?")[0])
        if match is None:
            return None
        what, named, word = match["what"], match["id"], match["word"]
        with self._lock:
            if what == "files":
                return (200, self._files[named].decode()) if method == "GET" else (200, self._upload(headers, raw))
            if named is None:
                return self._make(what, headers, raw) if method == "POST" else (200, self._list(what))
            batch = next((one for one in self.all if one.id == named and one.id not in self.forget), None)
            if batch is None:
                error = {"type": "not_found_error", "message": f"no batch {named}", "code": None}
                return 404, {"type": "error", "error": error}
            if word == "cancel":
                batch.cancelled = min(batch.cancelled, time.time())
            else:
                self.looks.append(named)
            self._advance(batch)
            self.heard("ended" if batch.ended else "looked")
            if word == "results":
                return 200, "".join(json.dumps(line) + "\n" for line in batch.results)
            return 200, self._show(batch)

    def _upload(self, headers: Mapping[str, str], raw: bytes) -> Body:
        form = BytesParser(policy=HTTP).parsebytes(f"content-type: {headers['content-type']}\r\n\r\n".encode() + raw)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        assert parts["purpose"].get_payload() == "batch"
        data = parts["file"].get_payload(decode=True)
        name = f"file-{len(self._files) + 1}"
        self._files[name] = data
        return {"id": name, "object": "file", "bytes": len(data), "created_at": int(time.time())} | {
            "filename": parts["file"].get_filename(),
            "purpose": "batch",
            "status": "processed",
        }

    def _make(self, what: str, headers: Mapping[str, str], raw: bytes) -> Reply:
        self.heard("making")
        if self.refuse is not None:
            return self.refuse
        body, number = json.loads(raw), len(self.all) + 1
        if what == "messages/batches":
            batch = VendorBatch(
                id=f"msgbatch_{number}", number=number, anthropic=True, lines=body["requests"], headers=headers
            )
        else:
            assert body["completion_window"] == "24h" and body["endpoint"] in _URLS
            lines = [json.loads(line) for line in self._files[body["input_file_id"]].decode().splitlines()]
            assert all(line["method"] == "POST" and line["url"] == body["endpoint"] for line in lines)
            batch = VendorBatch(id=f"batch_{number}", number=number, anthropic=False, lines=lines, headers=headers)
            batch.metadata, batch.file = body.get("metadata") or {}, body["input_file_id"]
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", line["custom_id"]) for line in batch.lines)
        self.all.append(batch)
        self.heard("made")
        return 200, self._show(batch)

    def _list(self, what: str) -> Body:
        kind = what == "messages/batches"
        for batch in self.all:
            self._advance(batch)
        found = [self._show(one) for one in reversed(self.all) if one.anthropic == kind and one.id not in self.forget]
        return {"object": "list", "data": found, "has_more": False, "first_id": None, "last_id": None}

    def _advance(self, batch: VendorBatch) -> None:
        """End the batch if its time has come."""
        if batch.ended:
            return
        now, due = time.time(), batch.made + self.delay_s
        if batch.cancelled + self.cancelling_s <= now and batch.cancelled + self.cancelling_s < due:
            batch.ended = "cancelled"
        elif now >= due:
            batch.ended = self.fates.get(batch.number, "answered")
        if batch.ended:
            batch.results = [self._end(batch, line) for line in batch.lines if batch.ended != "failed"]

    def _end(self, batch: VendorBatch, line: Body) -> Body:
        answer: Answer | Body | None = None
        if batch.ended == "answered":
            wire: Wire = "anthropic" if batch.anthropic else _URLS[line["url"]]
            answer = self._call(wire, batch.headers, line["params"] if batch.anthropic else line["body"])
            if not isinstance(answer, dict):
                batch.ended, answer = "errored", None
        if batch.anthropic:
            return {"custom_id": line["custom_id"], "result": _anthropic_result(batch.ended, answer)}
        failed = {"code": _CODES.get(batch.ended, ""), "message": f"This request is {batch.ended}."}
        head = {"id": f"batch_req_{batch.number}", "custom_id": line["custom_id"]}
        if batch.ended == "errored":
            return head | {
                "response": {"status_code": 500, "request_id": "r", "body": {"error": failed}},
                "error": None,
            }
        response = None if answer is None else {"status_code": 200, "request_id": "r", "body": answer}
        return head | {"response": response, "error": failed if response is None else None}

    def _show(self, batch: VendorBatch) -> Body:
        return _show_anthropic(batch) if batch.anthropic else self._show_openai(batch)

    def _show_openai(self, batch: VendorBatch) -> Body:
        status = {"answered": "completed", "errored": "completed", "": "in_progress"}.get(batch.ended, batch.ended)
        if not batch.ended and batch.cancelled < math.inf:
            status = "cancelling"
        output = f"file-out-{batch.number}"
        if batch.results:
            self._files[output] = "".join(json.dumps(line) + "\n" for line in batch.results).encode()
        well = batch.ended == "answered"
        refused = {"data": [{"code": "invalid", "message": "line 1 is no call", "line": 1, "param": None}]}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.lines[0]["url"],
            "errors": refused if batch.ended == "failed" else None,
            "input_file_id": batch.file,
            "completion_window": "24h",
            "status": status,
            "output_file_id": output if well else None,
            "error_file_id": output if batch.results and not well else None,
            "created_at": int(batch.made),
            "request_counts": {"total": len(batch.lines), "completed": well, "failed": bool(batch.ended) and not well},
            "metadata": dict(batch.metadata),
        }


def _anthropic_result(ended: str, answer: object) -> Body:
    if answer is not None:
        return {"type": "succeeded", "message": answer}
    if ended == "errored":
        error = {"type": "invalid_request_error", "message": "messages: this is not right"}
        return {"type": "errored", "error": {"type": "error", "error": error, "request_id": "r"}}
    return {"type": "canceled" if ended == "cancelled" else "expired"}


def _show_anthropic(batch: VendorBatch) -> Body:
    names = {"answered": "succeeded", "errored": "errored", "expired": "expired", "cancelled": "canceled"}
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    counts[names.get(batch.ended, "processing")] = len(batch.lines)
    status = "ended" if batch.ended else "canceling" if batch.cancelled < math.inf else "in_progress"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": counts,
        "created_at": _time(batch.made),
        "expires_at": _time(batch.made + 86400),
        "ended_at": _time(time.time()) if batch.ended else None,
        "cancel_initiated_at": _time(batch.cancelled) if batch.cancelled < math.inf else None,
        "archived_at": None,
        "results_url": f"https://elsewhere.invalid/{batch.id}" if batch.ended else None,
    }


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
