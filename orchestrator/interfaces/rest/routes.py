"""The routes below `/api/`: each with its answer, made of the read model, and the type of that answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from forgepool.orchestrator.cli.agents.conversation import find_transcript
from forgepool.orchestrator.interfaces.rest.document import ActionDone, ApiError, ApiRoute, openapi
from forgepool.orchestrator.interfaces.web.access import Visitor
from forgepool.orchestrator.interfaces.web.actions import WORDS, WebAction, Word, act_on, actions_of
from forgepool.orchestrator.interfaces.web.desk import WebDesk, slow_turn
from forgepool.orchestrator.interfaces.web.diff import change_of, diff_of
from forgepool.orchestrator.interfaces.web.parts import HostsBody, hosts_of
from forgepool.orchestrator.journal.store import JournalUnreadable, Recorded, read
from forgepool.orchestrator.merge_queue.http_desk import BadBody, JsonBody, RequestRefused, read_body
from forgepool.orchestrator.merge_queue.http_server import MOST_BYTES, read_whole_body
from forgepool.orchestrator.reports.attention import AttentionRow
from forgepool.orchestrator.reports.costs import MoneyReport, report_money
from forgepool.orchestrator.reports.home import RunLook, RunSummary
from forgepool.orchestrator.reports.proof.bundle import ProofBundle
from forgepool.orchestrator.reports.proof.files import make_bundle
from forgepool.orchestrator.reports.queue_board import Board, public_board
from forgepool.orchestrator.reports.status import Standing, standing
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun, NoSuchRun
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.context.transcript.entries import Entry, TranscriptWrong

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

T = TypeVar("T")
MOST_LINES = 1000
"""Events, or entries of a transcript, in one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDiff:
    """The change of a task against the commit that it began from."""

    commit: str
    """Empty where there is no change yet."""
    lines: tuple[str, ...]
    is_cut: bool
    trouble: str
    """The reason why it cannot be shown; empty where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCopy:
    """The files that a copy of a run has beside its events."""

    options: str
    plans: dict[str, str]
    """By file name, the plan it began with and those that a person gave it since."""


class ActionBody(JsonBody):
    """A word of the command line, as a page's form has it. `GET` on the same path lists those that can be given now."""

    do: Word
    task: str = ""
    candidate: str = ""
    """The commit that the person has seen: the one that `GET` lists with the action."""
    text: str = ""
    by: str = ""


def list_attention(desk: WebDesk, request: "Request") -> Sequence[AttentionRow]:
    return desk.home.attention()


def list_runs(desk: WebDesk, request: "Request") -> Sequence[RunSummary]:
    return desk.home.summaries()


def show_hosts(desk: WebDesk, request: "Request") -> HostsBody:
    return hosts_of(desk.home)


def show_run(desk: WebDesk, request: "Request") -> RunSummary:
    return desk.home.summary(request.path_params["run"])


def show_status(desk: WebDesk, request: "Request") -> Standing:
    def make(look: RunLook) -> Standing:
        _require_run(look.kept)
        return standing(look.course, look.state, now=look.alive.now, live=look.alive.live)

    return _look(desk, request, make)


def show_queue(desk: WebDesk, request: "Request") -> Board:
    def make(look: RunLook) -> Board:
        if not look.kept.options.gate:
            raise RequestRefused(404, f"{look.kept.options.run} is a run and no queue; ask for its /status")
        return public_board(look.state, look.alive.now, look.kept.options.trials, {})

    return _look(desk, request, make)


def show_money(desk: WebDesk, request: "Request") -> MoneyReport:
    return _look(desk, request, lambda look: report_money(look.state, look.course.ledger(look.state)))


def show_report(desk: WebDesk, request: "Request") -> ProofBundle:
    kept = _look(desk, request, lambda look: look.kept)
    _require_run(kept)
    state, recorded = kept.replay()
    return make_bundle(kept, state, recorded, desk.home.settings)


def list_events(desk: WebDesk, request: "Request") -> Sequence[Recorded]:
    folder = desk.home.folder(request.path_params["run"])
    return list(islice(read(folder, after=_number(request, "after")), MOST_LINES))


def copy_plans(desk: WebDesk, request: "Request") -> RunCopy:
    folder = desk.home.folder(request.path_params["run"])
    try:
        plans = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("plan*.json"))}
        return RunCopy(options=(folder / "options.json").read_text(encoding="utf-8"), plans=plans)
    except OSError as gone:
        raise JournalUnreadable(f"{folder.name} cannot be read: {gone.strerror}") from gone


def list_actions(desk: WebDesk, request: "Request") -> Sequence[WebAction]:
    name = request.query_params.get("task", "")
    return _look(desk, request, lambda look: actions_of(look, find_task(look, name) if name else None))


def list_transcript(desk: WebDesk, request: "Request") -> Sequence[Entry]:
    def make(look: RunLook) -> tuple[KeptRun, str]:
        return look.kept, find_task(look, request.path_params["task"]).id

    kept, task = _look(desk, request, make)
    try:
        source = find_transcript(kept, task, _number(request, "attempt") or None)
        after = _number(request, "after")
        return source.entries(source.read())[after : after + MOST_LINES]
    except (CannotRun, TranscriptWrong) as missing:
        raise RequestRefused(404, str(missing)) from missing


def show_diff(desk: WebDesk, request: "Request") -> TaskDiff:
    def make(look: RunLook) -> tuple[str, str, str, str]:
        return change_of(look.state, find_task(look, request.path_params["task"]))

    change = _look(desk, request, make)
    shown = diff_of(desk.home.settings, *change)
    lines = tuple(line for _, line in shown.lines)
    return TaskDiff(commit=change[2], lines=lines, is_cut=shown.is_cut, trouble=shown.trouble)


def find_task(look: RunLook, name: str) -> TaskState:
    """Return a task, or an entry. Raises RequestRefused."""
    task = look.state.tasks.get(name)
    if task is None or task.id not in look.course.tasks:
        raise RequestRefused(404, f"run {look.kept.options.run} has no task '{name[:100]}'")
    return task


def _look(desk: WebDesk, request: "Request", make: Callable[[RunLook], T]) -> T:
    return desk.home.view(request.path_params["run"]).look(make)


def _require_run(kept: KeptRun) -> None:
    if kept.options.gate:
        raise RequestRefused(404, f"{kept.options.run} is a queue; ask for its /queue")


def _number(request: "Request", name: str) -> int:
    given = request.query_params.get(name, "0")
    if not (given.isascii() and given.isdecimal() and len(given) < 16):
        raise RequestRefused(400, f"'{name}' is no number; give one, such as {name}=1")
    return int(given)


_AFTER = {"after": f"The number of the last one that you have; at most {MOST_LINES} later ones are answered."}
_TASK = {"task": "A task of the run; without it, the actions on the whole run or queue are listed."}
ROUTES = (
    ApiRoute("/attention", list_attention, list[AttentionRow], "List everything that needs a person"),
    ApiRoute("/runs", list_runs, list[RunSummary], "List all runs and queues, the latest first"),
    ApiRoute("/hosts", show_hosts, HostsBody, "List the hosts", is_slow=True),
    ApiRoute("/runs/{run}", show_run, RunSummary, "Show one run or queue as the list has it"),
    ApiRoute("/runs/{run}/status", show_status, Standing, "Show how a run and each of its tasks stand"),
    ApiRoute("/runs/{run}/queue", show_queue, Board, "Show a merge queue and its entries"),
    ApiRoute("/runs/{run}/money", show_money, MoneyReport, "Show what a run used, by task and by model"),
    ApiRoute("/runs/{run}/report", show_report, ProofBundle, "Return the proof bundle of a run", is_slow=True),
    ApiRoute("/runs/{run}/events", list_events, list[Recorded], "List events of the journal", query=_AFTER),
    ApiRoute("/runs/{run}/plans", copy_plans, RunCopy, "Return the plans and options of a run, to copy it"),
    ApiRoute("/runs/{run}/actions", list_actions, list[WebAction], "List what a person can do now", query=_TASK),
    ApiRoute(
        "/runs/{run}/tasks/{task}/transcript",
        list_transcript,
        list[Entry],
        "List the stored entries of an agent's conversation",
        query={**_AFTER, "attempt": "One attempt; default: the latest with a transcript."},
        is_slow=True,
    ),
    ApiRoute("/runs/{run}/tasks/{task}/diff", show_diff, TaskDiff, "Show the change of a task", is_slow=True),
)


def api_routes(desk: WebDesk) -> "list[Route]":
    """Return the routes of the application, the document among them."""
    from starlette.routing import Route

    document = openapi(ROUTES, ActionBody, f"One of: {', '.join(WORDS)}.")

    async def describe(request: "Request") -> "Response":
        return _answer(200, document)

    async def act(request: "Request") -> "Response":
        from starlette.concurrency import run_in_threadpool

        try:
            body = read_body(ActionBody, await read_whole_body(request))
        except BadBody as wrong:
            raise RequestRefused(400, str(wrong)) from wrong
        except RequestRefused as refused:
            raise RequestRefused(413, f"the body is longer than {MOST_BYTES:,} bytes; shorten its text") from refused
        try:
            said = await run_in_threadpool(act_on, desk.home, request.path_params["run"], body.model_dump())
        except CannotRun as unable:
            raise RequestRefused(409, str(unable)) from unable
        return _answer(200, ActionDone(said=said))

    shown = [Route(f"/api{one.path}", _guarded(desk, _shown(desk, one)), methods=["GET"]) for one in ROUTES]
    return [
        Route("/api/openapi.json", _guarded(desk, describe), methods=["GET"]),
        Route("/api/runs/{run}/actions", _guarded(desk, act, acts=True), methods=["POST"]),
        *shown,
    ]


Endpoint = Callable[["Request"], Awaitable["Response"]]


def _shown(desk: WebDesk, route: ApiRoute) -> Endpoint:
    async def show(request: "Request") -> "Response":
        if not route.is_slow:
            return await asyncio.to_thread(_made, desk, route, request)
        async with slow_turn(desk):
            return await asyncio.to_thread(_made, desk, route, request)

    return show


def _made(desk: WebDesk, route: ApiRoute, request: "Request") -> "Response":
    return _answer(200, route.make(desk, request), route.adapter)


def _guarded(desk: WebDesk, answer: Endpoint, *, acts: bool = False) -> Endpoint:
    """Return the endpoint for holders of a token alone, which answers every trouble with one sentence."""

    async def guard(request: "Request") -> "Response":
        try:
            given = request.headers.get("authorization", "")
            _check(desk.access.visitor("", given), acts, is_given=bool(given))
            return await answer(request)
        except RequestRefused as refused:
            return _answer(refused.status, ApiError(error=str(refused)))
        except NoSuchRun as missing:
            return _answer(404, ApiError(error=str(missing)))
        except (JournalUnreadable, CannotRun) as unread:
            return _answer(503, ApiError(error=str(unread)))

    return guard


def _check(visitor: Visitor | None, acts: bool, *, is_given: bool) -> None:
    if visitor is None:
        what = "this server does not know the token" if is_given else "a token is needed"
        raise RequestRefused(401, f"{what}; `forgepool serve --tokens` prints it")
    if acts and visitor.role != "operator":
        raise RequestRefused(403, "a viewer's token only looks; send the operator's")


def api_error(status: int, sentence: str) -> "Response":
    """Return an answer that says what is wrong."""
    return _answer(status, ApiError(error=sentence))


def _answer(status: int, value: object, adapter: TypeAdapter[Any] | None = None) -> "Response":
    from starlette.responses import Response

    body = (adapter or TypeAdapter[Any](type(value))).dump_json(value, warnings=False, by_alias=True)
    return Response(body, status, media_type="application/json")
