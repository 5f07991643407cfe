"""A collector of traces: takes spans over HTTP and decodes them, as an OpenTelemetry collector does."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class SpanCollector(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.taken: list[Span] = []
        self.paths: list[str] = []
        self.status = 200


class _Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector = self.server
        assert isinstance(collector, SpanCollector)
        body = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        collector.paths.append(self.path)
        for resource in body.resource_spans:
            collector.taken += [span for scope in resource.scope_spans for span in scope.spans]
        self.send_response(collector.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass
