import asyncio
import threading

import pytest

from forgepool.workers.tools.asyncio_thread import AsyncioThread


async def _doubled(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def _never() -> None:
    await asyncio.Event().wait()


def test_work_is_done_aside_and_answered_here() -> None:
    """The answer comes from another thread, which ends with the block."""
    before = threading.active_count()
    with AsyncioThread() as aside:
        assert aside.answer(_doubled(21), within_s=10) == 42
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_work_that_takes_too_long_is_given_up() -> None:
    """A time limit ends it, and so does a stop."""
    with AsyncioThread() as aside:
        with pytest.raises(TimeoutError):
            aside.answer(_never(), within_s=0.05)
        with pytest.raises(TimeoutError):
            aside.answer(_never(), within_s=60, stop=lambda: True)
        assert aside.answer(_doubled(1), within_s=10) == 2


def test_what_goes_on_by_itself_ends_with_the_block() -> None:
    """Work that is not awaited is cancelled, not left behind."""
    cancelled = threading.Event()

    async def work(begun: threading.Event) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with AsyncioThread() as aside:
        begun = threading.Event()
        aside.begin(work(begun))
        assert begun.wait(10)
    assert cancelled.is_set()
