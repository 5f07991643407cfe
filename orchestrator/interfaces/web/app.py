"""
The web application: routes, and the checks that stand before each of them.

Every request names this server, is short, and comes from a visitor whose role is known. Every answer carries a policy
that lets a browser load nothing but this server's own files, and run no script that stands in a page.
"""

import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit

import structlog

from forgepool.orchestrator.interfaces.export.metrics import metrics_endpoint
from forgepool.orchestrator.interfaces.rest.routes import api_error, api_routes, find_task
from forgepool.orchestrator.interfaces.web import pages, parts
from forgepool.orchestrator.interfaces.web.access import SESSION_S, Visitor, WebAccess
from forgepool.orchestrator.interfaces.web.actions import act_on
from forgepool.orchestrator.interfaces.web.desk import (
    HEADERS,
    STATIC,
    Rendered,
    WebDesk,
    html,
    plain,
    slow_turn,
    stranger,
    trouble,
    visitor_of,
)
from forgepool.orchestrator.interfaces.web.diff import change_of, diff_of
from forgepool.orchestrator.interfaces.web.stream import MOST_STREAMS, EventStream, RunMark
from forgepool.orchestrator.interfaces.web.text import timeline
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.merge_queue.http_desk import RequestRefused
from forgepool.orchestrator.merge_queue.http_server import MOST_BYTES, read_whole_body
from forgepool.orchestrator.reports.costs import report_money
from forgepool.orchestrator.reports.home import HomeView, RunLook
from forgepool.orchestrator.reports.report import report_lines
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun, NoSuchRun

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger()
_ALWAYS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
Endpoint = Callable[[WebDesk, "Request"], Awaitable["Response | EventStream"]]
Make = Callable[[WebDesk, "Request"], Rendered]


def attention_page(desk: WebDesk, request: "Request") -> Rendered:
    return Rendered(template="attention.html", content={"runs": desk.home.summaries()})


def runs_page(desk: WebDesk, request: "Request") -> Rendered:
    return Rendered(template="runs.html", content={"runs": desk.home.summaries()})


def hosts_page(desk: WebDesk, request: "Request") -> Rendered:
    return Rendered(template="hosts.html", content={"hosts": parts.hosts_of(desk.home)})


def home_money_page(desk: WebDesk, request: "Request") -> Rendered:
    return Rendered(
        template="money.html", content={"run": "", "money": None, "home": parts.home_money(desk.home.summaries())}
    )


def money_page(desk: WebDesk, request: "Request") -> Rendered:
    def make(look: RunLook) -> Rendered:
        report = report_money(look.state, look.course.ledger(look.state))
        return Rendered(template="money.html", content={**pages.head(look), "money": report, "home": None})

    return desk.home.view(request.path_params["run"]).look(make)


def graph_page(desk: WebDesk, request: "Request") -> Rendered:
    def make(look: RunLook) -> Rendered:
        return Rendered(
            template="graph.html", content={**pages.head(look), "drawing": None, "rows": [], **parts.needs_of(look)}
        )

    return desk.home.view(request.path_params["run"]).look(make)


def run_page(desk: WebDesk, request: "Request") -> Rendered:
    wanted = _wanted(request)

    def make(look: RunLook) -> Rendered:
        if look.kept.options.gate:
            return Rendered(template="queue.html", content=pages.queue_page(look, wanted))
        drawn = {"timeline": timeline(look.state, look.began, look.alive.now), "locks": parts.locks_of(look)}
        return Rendered(template="run.html", content=pages.run_page(look, wanted) | drawn)

    return desk.home.view(request.path_params["run"]).look(make)


def _wanted(request: "Request") -> pages.RowFilter:
    asked = request.query_params
    show, page = asked.get("show", ""), asked.get("page", "1")
    return pages.RowFilter(
        show=show if show in pages.GROUPS else "",
        words=asked.get("q", "")[:200],
        page=max(1, int(page)) if page.isdecimal() and len(page) < 7 else 1,
    )


def task_page(desk: WebDesk, request: "Request") -> Rendered:
    log = request.query_params.get("log", "")
    number = int(log) if log.isdecimal() and len(log) < 7 else None

    def make(look: RunLook) -> Rendered:
        task = find_task(look, request.path_params["task"])
        return Rendered(template="task.html", content=pages.task_page(look, task, number))

    return desk.home.view(request.path_params["run"]).look(make)


def diff_page(desk: WebDesk, request: "Request") -> Rendered:
    def make(look: RunLook) -> tuple[dict[str, object], tuple[str, str, str, str]]:
        return pages.head(look), change_of(look.state, find_task(look, request.path_params["task"]))

    head, change = desk.home.view(request.path_params["run"]).look(make)
    shown = diff_of(desk.home.settings, *change)
    name = request.path_params["task"]
    return Rendered(template="diff.html", content={**head, "name": name, "commit": change[2], "diff": shown})


def report_page(desk: WebDesk, request: "Request") -> Rendered:
    def make(look: RunLook) -> tuple[KeptRun, dict[str, object]]:
        return look.kept, pages.head(look)

    kept, head = desk.home.view(request.path_params["run"]).look(make)
    # A report reads all events of its run: other pages of it do not wait for that.
    said = [] if kept.options.gate else list(islice(report_lines(kept, *kept.replay()), pages.REPORT_LINES + 1))
    cut = len(said) > pages.REPORT_LINES
    return Rendered(template="report.html", content={**head, "lines": said[: pages.REPORT_LINES], "is_cut": cut})


def guard(desk: WebDesk, make: Make) -> Callable[["Request"], Awaitable["Response"]]:
    """Return the endpoint of a page: for a visitor alone, and with one sentence where it cannot be shown."""

    async def answer(request: "Request") -> "Response":
        from starlette.concurrency import run_in_threadpool

        visitor = visitor_of(desk, request)
        if visitor is None:
            return html(desk, stranger(), None, request)
        key = (request.url.path, request.url.query, visitor)
        made = partial(_made, desk, make, visitor, request)
        return await run_in_threadpool(desk.shared.take, key, time.monotonic(), made)

    async def answer_in_turn(request: "Request") -> "Response":
        try:
            async with slow_turn(desk):
                return await answer(request)
        except RequestRefused as late:
            return plain(late.status, str(late))

    return answer_in_turn if make in (diff_page, hosts_page) else answer


def _made(desk: WebDesk, make: Make, visitor: Visitor, request: "Request") -> "Response":
    try:
        page = make(desk, request)
    except NoSuchRun as missing:
        page = trouble(404, str(missing))
    except RequestRefused as refused:
        page = trouble(refused.status, str(refused))
    except (JournalUnreadable, CannotRun) as unread:
        page = trouble(503, str(unread))
    return html(desk, page, visitor, request)


async def enter(desk: WebDesk, request: "Request") -> "Response":
    """
    Exchange a link for a cookie.

    The page goes on by itself, since a browser sends a strict cookie along no redirect that began on another site.
    """
    from starlette.responses import Response

    # A `HEAD` is the look of a program that previews links, which must not use one up.
    cookie = desk.access.use_link(request.query_params.get("code", "")) if request.method == "GET" else None
    if cookie is None:
        said = "This link has been used, or is too old: run `forgepool serve` again for a new one."
        return html(desk, trouble(401, said), None, request)
    answer = Response(desk.templates.get_template("enter.html").render(), media_type="text/html")
    answer.set_cookie(
        desk.access.cookie,
        cookie,
        max_age=int(SESSION_S),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def act(desk: WebDesk, request: "Request") -> "Response":
    """Take a form: a word of the command line about a run, or one of its tasks."""
    return await _take(desk, request, partial(act_on, desk.home, request.path_params["run"]))


async def act_about_host(desk: WebDesk, request: "Request") -> "Response":
    """Take a form: drain or readmit a host."""
    return await _take(desk, request, partial(parts.act_on_host, desk.home))


async def _take(desk: WebDesk, request: "Request", do: Callable[[dict[str, str]], str]) -> "Response":
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import RedirectResponse

    visitor = visitor_of(desk, request)
    try:
        given = await _form(desk, request, visitor)
        said = await run_in_threadpool(do, given)
    except RequestRefused as refused:
        return html(desk, trouble(refused.status, str(refused)), visitor, request)
    except NoSuchRun as missing:
        return html(desk, trouble(404, str(missing)), visitor, request)
    except (CannotRun, JournalUnreadable) as unable:
        return html(desk, trouble(409, str(unable)), visitor, request)
    back = _split(given.get("back", "/")).path
    back = back if back.startswith("/") and not back.startswith("//") and "\\" not in back else "/"
    return RedirectResponse(f"{back}?{urlencode({'done': desk.note(said)})}", 303)


def _split(url: str) -> SplitResult:
    """Return the parts of a URL that anyone may have written; of one that is none, empty parts."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


async def _form(desk: WebDesk, request: "Request", visitor: Visitor | None) -> dict[str, str]:
    """Return a form's fields. Raises RequestRefused unless an operator has sent it from a page of this server."""
    if visitor is None:
        raise RequestRefused(401, "this needs a link: run `forgepool serve` again, and open the link that it prints")
    if visitor.role != "operator":
        raise RequestRefused(403, "a viewer's link only looks; open an operator's link to act")
    origin = request.headers.get("origin")
    if origin is not None and _split(origin).netloc != request.headers.get("host", ""):
        raise RequestRefused(403, "the form was sent from a page of another site; send it from here")
    try:
        body = await read_whole_body(request)
    except RequestRefused as refused:
        raise RequestRefused(413, f"the form is longer than {MOST_BYTES:,} bytes; shorten its text") from refused
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError as wrong:
        raise RequestRefused(400, "the form cannot be read; send it from the page") from wrong
    given = {name: values[-1] for name, values in fields.items()}
    if visitor.form_token and not hmac.compare_digest(given.get("token", "").encode(), visitor.form_token.encode()):
        raise RequestRefused(403, "the form's token is wrong or missing; load the page again, then send it")
    return given


async def stream(desk: WebDesk, request: "Request") -> "Response | EventStream":
    """Follow a run, a task of it, or with no name the whole home."""
    if visitor_of(desk, request) is None:
        return plain(401, "a link or a token is needed; `forgepool serve` prints both")
    if desk.pulse.open >= MOST_STREAMS:
        return plain(503, f"there are {MOST_STREAMS} streams already; close a page, then try again")
    asked = request.query_params
    name, task = asked.get("run", ""), asked.get("task", "")
    last = request.headers.get("last-event-id") or asked.get("after", "")
    after = int(last) if last.isdecimal() and len(last) < 16 else None
    if not name:
        return EventStream(pulse=desk.pulse, look=desk.everything, folder=None, after=after)
    try:
        folder = desk.home.folder(name)
        view = desk.home.view(name)
        transcript = view.look(lambda look: pages.transcript_file(look, look.state.tasks[task])) if task else None
    except (NoSuchRun, JournalUnreadable, KeyError):
        return plain(404, "there is no such run or task")
    look = RunMark(folder, transcript)
    return EventStream(pulse=desk.pulse, look=look, folder=folder, after=after)


async def static(desk: WebDesk, request: "Request") -> "Response":
    from starlette.responses import Response

    name = request.path_params["name"]
    if name not in STATIC:
        return plain(404, "there is no such file")
    content = (files("forgepool.orchestrator.interfaces.web") / "assets" / "static" / name).read_bytes()
    return Response(content, headers={"cache-control": "private, max-age=86400"}, media_type=STATIC[name])


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Refuses what does not name this server, and puts the headers on every answer."""

    app: "ASGIApp"
    access: WebAccess

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        headers = {name: value for name, value in scope.get("headers", ())}
        host = headers.get(b"host", b"").decode("latin-1")

        async def send_guarded(message: "Message") -> None:
            if message["type"] == "http.response.start":
                kept = {name for name, _ in message["headers"]}
                more = [(name, value) for name, value in _ALWAYS if name not in kept]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        if not self.access.is_mine(host):
            refused = plain(421, f"this server is not '{host[:100]}'; open it by the address that it has printed")
            await refused(scope, receive, send_guarded)
            return
        await self.app(scope, receive, send_guarded)


def web_app(home: HomeView, access: WebAccess) -> "ASGIApp":
    """Return the application."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    desk = WebDesk(home=home, access=access)
    shown: list[tuple[str, Make]] = [
        ("/", attention_page),
        ("/runs", runs_page),
        ("/money", home_money_page),
        ("/hosts", hosts_page),
        ("/runs/{run}", run_page),
        ("/runs/{run}/money", money_page),
        ("/runs/{run}/graph", graph_page),
        ("/runs/{run}/report", report_page),
        ("/runs/{run}/tasks/{task}", task_page),
        ("/runs/{run}/tasks/{task}/diff", diff_page),
    ]
    routes = [Route(path, guard(desk, make), methods=["GET"]) for path, make in shown]
    others: list[tuple[str, str, Endpoint]] = [
        ("/enter", "GET", enter),
        ("/stream", "GET", stream),
        ("/metrics", "GET", metrics_endpoint(home)),
        ("/static/{name}", "GET", static),
        ("/runs/{run}/act", "POST", act),
        ("/hosts/act", "POST", act_about_host),
    ]
    for path, method, answer in others:
        routes.append(Route(path, _with_desk(desk, answer), methods=[method]))

    async def elsewhere(request: "Request", wrong: Exception) -> "Response":
        status = getattr(wrong, "status_code", 404)
        said = f"there is nothing at {request.url.path[:100]}" if status == 404 else "that is not allowed here"
        if request.url.path.startswith("/api/"):
            return api_error(status, said)
        return html(desk, trouble(status, said), visitor_of(desk, request), request)

    async def broken(request: "Request", trouble: Exception) -> "Response":
        log.error("web.broken", path=request.url.path, exc_info=trouble)
        if request.url.path.startswith("/api/"):
            return api_error(500, "the answer could not be made; the server's log says why")
        return plain(500, "the page could not be made; the server's log says why")

    routes += api_routes(desk)
    made: Starlette = Starlette(routes=routes, exception_handlers={HTTPException: elsewhere, Exception: broken})
    made.router.redirect_slashes = False
    return Doorkeeper(made, access)


def _with_desk(desk: WebDesk, answer: Endpoint) -> Callable[["Request"], Awaitable["Response | EventStream"]]:
    async def endpoint(request: "Request") -> "Response | EventStream":
        return await answer(desk, request)

    return endpoint
