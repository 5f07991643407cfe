"""A server that begins an answer, and then sends signs of life and nothing else."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

_PING = b'event: ping\ndata: {"type": "ping"}\n\n: keep-alive\n\n'


class Pinging:
    """Serves while it is entered."""

    def __init__(self) -> None:
        self.pings, self._over = 0, threading.Event()
        pinging = self

        class Asked(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

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

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
        self._http.daemon_threads, self._http.block_on_close = True, False
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
