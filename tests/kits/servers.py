"""A test's own Redis on a unix socket. The kernel kills it when the process that started it dies."""

import time
from pathlib import Path

from forgepool.workers.queue.broker import BrokerRefused, connect, ping
from forgepool.workers.sandbox.own_processes import Service, start_service
from forgepool.workers.schema.settings import whole_environment

_START_S = 15.0


class RedisServer:
    """A Redis that can be killed and started again. It is empty then, as a run's private Redis is."""

    def __init__(self, folder: Path, binary: str, *options: str) -> None:
        self.folder, self._binary, self._options = folder, binary, options
        self._service: Service | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    @property
    def _socket(self) -> Path:
        return self.folder / "redis.sock"

    def start(self) -> None:
        self._socket.unlink(missing_ok=True)
        self._service = start_service(
            "redis",
            [
                self._binary,
                *("--port", "0", "--unixsocket", str(self._socket), "--save", "", "--appendonly", "no"),
                *("--dir", str(self.folder), *self._options),
            ],
            env=whole_environment(),
            log=self.folder / "redis.log",
        )
        until = time.monotonic() + _START_S
        while not self._answers():
            assert time.monotonic() < until, (self.folder / "redis.log").read_text()
            time.sleep(0.01)

    def kill(self) -> None:
        if self._service is not None:
            self._service.process.kill()
            self._service.process.wait()

    def _answers(self) -> bool:
        client = connect(self.url)
        try:
            ping(client, self.url)
        except BrokerRefused as refusal:
            return "refuses the password" in str(refusal)
        finally:
            client.close()
        return True
