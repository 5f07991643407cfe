"""
From a host's name to its addresses, beside an asyncio loop.

The system's resolver blocks for as long as it likes and cannot be stopped. So each question has a thread that nobody
waits for at the end (the loop's own pool would be waited for), and only so many of them are under way.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address

from forgepool.workers.sandbox.network.addresses import Address
from forgepool.workers.sandbox.network.hosts import literal

_MOST = 32

LookUp = Callable[[str], tuple[Address, ...]]
"""The addresses of a host, the best first; raises OSError where it has none. May take its time."""


class Lookups:
    """The questions of one proxy."""

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self._free = threading.BoundedSemaphore(_MOST)

    async def addresses(self, host: str) -> tuple[Address, ...]:
        """
        All addresses of a normalised host, the best first; its own where it is an address.

        Raises:
            OSError: it has none, or too many questions are under way.
        """
        known = literal(host)
        if known is not None:
            return (known,)
        if not self._free.acquire(blocking=False):
            raise OSError("too many names are being looked up; ask again later")
        answer: asyncio.Future[tuple[Address, ...]] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._ask, args=(host, answer), name=f"lookup {host}", daemon=True).start()
        return await answer

    def _ask(self, host: str, answer: "asyncio.Future[tuple[Address, ...]]") -> None:
        found: tuple[Address, ...] | OSError
        try:
            found = self._look_up(host)
        except OSError as trouble:
            found = OSError(f"its name has no address ({trouble.strerror})")
        finally:
            self._free.release()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            answer.get_loop().call_soon_threadsafe(_settle, answer, found)


def ask_system(host: str) -> tuple[Address, ...]:
    """As every program of this machine would have it, `/etc/hosts` included."""
    # As bytes: the standard library would run text through a codec that refuses some names.
    infos = socket.getaddrinfo(host.encode(), None, type=socket.SOCK_STREAM)
    return tuple(ip_address(info[4][0]) for info in infos)


def _settle(answer: "asyncio.Future[tuple[Address, ...]]", found: tuple[Address, ...] | OSError) -> None:
    if answer.done():
        return
    if isinstance(found, OSError):
        answer.set_exception(found)
    else:
        answer.set_result(found)
