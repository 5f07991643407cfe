"""A local HTTP server in a thread: the common part of the servers in this folder."""

import threading
from http.server import ThreadingHTTPServer
from typing import Self


class Serving:
    """Serves inside its `with` block."""

    def __init__(self, http: ThreadingHTTPServer) -> None:
        self._http = http
        self._thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Return the URL without a path."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def let_go(self) -> None:
        """End the answers that are still being sent."""
