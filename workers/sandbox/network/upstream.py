"""
The proxies through which this host itself reaches the network, as its variables name them (`HTTPS_PROXY` and others).

Names are looked up by such a proxy, so that what it leads to is its own affair. Its password stays in this process.
"""

import asyncio
import base64
import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Self
from urllib.parse import unquote, urlsplit

from forgepool.workers.sandbox.network.head import Plain
from forgepool.workers.sandbox.network.hosts import Address, BadHost, host_name, literal, split_port, write_in_full


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """One proxy."""

    host: str
    port: int
    tls: bool
    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str) -> Self | None:
        """None where the URL names no HTTP proxy."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
        said = None
        if parts.username is not None:
            said = basic(unquote(parts.username), unquote(parts.password or ""))
        tls = parts.scheme == "https"
        return cls(host=parts.hostname, port=parts.port or (443 if tls else 80), tls=tls, authorization=said)

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": self.authorization} if self.authorization else {}

    def tunnel_head(self, host: str, port: int) -> bytes:
        """The request by which it leads to a host."""
        place = write_in_full(host, port)
        return self._written(f"CONNECT {place} HTTP/1.1", f"Host: {place}")

    def plain_head(self, request: Plain) -> bytes:
        """The head of a request without TLS, as a proxy is to get it."""
        method, _, rest = request.head.decode("latin-1").partition(" ")
        first, _, fields = rest.partition("\r\n")
        place = write_in_full(request.host, request.port)
        return self._written(f"{method} http://{place}{first}", fields.removesuffix("\r\n\r\n"))

    def _written(self, first: str, fields: str) -> bytes:
        own = [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join((first, fields, *own, "", "")).encode("latin-1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxies:
    """The host's proxies, for requests with and without TLS, and the hosts that are reached without."""

    secure: Upstream | None = None
    plain: Upstream | None = None
    exempt: tuple[str, ...] = ()

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self:
        """As curl and most others read them: the lower-case variable first."""

        def value(name: str) -> str:
            return variables.get(name) or variables.get(name.upper()) or ""

        found = [value(name) or value("all_proxy") for name in ("https_proxy", "http_proxy")]
        secure, plain = (Upstream.of(url) if url else None for url in found)
        exempt = tuple(filter(None, value("no_proxy").replace(" ", ",").split(",")))
        return cls(secure=secure, plain=plain, exempt=exempt)

    def to(self, host: str, port: int, *, secure: bool) -> Upstream | None:
        """The proxy by which this host is reached; None where it is reached without one."""
        found = self.secure if secure else self.plain
        return None if found is None or any(_is_exempt(host, port, each) for each in self.exempt) else found


def basic(user: str, password: str) -> str:
    """The value of an `Authorization` header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _is_exempt(host: str, port: int, pattern: str) -> bool:
    """`corp.example`, `.corp.example` and `*.corp.example` mean all below as well; a port may follow."""
    if pattern == "*":
        return True
    try:
        name, wanted = split_port(pattern.removeprefix("*").removeprefix("."))
        name = host_name(name)
    except BadHost:
        return False
    below = literal(name) is None and host.endswith(f".{name}")
    return (host == name or below) and wanted in (None, port)


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
