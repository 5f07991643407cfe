"""A server that begins an answer and then sends only signs of life."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from vendors.serving import Serving

_PING = b'event: ping\ndata: {"type": "ping"}\n\n: keep-alive\n\n'


class Pinging(Serving):
    """Serves inside its `with` block."""

    def __init__(self) -> None:
        self.pings, self._over = 0, threading.Event()
        pinging = self

        class Asked(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                try:
                    while not pinging._over.wait(0.02):
                        self.wfile.write(_PING)
                        pinging.pings += 1
                except ConnectionError:
                    pass

        http = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
        http.daemon_threads, http.block_on_close = True, False
        super().__init__(http)

    def let_go(self) -> None:
        self._over.set()
