"""Reading a stream in its own thread, and leaving it."""

import threading
from collections.abc import Iterator

import pytest
from vendors.asking import never

from forgepool.workers.llm.provider import Endpoint, ModelFailed
from forgepool.workers.llm.wires.asking import attend
from forgepool.workers.llm.wires.openai_responses import client


class _Endless:
    """A stream like those of the SDKs that never ends by itself."""

    def __init__(self) -> None:
        self.begun, self.closed = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[int]:
        number = 0
        self.begun.set()
        while not self.closed.wait(0.001):
            yield (number := number + 1)

    def close(self) -> None:
        self.closed.set()


def test_who_goes_away_closes_the_stream() -> None:
    """The vendor learns that the client has gone, and stops answering and charging."""
    stream = _Endless()
    events = attend(lambda: stream, never)
    assert [next(events), next(events)] == [1, 2]
    events.close()
    assert stream.closed.wait(5)


def test_who_is_stopped_closes_the_stream() -> None:
    """This holds even if events arrive without a pause."""
    stream = _Endless()
    with pytest.raises(ModelFailed) as failed:
        list(attend(lambda: stream, stream.begun.is_set))
    assert failed.value.trouble == "stopped"
    assert stream.closed.wait(5)


def test_what_goes_wrong_in_reading_is_raised_to_who_asked() -> None:
    """The exception does not get lost in the reading thread."""

    def unopened() -> _Endless:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        next(attend(unopened, never))


def test_a_client_is_closed_with_its_owner() -> None:
    """Otherwise its connections would stay open."""

    class Owner:
        pass

    owner = Owner()
    made = client(Endpoint(model="m"), owner)
    assert not made.is_closed()
    del owner
    assert made.is_closed()
