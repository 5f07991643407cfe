"""
What ordinary test suites do. pytest runs this file inside the sandbox, from `test_benign.py`.

The names say what a level must provide: `shared` needs memory and semaphores shared by name, `socket` the loopback
interface.
"""

import asyncio
import http.server
import multiprocessing
import os
import pty
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import urllib.request
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path


def double(number: int) -> int:
    return 2 * number


def test_tmp_files(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b.txt"
    file.parent.mkdir()
    file.write_text("text")
    file.rename(tmp_path / "c.txt")
    (tmp_path / "link").symlink_to("c.txt")
    os.link(tmp_path / "c.txt", tmp_path / "hard")
    (tmp_path / "c.txt").chmod(0o600)
    os.utime(tmp_path / "c.txt", (1, 1))
    assert (tmp_path / "link").read_text() == "text"
    assert (tmp_path / "hard").stat().st_mtime == 1
    with tempfile.NamedTemporaryFile() as named, tempfile.TemporaryFile() as nameless:
        assert named.write(b"x") == nameless.write(b"x")


def test_home_can_be_written() -> None:
    place = Path.home() / ".config" / "tool"
    place.mkdir(parents=True)
    (place / "settings").write_text("x")


def test_subprocesses() -> None:
    done = subprocess.run("echo out; echo err >&2; exit 3", shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    os.killpg(child.pid, signal.SIGTERM)
    assert child.wait(20) == -signal.SIGTERM


def test_signals_and_timers() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: heard.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.sigtimedwait([], 5)
    signal.signal(signal.SIGALRM, before)
    assert heard == [signal.SIGALRM]


def test_threads() -> None:
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(double, range(100))) == 9900


def test_pipes_between_forked_processes() -> None:
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, b"child")
        os._exit(7)
    assert os.read(reading, 10) == b"child"
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7


def test_sqlite(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "base.db") as base:
        base.execute("pragma journal_mode=wal")
        base.execute("create table t (n integer)")
        base.executemany("insert into t values (?)", [(n,) for n in range(100)])
    assert base.execute("select sum(n) from t").fetchone() == (4950,)
    base.close()


def test_asyncio_subprocess() -> None:
    async def talk() -> bytes:
        child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
        return (await child.communicate(b"through"))[0]

    assert asyncio.run(talk()) == b"through"


def test_shared_pool() -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert pool.map(double, range(10)) == list(range(0, 20, 2))
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(double, [1, 2])) == [2, 4]


def test_shared_memory_and_queues() -> None:
    block = SharedMemory(create=True, size=4096)
    other = SharedMemory(name=block.name)
    block.buf[0] = 7
    assert other.buf[0] == 7
    other.close()
    block.close()
    block.unlink()
    queue = multiprocessing.get_context("fork").Queue()
    queue.put("said")
    assert queue.get(timeout=20) == "said"
    queue.close()
    queue.join_thread()


def test_socket_http_server_and_client() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for host in ("127.0.0.1", "localhost"):
            with urllib.request.urlopen(f"http://{host}:{server.server_port}/", timeout=20) as answer:
                assert answer.status == 200
        server.shutdown()


def test_socket_udp_and_ipv6() -> None:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as one, socket.socket(family, socket.SOCK_DGRAM) as other:
            one.bind((host, 0))
            other.sendto(b"hello", one.getsockname())
            one.settimeout(20)
            assert one.recv(10) == b"hello"


def test_socket_of_unix(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        # Not `tmp_path`, because a socket's path holds about a hundred bytes.
        server.bind(f"/tmp/{os.getpid()}.sock")
        server.listen()
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        accepted.sendall(b"hello")
        accepted.close()
        assert client.recv(10) == b"hello"


def test_socket_asyncio() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def talk() -> bytes:
        server = await asyncio.start_server(echo, "localhost", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            writer.write(b"line\n")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return line

    assert asyncio.run(talk()) == b"line\n"


def test_socket_pseudo_terminal() -> None:
    """`socket` is in the name for the fallback, which has no terminals of its own either."""
    pid, master = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", "test -t 0 && echo terminal"])
    assert os.read(master, 100).strip() == b"terminal"
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(master)
