"""
Steps of a run as OpenTelemetry spans, sent to a collector or written to a file.

The ids are hashes of the run and of the step's key: a run that is exported twice gives the same spans.
"""

import base64
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from forgepool.orchestrator.interfaces.export.conventions import ATTRIBUTES, ERROR_TYPE, FIXED, NAMES, result_key
from forgepool.orchestrator.interfaces.export.traces import StepKey, TraceStep
from forgepool.orchestrator.launch.notify import is_webhook
from forgepool.workers.schema.error_lines import plain_text
from forgepool.workers.schema.logs import trace_id_of
from forgepool.worktrees.errors import InfrastructureError, UserError
from forgepool.worktrees.git.git import without_password

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_AT_ONCE = 2000
"""Spans in one request: a collector takes at least four megabytes."""


class CollectorAway(InfrastructureError):
    """The collector has not taken the spans. One sentence."""


def span_id_of(run: str, key: StepKey) -> int:
    return int.from_bytes(hashlib.sha256("\0".join((run, *key)).encode()).digest()[:8])


def make_spans(run: str, steps: Iterable[TraceStep], until: float) -> "Iterator[ReadableSpan]":
    """
    Yield the spans; a step that is under way ends, for now, at `until` (Unix seconds).

    Raises:
        UserError: a limit in the environment is none; OpenTelemetry reads them when it is imported.
    """
    try:
        from opentelemetry.sdk.trace import ReadableSpan
    except ValueError as wrong:
        raise UserError(f"OpenTelemetry refuses a variable OTEL_*: {wrong}; unset it, or give another value") from wrong
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    resource, scope = Resource({"service.name": "forgepool"}), InstrumentationScope("forgepool")
    trace = int(trace_id_of(run), 16)

    def context(key: StepKey) -> SpanContext:
        return SpanContext(trace, span_id_of(run, key), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    for step in steps:
        attributes = {ATTRIBUTES[fact]: value for fact, value in step.facts.items() if value != ""}
        attributes |= FIXED[step.kind]
        if step.result is not None:
            attributes[result_key(step.kind)] = step.result
        if step.error:
            attributes[ERROR_TYPE] = step.error
        failed = Status(StatusCode.ERROR, plain_text(step.why)) if step.error else Status()
        yield ReadableSpan(
            name=NAMES[step.kind].format(**step.facts),
            context=context(step.key),
            parent=context(step.parent) if step.parent is not None else None,
            resource=resource,
            instrumentation_scope=scope,
            attributes=attributes,
            kind=SpanKind.SERVER if step.kind == "run" else SpanKind.INTERNAL,
            status=failed,
            start_time=int(step.start * 1e9),
            end_time=int(max(step.start, until if step.end is None else step.end) * 1e9),
        )


class _LastWords(logging.Handler):
    """Keeps the exporter's last complaint, which it only logs."""

    said = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said = record.getMessage()


def send_spans(spans: "Sequence[ReadableSpan]", url: str) -> None:
    """
    Send spans to a collector by OTLP over HTTP. The variables `OTEL_EXPORTER_OTLP_*` give headers, timeout and such.

    Raises:
        UserError: the URL is none.
        CollectorAway: it cannot be reached, or refuses them.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    if not is_webhook(url):
        raise UserError(f"--otlp is '{without_password(url)}', which is no URL; give one such as http://localhost:4318")
    parts = urlsplit(url)
    place = url if parts.path.strip("/") else f"{url.rstrip('/')}/v1/traces"
    words, log = _LastWords(), logging.getLogger("opentelemetry.exporter")
    log.addHandler(words)
    propagates, log.propagate = log.propagate, False
    exporter = OTLPSpanExporter(endpoint=place)
    try:
        for first in range(0, len(spans), _AT_ONCE):
            if exporter.export(spans[first : first + _AT_ONCE]) is not SpanExportResult.SUCCESS:
                said = " ".join(words.said.split())[:300].rstrip(".")
                raise CollectorAway(f"{parts.hostname} has not taken the spans: {said}; see that a collector is there")
    finally:
        log.removeHandler(words)
        log.propagate = propagates


def write_spans(spans: "Sequence[ReadableSpan]", file: Path) -> None:
    """Write spans to a file in OTLP's JSON, on one line, as collectors read it. Raises UserError."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    said = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    # Protobuf's JSON has bytes in base64; OTLP wants these three in hex.
    for span in (one for group in said["resourceSpans"] for scope in group["scopeSpans"] for one in scope["spans"]):
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = base64.b64decode(span[key]).hex()
    try:
        file.write_text(json.dumps(said) + "\n")
    except OSError as trouble:
        raise UserError(f"{file} cannot be written: {trouble.strerror}; name another file with --file") from trouble
