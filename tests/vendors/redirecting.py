"""A server that sends everybody on to another address."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from vendors.serving import Serving


class Redirecting(Serving):
    """Serves while it is entered; method and body are to be sent again, as 307 says."""

    def __init__(self, target: str) -> None:
        class Asked(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(307)
                self.send_header("location", target + self.path)
                self.send_header("content-length", "0")
                self.end_headers()

        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), Asked))
