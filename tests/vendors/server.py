"""
A local HTTP server that speaks the vendors' wire formats, for every test that needs a model behind real HTTP.

    with VendorServer(scripted(Say(calls=[("read_file", {"path": "a.py"})]), Say(text="done"))) as server:
        ...  # point an SDK, a CLI or our own adapter at server.url (Anthropic) or server.url + "/v1" (OpenAI)
        assert server.invalid == []
        assert server.seen[1].results == ["..."]

One port speaks all three wires: `POST /v1/messages` (Anthropic), `POST /v1/responses` and `POST /v1/chat/completions`
(OpenAI). Answers are streamed or in one piece, as the request asks. `POST /v1/messages/count_tokens` and
`GET /v1/models` exist as well, and so do the vendors' batches (`batches.py`). Any path may come before `/v1`
(`/team-a/v1/messages`) to tell accounts apart, and is in `Seen.path`; the key is in `Seen.key`.

The *brain* is a function from a request (`Seen`) to an answer: `Say(...)`, `Fault(kind=...)`, or `Raw(...)` for what
other servers send. See `answers.py` for them, for the ready-made bad turns (`MALFORMED`, `REFUSAL`, `OVERFLOW_MIDWAY`,
`MAX_TOKENS_IN_CALL`, `EMPTY`), and for `scripted`, a plain queue of answers. It is called from a thread for each
connection.

Requests are judged as the strictest vendor judges them, before the brain is asked. The rules: calls and results are
paired, roles alternate, no text is empty, and there are at most four cache breakpoints, with 1h before 5m. Thinking and
reasoning are echoed unchanged, and only to the model that gave it. A bad request is answered with 400 and noted in
`invalid`, so a test that asserts `invalid == []` also proves that its conversation was valid. `strict=False` leaves out
what only some servers demand (roles that alternate), for the real CLIs.

Every valid request is kept in `seen`. Usage comes from simulated prompt caches over the bytes that were sent
(`caches.py`). `limited` of `limits.py` puts token buckets before a brain, with the vendors' headers and their 429.
Unlike the vendors, this server does not count real tokens, expire caches, or check a schema.
"""

import contextlib
import json
import re
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

from vendors import faults
from vendors.answers import (
    EMPTY,
    MALFORMED,
    MAX_TOKENS_IN_CALL,
    OVERFLOW_MIDWAY,
    REFUSAL,
    Answer,
    Body,
    Brain,
    Fault,
    Raw,
    Say,
    Seen,
    Tokens,
    Wire,
    arguments_text,
    scripted,
)
from vendors.batches import VendorBatches
from vendors.serving import Serving
from vendors.wires import anthropic_wire, chat_wire, responses_wire
from vendors.wires.caches import PromptCaches
from vendors.wires.pieces import Piece, first_half

__all__ = [
    "EMPTY",
    "MALFORMED",
    "MAX_TOKENS_IN_CALL",
    "OVERFLOW_MIDWAY",
    "REFUSAL",
    "Answer",
    "Brain",
    "Fault",
    "Raw",
    "Say",
    "Seen",
    "Tokens",
    "VendorServer",
    "scripted",
]

_WIRES: dict[str, tuple[Wire, ModuleType]] = {
    "messages": ("anthropic", anthropic_wire),
    "responses": ("openai-responses", responses_wire),
    "chat/completions": ("openai-chat", chat_wire),
}
BATCH_PATH = "/batch"
"""`Seen.path` of a call in a batch."""
_PATH = re.compile(r"(?P<before>.*)/v1/(?P<what>[a-z_/]+)")
# Closing a socket that lingers for zero seconds sends a reset in place of an orderly end.
_NO_LINGER = struct.pack("ii", 1, 0)


class VendorServer(Serving):
    """Serves inside its `with` block. `seen`, `invalid` and `lost` may be read at any time."""

    def __init__(
        self,
        brain: Brain,
        *,
        strict: bool = True,
        keys: Sequence[str] | None = None,
        models: Sequence[str] = ("model-1",),
    ) -> None:
        """Refuse keys other than `keys` with 401. None accepts any key, but a key is required."""
        self.brain = brain
        self.strict, self.keys, self.models = strict, keys, models
        self.seen: list[Seen] = []
        self.invalid: list[str] = []
        self.lost: list[str] = []
        """Requests to unknown addresses, as `METHOD path`."""
        self.closing = threading.Event()
        self.caches = PromptCaches()
        self.batches = VendorBatches(self.answer_whole)
        self._lock = threading.Lock()
        http = _Server(("127.0.0.1", 0), _Asked, bind_and_activate=True)
        http.vendor = self
        super().__init__(http)

    def let_go(self) -> None:
        self.closing.set()

    def note(self, wire: Wire, path: str, headers: dict[str, str], body: Body, raw: bytes) -> Seen:
        with self._lock:
            seen = Seen(wire=wire, path=path, headers=headers, body=body, raw=raw, number=len(self.seen) + 1)
            self.seen.append(seen)
        return seen

    def refuse(self, mistake: str) -> None:
        with self._lock:
            self.invalid.append(mistake)

    def count(self, seen: Seen, say: Say) -> Tokens:
        if say.usage is not None:
            return say.usage
        arguments = sum(len(arguments_text(call[1])) for call in say.calls)
        output = 1 + (len(say.text) + len(say.thinking) + arguments) // 4
        count = self.caches.marked if seen.wire == "anthropic" else self.caches.common
        return count(seen.body, output)

    def answer_whole(self, wire: Wire, headers: Mapping[str, str], body: Body) -> Answer | Body:
        """Answer a call of a batch in one piece; return the fault where the brain has one."""
        words = {known: module for known, module in _WIRES.values()}[wire]
        if "stream" in body:
            self.refuse(f"a call in a batch is streamed: {body['stream']}")
        if mistake := words.invalid(headers, body, self.strict):
            self.refuse(mistake)
            return Fault(kind="bad_request", message=mistake)
        seen = self.note(wire, BATCH_PATH, dict(headers), body, json.dumps(body).encode())
        answer = self.brain(seen)
        if not isinstance(answer, Say):
            return answer
        whole: Body = words.whole(seen.model, str(seen.number), answer, self.count(seen, answer))
        return whole

    def admits(self, key: str) -> bool:
        return bool(key) if self.keys is None else key in self.keys


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    vendor: VendorServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that hangs up. Anything else is a mistake in this server or in a brain."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            self.vendor.refuse(f"the server itself failed: {error!r}")


class _Asked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing, because requests are recorded."""

    def do_HEAD(self) -> None:
        self._json(200, {})

    def do_GET(self) -> None:
        if self._batched(b""):
            return None
        path = self.path.partition("?")[0]
        if not path.endswith("/v1/models"):
            return self._lost()
        models = [
            {"id": name, "object": "model", "type": "model", "created": 0, "owned_by": "local", "display_name": name}
            | {"created_at": "2026-01-01T00:00:00Z"}
            for name in self.server.vendor.models
        ]
        pages: Body = {"has_more": False, "first_id": None, "last_id": None, "models": []}
        return self._json(200, {"object": "list", "data": models} | pages)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self._batched(raw):
            return None
        match = _PATH.fullmatch(self.path.partition("?")[0])
        what = match["what"] if match else ""
        if what == "messages/count_tokens":
            return self._json(200, {"input_tokens": len(raw) // 4})
        if what not in _WIRES:
            return self._lost()
        wire, words = _WIRES[what]
        return self._answer(wire, words, json.loads(raw), raw)

    def _batched(self, raw: bytes) -> bool:
        """Answer a request about batches; return whether it was one."""
        reply = self.server.vendor.batches.take(self.command, self.path, self._named_headers(), raw)
        if reply is not None:
            self._json(*reply)
        return reply is not None

    def _named_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _lost(self) -> None:
        self.server.vendor.lost.append(f"{self.command} {self.path}")
        self._json(
            404, {"type": "error", "error": {"type": "not_found_error", "message": f"no {self.path}", "code": None}}
        )

    def _answer(self, wire: Wire, words: ModuleType, body: Body, raw: bytes) -> None:
        vendor = self.server.vendor
        headers = self._named_headers()
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if not vendor.admits(key):
            return self._refuse(wire, Fault(kind="authentication"))
        if mistake := words.invalid(headers, body, vendor.strict):
            vendor.refuse(mistake)
            return self._refuse(wire, Fault(kind="bad_request", message=mistake))
        seen = vendor.note(wire, self.path, headers, body, raw)
        answer = vendor.brain(seen)
        if isinstance(answer, Say):
            return self._say(seen, words, answer)
        if isinstance(answer, Raw):
            self._stream([_raw(event) for event in answer.events])
            return self._end()
        return self._fail(seen, words, answer)

    def _say(self, seen: Seen, words: ModuleType, say: Say) -> None:
        self.server.vendor.closing.wait(say.pause_s)
        if seen.body.get("stream"):
            self._stream(self._pieces(seen, words, say), say.headers)
            self._end()
        else:
            tokens = self.server.vendor.count(seen, say)
            self._json(200, words.whole(seen.model, str(seen.number), say, tokens), dict(say.headers))

    def _pieces(self, seen: Seen, words: ModuleType, say: Say) -> list[Piece]:
        tokens = self.server.vendor.count(seen, say)
        pieces: Iterator[Piece] = words.stream(seen.model, str(seen.number), say, tokens)
        return list(pieces)

    def _fail(self, seen: Seen, words: ModuleType, fault: Fault) -> None:
        if faults.has_status(fault):
            return self._refuse(seen.wire, fault)
        if fault.kind == "silence":
            self.server.vendor.closing.wait(fault.seconds)
        if fault.kind in ("reset", "silence"):
            return self._reset()
        pieces = first_half(self._pieces(seen, words, fault.half))
        if fault.kind in ("error_event", "failed_event"):
            pieces.append(words.broken(fault))
        self._stream(pieces)
        if fault.kind == "silence_midway":
            self.server.vendor.closing.wait(fault.seconds)
        return self._reset() if fault.kind in ("reset_midway", "silence_midway") else self._end()

    def _refuse(self, wire: Wire, fault: Fault) -> None:
        self._json(faults.status(wire, fault), faults.refusal(wire, fault), dict(fault.headers))

    def _json(self, status: int, body: Body | str, headers: dict[str, str] | None = None) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "request-id": "req_1", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, pieces: list[Piece], headers: Mapping[str, str] | None = None) -> None:
        self.send_response(200)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("x-request-id", "req_1")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(f"{len(piece.data):x}\r\n".encode() + piece.data + b"\r\n")
            self.wfile.flush()

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def _reset(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        # Now, before the server shuts the socket down in an orderly way; it closes only when the file made of it has.
        self.rfile.close()
        self.connection.close()


def _raw(event: Body | str) -> Piece:
    if isinstance(event, str):
        return Piece(data=event.encode())
    name = f"event: {event['type']}\n" if "type" in event else ""
    return Piece(data=f"{name}data: {json.dumps(event)}\n\n".encode())
