"""The stream of events: its ids are the journal's numbers, and a caller that comes back misses nothing."""

import asyncio
import http.client
import json
import time
import tracemalloc
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from web_home import RealHome, WebServer, serving

from forgepool.orchestrator.interfaces.web.stream import EventStream, Pulse, RunMark
from forgepool.orchestrator.journal.events import GatePaused
from forgepool.orchestrator.journal.store import Journal, read


@contextmanager
def listening(server: WebServer, path: str, last: int | None = None) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    headers = {"authorization": f"Bearer {server.tokens['viewer']}"}
    if last is not None:
        headers["last-event-id"] = str(last)
    connection.request("GET", path, None, headers)
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-type")) == (200, "text/event-stream")
    try:
        yield answer
    finally:
        connection.close()


def next_event(answer: http.client.HTTPResponse) -> tuple[str, str]:
    """Return the id and the data of the next event that has data."""
    fields: dict[str, str] = {}
    while True:
        line = answer.readline().decode()
        assert line, "the stream has ended"
        if line == "\n" and "data" in fields:
            return fields.get("id", ""), fields["data"]
        name, _, value = line.rstrip("\n").partition(": ")
        fields[name] = value


def next_numbered(answer: http.client.HTTPResponse) -> tuple[str, str]:
    """Return the next event of the journal; a stream also tells that something else has changed, such as a lock."""
    while (found := next_event(answer))[1] == "{}":
        pass
    return found


@pytest.fixture
def queue_journal(home: RealHome) -> Iterator[Journal]:
    journal = Journal(home.machine.home / "runs" / home.queue)
    yield journal
    journal.close()


def numbers(folder: Path, after: int) -> list[int]:
    return [one.number for one in read(folder, after=after)]


def test_a_caller_that_comes_back_gets_what_it_missed(home: RealHome, server: WebServer) -> None:
    folder = home.machine.home / "runs" / home.run
    missed = numbers(folder, 3)
    with listening(server, f"/stream?run={home.run}", last=3) as answer:
        got = [next_event(answer) for _ in missed]
    assert [int(number) for number, _ in got] == missed
    kinds = [one.event.kind for one in read(folder, after=3)]
    assert [json.loads(data)["kind"] for _, data in got] == kinds


def test_an_event_comes_with_its_number(home: RealHome, server: WebServer, queue_journal: Journal) -> None:
    with listening(server, f"/stream?run={home.queue}") as answer, listening(server, "/stream?after=0") as whole:
        answer.readline(), next_event(whole)
        (one,) = queue_journal.append([GatePaused(why="lunch")], at=time.time())
        number, data = next_numbered(answer)
        assert (int(number), json.loads(data)["kind"]) == (one.number, "gate.paused")
        assert next_event(whole)[1] == "{}", "the whole home tells that something has changed"


def test_a_server_that_is_started_again_goes_on_where_the_caller_was(home: RealHome, queue_journal: Journal) -> None:
    path = f"/stream?run={home.queue}"
    with serving(home.machine) as first, listening(first, path) as answer:
        answer.readline()
        (before,) = queue_journal.append([GatePaused(why="one")], at=time.time())
        assert int(next_numbered(answer)[0]) == before.number
        port = first.port
    (between,) = queue_journal.append([GatePaused(why="two")], at=time.time())
    with serving(home.machine, port) as again, listening(again, path, last=before.number) as answer:
        assert int(next_numbered(answer)[0]) == between.number


def test_far_too_many_missed_events_are_told_by_the_last_alone(
    home: RealHome, server: WebServer, queue_journal: Journal
) -> None:
    done = queue_journal.append([GatePaused(why="again")] * 600, at=time.time())
    with listening(server, f"/stream?run={home.queue}", last=0) as answer:
        assert int(next_numbered(answer)[0]) == done[-1].number


def test_a_caller_that_leaves_frees_its_place(server: WebServer) -> None:
    """More callers come one after the other than there are places."""
    for _ in range(210):
        with listening(server, "/stream?after=0") as answer:
            next_event(answer)


def test_a_first_look_that_fails_stops_no_other_stream(tmp_path: Path) -> None:
    """The run's folder is a link to itself: its first look raises, as that of a folder which may not be read."""
    (tmp_path / "loop").symlink_to("loop")
    journal = Journal(tmp_path / "run")

    async def watch() -> None:
        pulse, look = Pulse(), RunMark(tmp_path / "run")
        async with pulse.watch(look):
            for _ in range(2):
                with pytest.raises(OSError, match="symbolic links"):
                    async with pulse.watch(RunMark(tmp_path / "loop")):
                        pass
                await asyncio.sleep(0.3)
                mark = pulse.marks[look]
                journal.append([GatePaused(why="x" * 9000)], at=time.time())
                assert await asyncio.wait_for(pulse.changes(look, mark), 10) != mark

    asyncio.run(watch())
    journal.close()


def test_a_caller_without_any_events_makes_no_server_hold_a_whole_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    number = journal.append([GatePaused(why="x" * 2000)] * 20_000, at=time.time())[-1].number
    journal.close()

    async def ask() -> bytes:
        sent: list[bytes] = []

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message.get("body", b""))
            if len(sent) == 3:
                gone.set()

        async def receive() -> MutableMapping[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        gone = asyncio.Event()
        await EventStream(pulse=Pulse(), look=RunMark(tmp_path), folder=tmp_path, after=0)({}, receive, send)
        return sent[2]

    tracemalloc.start()
    told = asyncio.run(ask())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told.startswith(f"id: {number}\ndata: ".encode()) and told.count(b"data: ") == 1
    assert most < 5_000_000, "the journal has 40 MB"
