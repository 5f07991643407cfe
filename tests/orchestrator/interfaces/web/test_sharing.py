"""A page is made once for all who wait for it, and never for one who asked later."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from forgepool.orchestrator.interfaces.web.access import WebAccess
from forgepool.orchestrator.interfaces.web.app import guard, hosts_page, runs_page
from forgepool.orchestrator.interfaces.web.desk import MOST_SLOW, SharedPages, WebDesk
from forgepool.orchestrator.reports.home import HomeView
from forgepool.workers.schema.settings import Settings


def test_those_who_ask_while_a_page_is_made_share_the_next_one() -> None:
    pages, made, first, go = SharedPages(), list[int](), threading.Event(), threading.Event()

    def make() -> Response:
        made.append(len(made))
        first.set()
        assert go.wait(30)
        return PlainTextResponse(str(made[-1]))

    with ThreadPoolExecutor(max_workers=10) as pool:
        opener = pool.submit(pages.take, "page", time.monotonic(), make)
        assert first.wait(30)
        asked = time.monotonic()
        others = [pool.submit(pages.take, "page", asked, make) for _ in range(9)]
        go.set()
        assert opener.result().body == b"0"
        assert {one.result().body for one in others} == {b"1"}
    assert made == [0, 1]


def test_one_who_asks_later_gets_a_new_page() -> None:
    pages, made = SharedPages(), list[int]()

    def make() -> Response:
        made.append(len(made))
        return PlainTextResponse(str(made[-1]))

    bodies = [pages.take(key, time.monotonic(), make).body for key in ("a", "a", "b")]
    assert bodies == [b"0", b"1", b"2"]


def test_a_page_that_cannot_be_made_is_tried_again() -> None:
    pages = SharedPages()

    def fail() -> Response:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        pages.take("a", time.monotonic(), fail)
    assert pages.take("a", time.monotonic(), lambda: PlainTextResponse("there")).body == b"there"


def test_pages_that_wait_for_others_take_few_of_the_threads(tmp_path: Path) -> None:
    """All turns are taken, as by diffs at a hub that does not answer. Another one is refused; other pages are made."""
    access = WebAccess(key=b"k" * 32, names=frozenset(), is_loopback=True, cookie="c")
    desk = WebDesk(home=HomeView(Settings(home=tmp_path, broker_url=None)), access=access)
    authorization = f"Bearer {access.token('viewer')}".encode()

    def request(path: str, query: str = "") -> Request:
        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "server": ("x", 1)}
        return Request({**scope, "scheme": "http", "headers": [(b"authorization", authorization)]})

    async def ask() -> None:
        hosts, runs = guard(desk, hosts_page), guard(desk, runs_page)
        held = [await desk.turns.acquire() for _ in range(MOST_SLOW)]
        assert held == [True, True]
        refused, made = await asyncio.gather(hosts(request("/hosts")), runs(request("/runs")))
        assert (refused.status_code, made.status_code) == (503, 200)
        assert b"try again" in refused.body
        for _ in held:
            desk.turns.release()
        asked = [hosts(request("/hosts", f"x={each}")) for each in range(6)]
        assert {one.status_code for one in await asyncio.gather(*asked)} == {200}
        assert not desk.turns.locked()

    asyncio.run(ask())
