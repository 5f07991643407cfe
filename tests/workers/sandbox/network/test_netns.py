import inspect
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import pytest
from house import TREE
from proxy_kit import OK, Web

from forgepool.workers.sandbox.launch.launch import NotLaunched, open_listeners
from forgepool.workers.sandbox.network.exchange import ProxyRecord
from forgepool.workers.sandbox.network.hosts import read_rules
from forgepool.workers.sandbox.network.netns import fork_listeners
from forgepool.workers.sandbox.network.outlet import Proxy

PATIENCE_S = 20.0
STRANGER = 42117
"""An unused uid, which owns the namespaces of what it starts."""

# What a command can do with only the proxy as its network; each line says how one way out ended.
PAYLOAD = """
import os, socket, sys, urllib.error, urllib.request
proxied = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
port = int(sys.argv[1])
def say(what, work):
    try:
        print(what, work())
    except urllib.error.HTTPError as refused:
        print(what, refused.code, refused.reason)
    except OSError as trouble:
        print(what, type(trouble).__name__, "out of reach")
say("allowed", lambda: proxied.open(f"http://127.0.0.1:{port}/").read().decode())
say("denied", lambda: proxied.open("http://evil.example.com/").read())
say("direct", lambda: socket.create_connection(("127.0.0.1", port), 5))
say("public", lambda: socket.create_connection(("1.1.1.1", 443), 5))
say("name", lambda: socket.getaddrinfo("example.com", 443))
say("forwarded", lambda: urllib.request.build_opener().open("http://127.0.0.1:8123/").read().decode())
own = socket.create_server(("127.0.0.1", 0))
say("own", lambda: socket.create_connection(own.getsockname(), 5).close())
"""


def open_listener(pid: int, port: int) -> socket.socket:
    return open_listeners(pid, (port,))[0]


class Held:
    """A command in bwrap that does not begin before it is released."""

    def __init__(self, *argv: str, before: Sequence[str] = ()) -> None:
        told, tell = os.pipe()
        held, self._hold = os.pipe()
        bwrap = (
            "bwrap",
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        )
        waiting = ("--info-fd", str(tell), "--block-fd", str(held), "--", *argv)
        self._process = subprocess.Popen(
            (*before, *bwrap, *waiting),
            pass_fds=(tell, held),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(tell)
        os.close(held)
        with os.fdopen(told) as info:
            said = info.read()
        self.pid: int = json.loads(said)["child-pid"] if said else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        # Kill it before the pipe closes, because the pipe's end would also let the command begin.
        self._process.kill()
        os.close(self._hold)
        self._process.communicate()

    def let_go(self) -> str:
        """Release the command, and return its whole output."""
        os.write(self._hold, b"x")
        return self._process.communicate(timeout=PATIENCE_S)[0]


@pytest.fixture(scope="module", autouse=True)
def _bwrap_works() -> None:
    """Skip where bwrap makes no network namespace, but fail in CI."""
    if shutil.which("bwrap"):
        with Held("true") as held:
            if held.pid and held.let_go() == "":
                return
    if os.environ.get("CI") == "true":
        pytest.fail("bwrap makes no network namespace")
    pytest.skip("bwrap makes no network namespace")


@pytest.fixture
def python() -> str:
    """Return an interpreter that every user may start."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    return found or pytest.skip("no python3 that another user may start")


def as_stranger() -> tuple[str, ...]:
    if os.getuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root starts something as another user, by setpriv")
    return ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")


@contextmanager
def network(pid: int, web: Web, told: list[ProxyRecord]) -> Iterator[None]:
    """Give a command the proxy, and one host that appears on its own loopback."""
    with Proxy(read_rules([web.place]), report=told.append) as proxy:
        for_proxy, for_model = open_listeners(pid, (3128, 8123))
        proxy.serve(for_proxy)
        proxy.forward(for_model, "127.0.0.1", web.port)
        yield


@pytest.mark.parametrize("another_user", [False, True])
def test_a_command_reaches_what_its_list_allows_and_nothing_else(python: str, another_user: bool) -> None:
    """The proxy is its only way out: no direct connections, no names, but its own loopback works."""
    before = as_stranger() if another_user else ()
    told: list[ProxyRecord] = []
    with Web(OK) as web, Held(python, "-I", "-c", PAYLOAD, str(web.port), before=before) as held:
        with network(held.pid, web, told):
            output = held.let_go()
        allowed, denied, direct, public, name, forwarded, own = output.splitlines()
        assert allowed == "allowed ok"
        assert denied.startswith("denied 403 evil.example.com:80 is not among the hosts this command may reach; ")
        assert direct == "direct ConnectionRefusedError out of reach"
        assert public == "public OSError out of reach"
        assert name == "name gaierror out of reach"
        assert forwarded == "forwarded ok"
        assert own == "own None"
        assert [(each.host, each.allowed) for each in told] == [
            ("127.0.0.1", True),
            ("evil.example.com", False),
            ("127.0.0.1", True),
        ]


FROM_OUTSIDE = """
from __future__ import annotations
import json, os, subprocess, sys
sys.path.append(sys.argv[1])
from forgepool.workers.sandbox.network.netns import fork_listeners
{held}
with Held("true") as held:
    one, other = fork_listeners(held.pid, (3128, 8123))
    print(one.getsockname(), other.getsockname(), one.get_inheritable(), repr(held.let_go()))
"""


@pytest.mark.parametrize("another_user", [False, True])
def test_who_owns_a_command_enters_its_network_by_a_fork(python: str, another_user: bool) -> None:
    """Root can, and so can a user who only owns the user namespace. A small process needs nothing else."""
    before = as_stranger() if another_user else ()
    constants = f"PATIENCE_S = {PATIENCE_S}\nSelf = Sequence = None\n"
    script = FROM_OUTSIDE.format(held=constants + inspect.getsource(Held))
    told = subprocess.run(
        (*before, python, "-I", "-S", "-B", "-c", script, str(TREE)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.stdout == "('127.0.0.1', 3128) ('127.0.0.1', 8123) False ''\n", told.stderr


def test_a_listener_is_inherited_by_nobody() -> None:
    """A command started next must not hold another's listener."""
    with Held("true") as held, open_listener(held.pid, 3128) as listener:
        assert not listener.get_inheritable()
        assert listener.getsockname() == ("127.0.0.1", 3128)


def test_a_listener_may_be_opened_before_there_is_a_loopback() -> None:
    """bwrap names its child before it sets the interface up, and fails if another process was faster."""
    # An interface that was up once leaves routes behind, by which the kernel treats 127.0.0.1 as free.
    bare_network = "(ip link set lo up; ip link set lo down; ip addr flush dev lo) 2>&-; echo ready; exec cat"
    argv = ("unshare", "--user", "--map-root-user", "--net", "sh", "-c", bare_network)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bare:
        assert bare.stdout is not None
        assert bare.stdout.readline() == b"ready\n"
        open_listener(bare.pid, 3128).close()
        bare.communicate()


def test_a_thread_may_ask_for_listeners() -> None:
    """The harness has threads, so its process must not be forked."""
    found: list[tuple[str, int]] = []

    def ask(pid: int) -> None:
        with open_listener(pid, 3128) as listener:
            found.append(listener.getsockname())

    with Held("true") as held:
        thread = threading.Thread(target=ask, args=(held.pid,))
        thread.start()
        thread.join()
    assert found == [("127.0.0.1", 3128)]


def test_a_process_with_threads_is_not_forked() -> None:
    """A lock that another thread holds would be held forever."""
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="must not fork"):
            fork_listeners(os.getpid(), (3128,))
    finally:
        leave.set()
        thread.join()


def test_no_port_is_opened_on_the_host_itself() -> None:
    """A process without its own network is a mistake, because all users could reach a port of the host."""
    with subprocess.Popen(["sleep", "60"]) as shares_ours:
        try:
            with pytest.raises(NotLaunched, match=f"process {shares_ours.pid}, ports \\[3128\\]: "):
                open_listener(shares_ours.pid, 3128)
        finally:
            shares_ours.kill()


def test_a_process_that_is_gone_has_no_network() -> None:
    """The command may have died before it began."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with pytest.raises(NotLaunched, match="No such process"):
        open_listener(gone.pid, 3128)


def test_of_several_ports_all_are_opened_or_none() -> None:
    with Held("true") as held:
        with open_listener(held.pid, 8123), pytest.raises(NotLaunched, match="Address already in use"):
            open_listeners(held.pid, (3128, 8123))
        open_listener(held.pid, 3128).close()
