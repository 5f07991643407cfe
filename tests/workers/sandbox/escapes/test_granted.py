"""A granted host opens the way to that host only."""

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from forgepool.workers.sandbox.network.outlet import open_outlet
from forgepool.workers.sandbox.run.process import Ended
from forgepool.workers.schema.confinement import Confinement

Sh = Callable[..., Ended]
SECRET = "only this host says so"

pytestmark = [
    pytest.mark.parametrize("level", ["bubblewrap"], indirect=True),
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux'"),
]


@pytest.fixture
def server() -> Iterator[int]:
    """Yield the port of a server on the host's loopback that is not granted."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.sendall(SECRET.encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


_ASK = """
import socket, sys
for line in sys.argv[2:]:
    with socket.create_connection(("127.0.0.1", 3128), 5) as proxy:
        proxy.settimeout(5)
        proxy.sendall(line.replace("PORT", sys.argv[1]).encode() + b"\\r\\nHost: x\\r\\n\\r\\n")
        said = b""
        try:
            while piece := proxy.recv(4096):
                said += piece
        except OSError:
            pass
        print(said.decode(errors="replace").partition("\\r\\n")[0], "SECRET" if b"only this" in said else "")
"""
WAYS = [
    "CONNECT 127.0.0.1:PORT HTTP/1.1",
    "CONNECT localhost:PORT HTTP/1.1",
    "CONNECT 127.1:PORT HTTP/1.1",
    "CONNECT 2130706433:PORT HTTP/1.1",
    "CONNECT 0x7f000001:PORT HTTP/1.1",
    "CONNECT 0.0.0.0:PORT HTTP/1.1",
    "CONNECT [::1]:PORT HTTP/1.1",
    "CONNECT [::ffff:127.0.0.1]:PORT HTTP/1.1",
    "CONNECT packages.example.org@127.0.0.1:PORT HTTP/1.1",
    "CONNECT 127.0.0.1:PORT#packages.example.org:443 HTTP/1.1",
    "CONNECT packages.example.org:PORT HTTP/1.1",
    "GET http://127.0.0.1:PORT/ HTTP/1.1",
    "GET http://packages.example.org@127.0.0.1:PORT/ HTTP/1.1",
    "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1",
]


def test_the_proxy_leads_nowhere_else(sh: Sh, confined: Confinement, server: int) -> None:
    """Several ways of asking, and several names of the host's own loopback, are tried."""
    with open_outlet(("packages.example.org",)) as (outlet, env):
        asked = " ".join(f"'{each}'" for each in WAYS)
        ended = sh(
            f"python3 -S -E -c '{_ASK}' {server} {asked}".replace("'\\r", "\\r"),
            confined=replace(confined, outlet=outlet),
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **env},
        )
    said = ended.tail.splitlines()
    assert len(said) == len(WAYS), ended.tail
    assert [line for line in said if "SECRET" in line or " 2" in line.split("HTTP/1.1")[-1][:3]] == []


def test_without_the_proxy_nothing_is_reached(sh: Sh, confined: Confinement, server: int) -> None:
    """A command may ignore the proxy's variables, but then it has only its own loopback."""
    script = f"import socket; socket.create_connection(('127.0.0.1', {server}), 2)"
    with open_outlet(("packages.example.org",)) as (outlet, _):
        ended = sh(f'python3 -S -E -c "{script}"', confined=replace(confined, outlet=outlet))
    assert "ConnectionRefusedError" in ended.tail


def test_what_is_granted_is_reached(sh: Sh, confined: Confinement, server: int) -> None:
    """Otherwise the refusals above would prove nothing: it is the same server, named with its port."""
    script = f"import socket; print(socket.create_connection(('127.0.0.1', {server}), 5).recv(100).decode())"
    with open_outlet((f"127.0.0.1:{server}",)) as (outlet, _):
        ended = sh(f'python3 -S -E -c "{script}"', confined=replace(confined, outlet=outlet))
    assert ended.tail == f"{SECRET}\n"
