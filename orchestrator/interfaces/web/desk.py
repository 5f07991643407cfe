"""The desk of the web server: what all answers need, from the templates to the headers. It knows no route."""

import asyncio
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING

from forgepool.orchestrator.cli.run.requests import login_name
from forgepool.orchestrator.decisions.reasons import stretch
from forgepool.orchestrator.interfaces import words
from forgepool.orchestrator.interfaces.web.access import Visitor, WebAccess
from forgepool.orchestrator.interfaces.web.stream import HomeMark, Pulse
from forgepool.orchestrator.interfaces.web.text import finalize
from forgepool.orchestrator.merge_queue.http_desk import RequestRefused
from forgepool.orchestrator.reports.costs import bill_words, budget_words
from forgepool.orchestrator.reports.home import HomeView

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import Response

POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{what} 'self'" for what in ("script-src", "style-src", "img-src", "connect-src", "form-action")),
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
STATIC = {"app.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
MOST_SLOW, _TURN_WITHIN_S = 2, 3.0
"""Pages made at once that may wait long for a repository or Redis, and seconds that another one waits for its turn."""
_PACKAGE = "forgepool.orchestrator.interfaces.web"
_MOST_NOTES = 50
_MOST_SHARED = 64


@dataclass(slots=True, kw_only=True)
class Rendered:
    """A page to be rendered."""

    template: str
    content: dict[str, object]
    status: int = 200


@dataclass(slots=True)
class _Shared:
    """The last answer of one page to one visitor."""

    begun: float = float("-inf")
    """Monotonic seconds at which its making began."""
    answer: "Response | None" = None
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class SharedPages:
    """
    Pages that many tabs ask for at once, as after each event: one is made for all who ask before its making begins.

    So an answer is never older than its question.
    """

    _pages: OrderedDict[Hashable, _Shared] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: Hashable, asked: float, make: "Callable[[], Response]") -> "Response":
        """Return the page of that key, made by this call or by one that began after `asked` (monotonic seconds)."""
        with self._lock:
            shared = self._pages.setdefault(key, _Shared())
            self._pages.move_to_end(key)
            while len(self._pages) > _MOST_SHARED:
                self._pages.popitem(last=False)
        with shared.lock:
            if shared.answer is None or shared.begun < asked:
                begun = time.monotonic()
                shared.answer, shared.begun = make(), begun
            return shared.answer


@dataclass(kw_only=True)
class WebDesk:
    """Answers the requests of visitors."""

    home: HomeView
    access: WebAccess
    pulse: Pulse = field(default_factory=Pulse)
    shared: SharedPages = field(default_factory=SharedPages)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_SLOW))
    """The turns of slow pages: all pages share a few threads."""
    notes: dict[str, str] = field(default_factory=dict)
    """By key, sentences to be shown once on the next page."""

    @cached_property
    def everything(self) -> HomeMark:
        return HomeMark(self.home)

    @cached_property
    def templates(self) -> "Environment":
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

        made = Environment(
            loader=ChoiceLoader([PackageLoader(_PACKAGE, f"assets/{name}") for name in ("templates", "frame")]),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=finalize,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        made.filters.update(moment=words.moment, stretch=stretch, state_words=words.state_words, tone=words.tone)
        made.filters.update(attempt_words=words.attempt_words)
        made.filters.update(bill=bill_words, budget_lines=lambda ledger: list(budget_words(ledger)))
        made.globals.update(icons=words.TONES, person=login_name(), static=_fingerprint())
        return made

    def render(self, page: Rendered, visitor: Visitor | None, path: str) -> str:
        rows = self.home.attention() if visitor is not None else []
        content = {"visitor": visitor, "badge": len(rows), "path": path, "everyone": rows, **page.content}
        return self.templates.get_template(page.template).render(content)

    def note(self, sentence: str) -> str:
        """Keep a sentence for the next page; return its key."""
        key = hashlib.sha256(f"{len(self.notes)}{sentence}".encode()).hexdigest()[:16]
        while len(self.notes) >= _MOST_NOTES:
            del self.notes[next(iter(self.notes))]
        self.notes[key] = sentence
        return key


@asynccontextmanager
async def slow_turn(desk: WebDesk) -> AsyncIterator[None]:
    """Wait for the turn of an answer that may take long. Raises RequestRefused where it does not come soon."""
    try:
        await asyncio.wait_for(desk.turns.acquire(), _TURN_WITHIN_S)
    except TimeoutError as late:
        said = f"{MOST_SLOW} answers that wait for other hosts are being made; try again in a while"
        raise RequestRefused(503, said) from late
    try:
        yield
    finally:
        desk.turns.release()


def _fingerprint() -> str:
    """Return a word that changes with the static files, so that a browser never keeps old ones."""
    folder = files(_PACKAGE) / "assets" / "static"
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in STATIC)).hexdigest()[:12]


def visitor_of(desk: WebDesk, request: "Request") -> Visitor | None:
    return desk.access.visitor(request.cookies.get(desk.access.cookie, ""), request.headers.get("authorization", ""))


def stranger() -> Rendered:
    said = "This page needs a link: run `forgepool serve` again, and open the link that it prints."
    return trouble(401, said)


def trouble(status: int, sentence: str) -> Rendered:
    return Rendered(template="trouble.html", content={"sentence": sentence, "status": status}, status=status)


def html(desk: WebDesk, page: Rendered, visitor: Visitor | None, request: "Request") -> "Response":
    from starlette.responses import Response

    note = desk.notes.pop(request.query_params.get("done", ""), "") if visitor is not None else ""
    page.content["note"] = note
    return Response(desk.render(page, visitor, request.url.path), page.status, media_type="text/html")


def plain(status: int, sentence: str) -> "Response":
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(f"{sentence}\n", status)
