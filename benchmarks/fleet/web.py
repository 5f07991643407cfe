"""
Prints what `forgepool serve` costs, and how soon an event is on a screen.

    python benchmarks/fleet/web.py [--tasks 5000] [--streams 20] [--rate 100] [--seconds 20] [--events 100000]

The server, the journals, their events and the streams are real; the events are appended by this process at a steady
rate. One of the streams is a page in Chromium where Playwright is installed: an event is on the screen when the page
has taken it over. Every other stream is a plain connection. Memory is that of the server while a queue of its own is
paused and resumed, so that what it shows stays as large as it was.
"""

import argparse
import os
import selectors
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "tests"))
import find_helpers  # noqa: F401  # before any helper
from kit import Machine
from plans import RUN, answered, course, sent, task
from web_home import WebServer, serving

from forgepool.orchestrator.decisions.plan_index import gate_plan
from forgepool.orchestrator.journal.events import Event, GatePaused, GateResumed, RunStarted
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.run.run_folder import RunOptions, keep
from forgepool.workers.schema.settings import Settings

QUEUE = "gate-bench"
_WATCH = """
window.seen = [];
new MutationObserver(() => seen.push([performance.timeOrigin + performance.now(), Number(document.body.dataset.seen)]))
    .observe(document.body, {attributes: true, attributeFilter: ["data-seen"]});
"""


@dataclass
class Streams:
    """Plain connections to a stream; notes when each number came first to each."""

    server: WebServer
    path: str
    sockets: list[socket.socket] = field(default_factory=list)
    came: list[tuple[int, float]] = field(default_factory=list)
    reader: threading.Thread | None = None
    is_open: bool = True

    def open(self, number: int) -> None:
        for _ in range(number):
            opened = socket.create_connection(("127.0.0.1", self.server.port))
            head = (
                f"GET {self.path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self.server.tokens['viewer']}"
            )
            opened.sendall(f"{head}\r\n\r\n".encode())
            self.sockets.append(opened)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        chosen = selectors.DefaultSelector()
        for one in self.sockets:
            chosen.register(one, selectors.EVENT_READ)
        while self.is_open:
            for key, _ in chosen.select(0.5):
                data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]  # a socket
                now = time.time()
                self.came += [
                    (int(line[4:]), now)
                    for line in data.split(b"\n")
                    if line.startswith(b"id: ") and line[4:].isdigit()
                ]

    def close(self) -> None:
        self.is_open = False
        if self.reader is not None:
            self.reader.join()
        for one in self.sockets:
            one.close()


def make_run(machine: Machine, name: str, plan: Plan, *, gate: bool) -> Journal:
    settings = Settings(home=machine.home, cache=machine.cache)
    options = RunOptions(
        run=name, hub="/nowhere", target="main", workers=1, plan_file="p", plan_file_digest="", gate=gate
    )
    journal = Journal(keep(settings, options, plan).folder)
    journal.append([RunStarted(run=name, plan_digest="d", hub="/nowhere", target="main", tip="c0")], at=time.time())
    return journal


def task_events(tasks: int) -> Iterator[Event]:
    """Yield two events for each task: it is sent, and has a candidate."""
    for number in range(tasks):
        yield sent(f"task-{number}")
        yield answered(f"task-{number}")


def append_steadily(journal: Journal, events: Iterator[Event], *, rate: float, seconds: float) -> list[float]:
    """Append one event after another; return when each was in the journal."""
    begun, written = time.monotonic(), []
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        written.append(time.time())
        journal.append([next(events)], at=written[-1])
    return written


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def spread(milliseconds: Sequence[float]) -> str:
    cuts = quantiles(milliseconds, n=100)
    return f"p50 {cuts[49]:7.0f} ms   p95 {cuts[94]:7.0f} ms   p99 {cuts[98]:7.0f} ms"


@contextmanager
def browser(server: WebServer, path: str) -> Iterator[Callable[[], list[tuple[float, int]]] | None]:
    """Open the page; yield a function that returns when it had taken over which event. None where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield None
        return
    with sync_playwright() as driver:
        started: Any = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = started.new_context(bypass_csp=True)  # to ask the page by an expression
        url = f"http://127.0.0.1:{server.port}"
        context.add_cookies([{"name": f"forgepool-{server.port}", "value": server.cookie("operator"), "url": url}])
        page = context.new_page()
        page.goto(url + path)
        page.wait_for_function("source !== null && source.readyState === 1")
        page.evaluate(_WATCH)
        yield lambda: [(at / 1000, int(number)) for at, number in page.evaluate("window.seen")]
        started.close()


def delays(written: Sequence[float], first: int, shown: Sequence[tuple[float, int]]) -> list[float]:
    """Return for each event the milliseconds until a number as high as its own was shown."""
    found, at = [], 0
    for offset, when in enumerate(written):
        while at < len(shown) and shown[at][1] < first + offset:
            at += 1
        if at < len(shown):
            found.append((shown[at][0] - when) * 1000)
    return found


def measure_delay(server: WebServer, journal: Journal, events: Iterator[Event], asked: argparse.Namespace) -> None:
    streams, first = Streams(server, f"/stream?run={RUN}"), 2
    with browser(server, f"/runs/{RUN}") as watch:
        streams.open(asked.streams - (watch is not None))
        time.sleep(2)
        before, begun = cpu_s(server.started.pid), time.monotonic()
        written = append_steadily(journal, events, rate=asked.rate, seconds=asked.seconds)
        used, took = cpu_s(server.started.pid) - before, time.monotonic() - begun
        time.sleep(3)
        print(f"{len(written)} events at {len(written) / took:.0f} a second to {asked.streams} open streams")
        print(
            f"  event to stream   {spread([(at - written[n - first]) * 1000 for n, at in streams.came if n >= first])}"
        )
        if watch is not None:
            late = delays(written, first, watch())
            print(f"  event to screen   {spread(late)}   {len(late)} of {len(written)} shown")
        print(f"  CPU of the server {used / took:7.0%} of one core")
    streams.close()


def measure_pages(server: WebServer, tasks: int) -> None:
    for path in (f"/runs/{RUN}", f"/runs/{RUN}/graph", f"/runs/{RUN}/money", "/", f"/api/runs/{RUN}/status"):
        times = []
        for _ in range(7):
            begun = time.monotonic()
            page = server.get(path)
            times.append(time.monotonic() - begun)
            assert page.status == 200, page
        print(f"  {path:34} {len(page.text) / 1000:8.0f} kB   first {times[0]:6.3f} s   then {min(times[1:]):6.3f} s")


def measure_idle(server: WebServer, streams: int) -> None:
    idle = Streams(server, f"/stream?run={RUN}")
    idle.open(streams)
    time.sleep(2)
    before = cpu_s(server.started.pid)
    time.sleep(20)
    print(f"{streams} idle streams: {(cpu_s(server.started.pid) - before) / 20:.1%} of one core")
    idle.close()


def measure_memory(server: WebServer, journal: Journal, events: int, streams: int) -> None:
    followed = Streams(server, f"/stream?run={QUEUE}")
    followed.open(streams)
    print(f"memory of the server, in MB, while a queue has {events:,} events and its page is asked for again and again")
    written, numbers = 0, count()
    print(f"  {written:8,} events {rss_mb(server.started.pid):7.1f}")
    while written < events:
        for _ in range(events // 10 // 100):
            kinds = [GatePaused(why="b", by="b") if next(numbers) % 2 == 0 else GateResumed(by="b") for _ in range(100)]
            journal.append(kinds, at=time.time())
            written += 100
            if written % 500 == 0:
                assert server.get(f"/runs/{QUEUE}").status == 200
        print(f"  {written:8,} events {rss_mb(server.started.pid):7.1f}", flush=True)
    followed.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--events", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(folder=Path(folder) / "m", name="host-1")
        machine.folder.mkdir()
        chains = [
            task(f"task-{n}", *([f"task-{n - 1}"] if n % 10 else []), files=[f"f{n}"]) for n in range(asked.tasks)
        ]
        run = make_run(machine, RUN, course(*chains).plan, gate=False)
        queue = make_run(machine, QUEUE, gate_plan(QUEUE, "main"), gate=True)
        with serving(machine) as server:
            print(f"pages of a run with {asked.tasks:,} tasks")
            measure_pages(server, asked.tasks)
            measure_idle(server, asked.streams)
            measure_delay(server, run, task_events(asked.tasks), asked)
            measure_memory(server, queue, asked.events, asked.streams)
        run.close()
        queue.close()


if __name__ == "__main__":
    main()
