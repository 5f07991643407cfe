"""
Access to the pages: links that work once, signed cookies, tokens for programs, and the checks of each request.

One key in the home signs everything, so that a server that is started again knows its tabs. A cookie holds the role and
its end. Tokens for programs and the token of a form are derived from the key.
"""

import hashlib
import hmac
import ipaddress
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from forgepool.orchestrator.run.hub import CannotRun

Role = Literal["viewer", "operator"]
"""A viewer looks; an operator acts as well."""
ROLES: tuple[Role, ...] = get_args(Role)
LINK_S = 15 * 60.0
"""Seconds for which a link waits for its one use."""
SESSION_S = 30 * 86400.0
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A caller whose role is proven."""

    role: Role
    form_token: str
    """The token that each form of this visitor has to bring back; empty for a program, which has no cookie."""


@dataclass(slots=True, kw_only=True)
class WebAccess:
    """Decides who a caller is, and which names of this server count."""

    key: bytes = field(repr=False)
    names: frozenset[str]
    """Names in `Host` headers, in lower case, that mean this server."""
    is_loopback: bool
    cookie: str
    """The cookie's name. Cookies are shared by all ports of a host, so it has the port in it."""
    _links: dict[str, tuple[Role, float]] = field(default_factory=dict, repr=False)

    def new_link(self, role: Role) -> str:
        """Return the code of a new link."""
        now = time.time()
        self._links = {code: link for code, link in self._links.items() if link[1] > now}
        code = secrets.token_urlsafe(24)
        self._links[_digest(code)] = (role, now + LINK_S)
        return code

    def use_link(self, code: str) -> str | None:
        """Return the cookie for a link's code, which then is used up; None for a code that is not one, or no more."""
        role, until = self._links.pop(_digest(code), ("viewer", 0.0))
        return self._cookie(role, int(time.time() + SESSION_S)) if until > time.time() else None

    def token(self, role: Role) -> str:
        """Return the token by which programs show this role."""
        return self._sign(f"token.{role}")

    def visitor(self, cookie: str, authorization: str) -> Visitor | None:
        """Return the caller behind a cookie or an `Authorization` header; None for a stranger."""
        kind, _, given = authorization.partition(" ")
        if given:
            fitting = [role for role in ROLES if _is_same(given.strip(), self.token(role))]
            return Visitor(role=fitting[0], form_token="") if fitting and kind.lower() == "bearer" else None
        role, _, rest = cookie.partition(".")
        until = rest.partition(".")[0]
        if role not in ROLES or not until.isdecimal() or len(until) > 12 or int(until) < time.time():
            return None
        if not _is_same(cookie, self._cookie(role, int(until), rest.split(".")[1:2])):
            return None
        return Visitor(role=role, form_token=self._sign(f"form.{cookie}"))

    def is_mine(self, host: str) -> bool:
        """
        Tell whether a `Host` header names this server. A page of an attacker's name that resolves to this address
        (DNS rebinding) sends that name.
        """
        name, _, port = host.rpartition(":")
        if not port.isdecimal():
            name = host
        name = name.removeprefix("[").removesuffix("]").lower()
        try:
            literal = ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return literal.is_loopback or not self.is_loopback

    def _cookie(self, role: Role, until: int, nonce: list[str] | None = None) -> str:
        unsigned = f"{role}.{until}.{nonce[0] if nonce else secrets.token_hex(8)}"
        return f"{unsigned}.{self._sign(f'session.{unsigned}')}"

    def _sign(self, text: str) -> str:
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()


def read_key(home: Path) -> bytes:
    """
    Return the home's key, which is made at the first call and readable to its owner alone.

    Raises:
        CannotRun: the file holds something else.
    """
    path, draft = home / "web.key", home / f".web.key-{secrets.token_hex(8)}"
    home.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        draft.touch(mode=0o600)
        draft.write_bytes(secrets.token_bytes(_KEY_BYTES))
        # A link is whole or not there, and the first of two servers that begin at once wins.
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise CannotRun(f"{path} is no key of {_KEY_BYTES} bytes; remove it, and the next start makes another")
    return key


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _is_same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())
