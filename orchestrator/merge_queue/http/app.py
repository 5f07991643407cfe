"""The API as HTTP speaks it: paths, the token, and bodies that have an end."""

import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

import structlog

from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.journal.inbox import PersonRequest as Wish
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.merge_queue.http.bodies import BadBody, Class, Pause, SubmissionBody, WordBody, read_body
from forgepool.orchestrator.merge_queue.http.desk import MOST_LISTED, Desk, HttpAnswer, RequestRefused
from forgepool.worktrees.git.git import GitFailed
from forgepool.worktrees.hub.mirror import MissingCommit

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

log = structlog.get_logger()

MOST_BYTES = 65_536
"""Of a body."""
_LISTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """What an endpoint goes by."""

    name: str = ""
    """The entry's, where the path has one."""
    limit: str = ""
    body: bytes = field(default=b"", repr=False)


Act = Callable[[HttpCall], HttpAnswer]
EntryWord = Literal["cancel", "retry", "hold", "release"]


def gate_app(desk: Desk, token: str) -> "Starlette":
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    endpoints: list[tuple[str, str, Act]] = [
        ("GET", "/status", lambda call: desk.status()),
        ("GET", "/entries", partial(_entries, desk)),
        ("POST", "/entries", lambda call: desk.submit(read_body(SubmissionBody, call.body))),
        ("GET", "/entries/{name:path}", lambda call: desk.entry(call.name)),
        ("DELETE", "/entries/{name:path}", partial(_entry_word, desk, "cancel")),
        ("POST", "/entries/{name:path}/retry", partial(_entry_word, desk, "retry")),
        ("POST", "/entries/{name:path}/hold", partial(_entry_word, desk, "hold")),
        ("POST", "/entries/{name:path}/release", partial(_entry_word, desk, "release")),
        ("PUT", "/entries/{name:path}/class", partial(_reclass, desk)),
        ("POST", "/pause", partial(_pause, desk)),
        ("POST", "/resume", partial(_resume, desk)),
    ]
    routes = [Route(path, _guarded(act, token), methods=[method]) for method, path, act in endpoints]
    routes.append(Route("/health", _health, methods=["GET"]))
    made = Starlette(routes=routes, exception_handlers={HTTPException: _elsewhere, Exception: _broken})
    made.router.redirect_slashes = False
    return made


def _entries(desk: Desk, call: HttpCall) -> HttpAnswer:
    limit = call.limit or str(_LISTED)
    if not limit.isdecimal() or len(limit) > 9 or not 1 <= int(limit) <= MOST_LISTED:
        raise RequestRefused(422, f"'{limit[:20]}' is no limit; give a number from 1 to {MOST_LISTED}")
    return desk.entries(int(limit))


def _entry_word(desk: Desk, do: EntryWord, call: HttpCall) -> HttpAnswer:
    return desk.word(Wish(do=do, task=call.name, by=read_body(WordBody, call.body).by))


def _reclass(desk: Desk, call: HttpCall) -> HttpAnswer:
    said = read_body(Class, call.body)
    return desk.word(Wish(do="reclass", task=call.name, text=said.klass, by=said.by))


def _pause(desk: Desk, call: HttpCall) -> HttpAnswer:
    said = read_body(Pause, call.body)
    return desk.word(Wish(do="pause", text=said.why, by=said.by))


def _resume(desk: Desk, call: HttpCall) -> HttpAnswer:
    return desk.word(Wish(do="go", by=read_body(WordBody, call.body).by))


def _guarded(act: Act, token: str) -> Callable[["Request"], Awaitable["Response"]]:
    """The token is asked for before the body is read."""

    async def answer(request: "Request") -> "Response":
        from starlette.concurrency import run_in_threadpool

        if request.path_params.get("name") == "":
            return await _elsewhere(request, Exception())
        try:
            _admit(request, token)
            call = HttpCall(
                name=entry_name(request.path_params["name"]) if "name" in request.path_params else "",
                limit=request.query_params.get("limit", ""),
                body=await _body(request),
            )
            given = await run_in_threadpool(_acted, act, call)
        except RequestRefused as refused:
            return _said(refused.status, str(refused))
        return _json(given.status, given.body)

    return answer


def _acted(act: Act, call: HttpCall) -> HttpAnswer:
    try:
        return act(call)
    except BadBody as wrong:
        raise RequestRefused(422, str(wrong)) from wrong
    except (GitFailed, MissingCommit) as away:
        raise RequestRefused(503, f"the hub cannot be asked now: {away}; try again") from away
    except JournalUnreadable as unread:
        raise RequestRefused(503, str(unread)) from unread


def _admit(request: "Request", token: str) -> None:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if not given:
        raise RequestRefused(401, "a token is wanted; send it as: Authorization: Bearer TOKEN")
    is_right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token.encode("latin-1", "replace"))
    if not is_right or kind.lower() != "bearer":
        raise RequestRefused(401, "the token is not this gate's; send its own as: Authorization: Bearer TOKEN")


async def _body(request: "Request") -> bytes:
    """Raises Refused for one that is too long, as soon as that is seen."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and (len(said) > 9 or int(said) > MOST_BYTES):
        raise RequestRefused(413, _TOO_LONG)
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MOST_BYTES:
            raise RequestRefused(413, _TOO_LONG)
    return bytes(found)


_TOO_LONG = f"the body is longer than {MOST_BYTES} bytes; what is submitted goes to the hub by git, and its name here"


async def _health(request: "Request") -> "Response":
    return _said(200, "the queue is open to questions")


async def _elsewhere(request: "Request", wrong: Exception) -> "Response":
    status = getattr(wrong, "status_code", 404)
    asked = f"{request.method} {request.url.path[:100]}"
    if status == 405:
        return _said(405, f"{asked} is not done here; docs/reference/gate_api.md has what is")
    return _said(status, f"there is nothing at {asked}; docs/reference/gate_api.md has what there is")


async def _broken(request: "Request", trouble: Exception) -> "Response":
    log.error("api.broken", path=request.url.path, why=repr(trouble))
    return _said(500, "the queue could not answer that; its log says why")


def _said(status: int, sentence: str) -> "Response":
    return _json(status, {"said": sentence})


def _json(status: int, body: object) -> "Response":
    from starlette.responses import Response

    headers = {"cache-control": "no-store"} | ({"www-authenticate": "Bearer"} if status == 401 else {})
    return Response(json.dumps(body) + "\n", status, headers, "application/json")
