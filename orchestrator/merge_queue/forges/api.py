"""
HTTP for the forges' APIs: JSON, pages, rate limits, and one sentence for each failure.

Safe requests are repeated after a failure of the network or the server. An unsafe one (a comment) is only repeated if
the server says that it did not process it. The token goes to the configured address alone: redirects are not followed,
and a next page on another host is not fetched.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Self, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from forgepool.orchestrator.merge_queue.forges.protocol import ForgeAway, ForgeRefused, shorten_line
from forgepool.workers.schema.logs import hider

if TYPE_CHECKING:
    import httpx2

PER_PAGE = 100
_MOST_PAGES = 200
_ATTEMPTS = 4
_SECONDARY_S = 60.0
"""Seconds to wait at GitHub where it names no time."""
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)

M = TypeVar("M", bound=BaseModel)


class ForgeObject(BaseModel):
    """A part of a forge's answer; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeAccount:
    """A forge's address, and the credentials for it."""

    forge: str
    """Name for people."""
    url: str
    """URL of the API: `https://api.github.com`, `https://gitlab.example/api/v4`."""
    token: str
    header: str
    """Header of the token, with the text before it: `Authorization: Bearer `."""
    variable: str
    """Environment variable of the token."""


class Api:
    """The API of one forge; a context manager."""

    def __init__(
        self,
        account: ForgeAccount,
        *,
        headers: Mapping[str, str] | None = None,
        wait: Callable[[float], None] = time.sleep,
        patience_s: float = 90.0,
    ) -> None:
        """`wait` sleeps; `patience_s` bounds the seconds slept for one request."""
        import httpx2

        if not account.token:
            raise ForgeRefused(f"{account.forge} needs a token; set {account.variable}", 401)
        self.account = account
        self._wait, self._patience_s = wait, patience_s
        self._hide = hider((account.token,))
        self._url = httpx2.URL(account.url.rstrip("/") + "/")
        name, _, before = account.header.partition(": ")
        own = {name: before + account.token, "User-Agent": "forgepool", **(headers or {})}
        self._client = httpx2.Client(headers=own, timeout=30.0, follow_redirects=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, kind: type[M], path: str, **params: str | int) -> M:
        return self._read(kind, self._ask("GET", self._at(path, params)))

    def find(self, kind: type[M], path: str) -> M | None:
        """Return one object; None where there is none, or none the token may see."""
        try:
            return self.get(kind, path)
        except ForgeRefused as refused:
            if refused.status == 404:
                return None
            raise

    def pages(self, kind: type[M], path: str, **params: str | int) -> Iterator[M]:
        """
        Yield every element of a list, over all its pages.

        Raises:
            ForgeAway: also for too many pages; a part is never taken for the whole.
        """
        url = self._at(path, {**params, "per_page": PER_PAGE})
        for _ in range(_MOST_PAGES):
            response = self._ask("GET", url)
            answer = self._json(response)
            if not isinstance(answer, list):
                raise ForgeAway(f"{self.account.forge} answered {_shown(url)} with something other than a list")
            yield from (self._valid(kind, one, url) for one in answer)
            following = self._next(url, response)
            if following is None:
                return
            url = following
        raise ForgeAway(
            f"{self.account.forge} has more than {_MOST_PAGES * PER_PAGE} of {_shown(url)}, which is too many"
        )

    def send(self, method: str, path: str, body: Mapping[str, JsonValue], *, twice: bool) -> None:
        """Send; repeated after a failure if `twice` is harmless."""
        self._ask(method, self._at(path, {}), body, twice=twice)

    def make(self, kind: type[M], method: str, path: str, body: Mapping[str, JsonValue], *, twice: bool) -> M:
        """Send as `send` does, and return the object in the answer."""
        return self._read(kind, self._ask(method, self._at(path, {}), body, twice=twice))

    def _at(self, path: str, params: Mapping[str, str | int]) -> "httpx2.URL":
        return self._url.join(path).copy_merge_params({name: str(value) for name, value in params.items()})

    def _ask(
        self, method: str, url: "httpx2.URL", body: Mapping[str, JsonValue] | None = None, *, twice: bool = True
    ) -> "httpx2.Response":
        import httpx2

        waited = 0.0
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                response = self._client.request(method, url, json=body)
            except (httpx2.TransportError, httpx2.DecodingError) as lost:
                trouble, pause = self._lost(url, lost, body is not None), float(2 ** (attempt - 1))
                again = twice or isinstance(lost, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
            else:
                if response.is_success:
                    return response
                limited = _limited(response)
                if not limited and response.status_code < 500:
                    raise self._refusal(method, url, response)
                asked = _asked_pause(response)
                trouble, again = self._trouble(url, response, asked, limited=limited), twice or limited
                pause = asked if asked is not None else _SECONDARY_S if limited else float(2 ** (attempt - 1))
            waited += pause
            if not again or attempt == _ATTEMPTS or waited > self._patience_s:
                raise trouble
            self._wait(pause)
        raise AssertionError("the last attempt returns or raises")

    def _lost(self, url: "httpx2.URL", lost: Exception, sending: bool) -> ForgeAway:
        unknown = "; it may have arrived or not" if sending else ""
        said = self._hide(shorten_line(str(lost) or type(lost).__name__, 200))
        return ForgeAway(
            f"{self.account.forge} does not answer at {url.scheme}://{url.netloc.decode()}: {said}{unknown}"
        )

    def _trouble(
        self, url: "httpx2.URL", response: "httpx2.Response", after_s: float | None, *, limited: bool
    ) -> ForgeAway:
        if limited:
            again = "later" if after_s is None else f"in {after_s:.0f} s"
            return ForgeAway(f"{self.account.forge} has limited our requests; asking again {again}", after_s)
        return ForgeAway(
            f"{self.account.forge} has an error of its own ({response.status_code} at {_shown(url)})", after_s
        )

    def _refusal(self, method: str, url: "httpx2.URL", response: "httpx2.Response") -> ForgeRefused:
        forge, asked, status = self.account.forge, f"{method} {_shown(url)}", response.status_code
        said = self._hide(_message(response))
        because = f": {said}" if said else ""
        match status:
            case 401:
                text = f"{forge} rejects the token{because}; set a valid one in {self.account.variable}"
            case 403:
                text = (
                    f"{forge} does not allow this token {asked}{because}; docs/how-to/forges.md lists the needed rights"
                )
            case 404:
                text = f"{forge} has nothing at {asked}: the name is wrong, or the token may not see it"
            case _ if response.is_redirect:
                text = (
                    f"{forge} has moved {asked} to {response.headers.get('location', 'elsewhere')}; give the new name"
                )
            case _:
                text = f"{forge} refuses {asked} ({status}){because}"
        return ForgeRefused(text, status)

    def _next(self, url: "httpx2.URL", response: "httpx2.Response") -> "httpx2.URL | None":
        """
        Return the next page's URL, from the `Link` header or GitLab's own, which proxies leave alone.

        Raises:
            ForgeRefused: the next page is on another host, which must not see the token.
        """
        link = response.links.get("next", {}).get("url")
        if link:
            following = url.join(link)
            if (following.scheme, following.host, following.port) != (url.scheme, url.host, url.port):
                raise ForgeRefused(
                    f"{self.account.forge} names another host for the next page, {following.host}; it was not asked", 0
                )
            return following
        number = response.headers.get("x-next-page", "")
        return url.copy_set_param("page", number) if number.isdigit() else None

    def _read(self, kind: type[M], response: "httpx2.Response") -> M:
        return self._valid(kind, self._json(response), response.request.url)

    def _json(self, response: "httpx2.Response") -> JsonValue:
        try:
            return _JSON.validate_json(response.content)
        except ValidationError as wrong:
            where = _shown(response.request.url)
            raise ForgeAway(f"{self.account.forge} answered {where} with something other than JSON") from wrong

    def _valid(self, kind: type[M], answer: JsonValue, url: "httpx2.URL") -> M:
        try:
            return kind.model_validate(answer)
        except ValidationError as wrong:
            first = wrong.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "all of it"
            why = f"'{place}': {first['msg'].lower()}"
            raise ForgeAway(f"{self.account.forge} answered {_shown(url)} unexpectedly: {why}") from wrong


def _shown(url: "httpx2.URL") -> str:
    return url.path


def _limited(response: "httpx2.Response") -> bool:
    """Tell whether the rate limit was hit; GitHub also says so by a 403, in one of three ways."""
    if response.status_code == 429:
        return True
    return response.status_code == 403 and (
        "retry-after" in response.headers
        or response.headers.get("x-ratelimit-remaining") == "0"
        or "rate limit" in _message(response).lower()
    )


def _asked_pause(response: "httpx2.Response") -> float | None:
    """Return the seconds the server asks to wait: a number, a date, or the end of a rate limit."""
    after = response.headers.get("retry-after", "").strip()
    if after.isdigit():
        return float(after)
    if after:
        try:
            return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
        except ValueError:
            return None
    if response.headers.get("x-ratelimit-remaining", response.headers.get("ratelimit-remaining")) != "0":
        return None
    until = response.headers.get("x-ratelimit-reset", response.headers.get("ratelimit-reset", ""))
    return max(1.0, float(until) - time.time()) if until.isdigit() else None


class _Refusal(ForgeObject):
    """An error message of either forge."""

    message: JsonValue = None
    error: JsonValue = None
    errors: JsonValue = None


def _message(response: "httpx2.Response") -> str:
    try:
        said = _Refusal.model_validate_json(response.content)
    except ValidationError:
        return ""
    parts = [_words(part) for part in (said.message, said.error, said.errors)]
    return shorten_line("; ".join(part for part in parts if part), 300)


def _words(value: JsonValue) -> str:
    match value:
        case None:
            return ""
        case list():
            return ", ".join(filter(None, map(_words, value)))
        case dict():
            told = value.get("message")
            return _words(told) if told else ", ".join(f"{name}: {_words(one)}" for name, one in value.items())
        case _:
            return str(value)
