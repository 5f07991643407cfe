"""A page is made once for all who wait for it, and never for one who asked later."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.responses import PlainTextResponse, Response

from forgepool.orchestrator.cli.web.desk import SharedPages


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
