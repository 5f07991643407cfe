"""A server that redirects every request to another address."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from vendors.serving import Serving


class Redirecting(Serving):
    """Serves inside its `with` block. Status 307 asks for the same method and body again."""

    def __init__(self, target: str) -> None:
        class Asked(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(307)
                self.send_header("location", target + self.path)
                self.send_header("content-length", "0")
                self.end_headers()

        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), Asked))
