"""
Runs as tasks, by MCP's Tasks extension (SEP-2663), for clients that declare it.

`run_plan` then answers with a task, whose id is the run's name. `tasks/get` makes it of the journal each time, so it
outlives the client and the server. A run that needs its person wants input, and `tasks/update` answers the questions of
its agents. A client without the extension gets the run's name as before.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar

from anyio.to_thread import run_sync
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.server import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, ElicitResult, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from forgepool.orchestrator.interfaces.clients.results import clean, shorten
from forgepool.orchestrator.interfaces.mcp.mcp_server import result_of
from forgepool.orchestrator.interfaces.mcp.run_tools import RunTools, describe_status, name_in
from forgepool.orchestrator.reports.attention import attention
from forgepool.orchestrator.reports.home import RunLook
from forgepool.worktrees.errors import UserError

T = TypeVar("T")
TASKS = "io.modelcontextprotocol/tasks"
_POLL_MS = 1000
_MOST_QUESTION = 4000
_Context = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str = Field(alias="taskId")


class TaskInput(TaskParams):
    """The parameters of `tasks/update`: answers by the keys of their questions."""

    input_responses: dict[str, ElicitResult] = Field(alias="inputResponses")


class RunTasks(Extension):
    """Makes tasks of runs, and answers about them."""

    identifier = TASKS

    def __init__(self, runs: RunTools) -> None:
        self._runs = runs

    def methods(self) -> Sequence[MethodBinding]:
        modern = frozenset(MODERN_PROTOCOL_VERSIONS)
        return (
            MethodBinding("tasks/get", TaskParams, self._get, modern),
            MethodBinding("tasks/update", TaskInput, self._update, modern),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, modern),
        )

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: _Context, call_next: CallNext
    ) -> HandlerResult:
        result = await call_next(ctx)
        capabilities = ctx.session.client_capabilities
        if params.name != "run_plan" or capabilities is None or TASKS not in (capabilities.extensions or {}):
            return result
        if not isinstance(result, CallToolResult) or result.is_error or result.structured_content is None:
            return result
        # It may still be checking this machine, and has no journal then.
        now = datetime.now(UTC).isoformat()
        about = {"taskId": result.structured_content["run"], "status": "working", "createdAt": now}
        return {**about, "lastUpdatedAt": now, "ttlMs": None, "pollIntervalMs": _POLL_MS, "resultType": "task"}

    async def _get(self, ctx: _Context, params: TaskParams) -> HandlerResult:
        require_client_extension(ctx, TASKS)
        return await _answered(lambda: self._runs.look_at(params.task_id, describe_task))

    async def _update(self, ctx: _Context, params: TaskInput) -> HandlerResult:
        """Give the answers to questions that are still open. Others come too late, and are passed over."""
        require_client_extension(ctx, TASKS)
        by = name_in(ctx.session.client_params)

        def give() -> dict[str, Any]:
            open_questions = self._runs.look_at(params.task_id, find_questions)
            for key, response in params.input_responses.items():
                text = (response.content or {}).get("answer")
                if response.action == "accept" and key in open_questions and isinstance(text, str):
                    self._runs.give_answer(params.task_id, open_questions[key][0], text, by=by)
            return {"resultType": "complete"}

        return await _answered(give)

    async def _cancel(self, ctx: _Context, params: TaskParams) -> HandlerResult:
        require_client_extension(ctx, TASKS)
        by = name_in(ctx.session.client_params)
        await _answered(lambda: self._runs.cancel_run(params.task_id, by=by))
        return {"resultType": "complete"}


async def _answered(work: Callable[[], T]) -> T:
    """Do the work on another thread. Raises MCPError with the command line's sentence."""
    try:
        return await run_sync(work)
    except UserError as wrong:
        raise MCPError(code=INVALID_PARAMS, message=clean(str(wrong))) from wrong


def find_questions(look: RunLook) -> dict[str, tuple[str, str]]:
    """Return the task and the text of each open question, by a key that no later question of the task has."""
    found = {}
    for task in look.state.in_phase("needs_human"):
        if task.question and any(row.task == task.id and row.cause == "question" for row in _rows(look)):
            key = sha256(f"{task.id} {task.attempt} {task.question}".encode()).hexdigest()[:16]
            found[key] = (task.id, task.question)
    return found


def describe_task(look: RunLook) -> dict[str, Any]:
    """
    Return the run as the extension's task: `working`, `input_required`, `completed` or `cancelled`.

    A run that has ended with an open question requires input, because the answer makes it go on.
    """
    state = look.state
    task = {
        "resultType": "complete",
        "taskId": state.run,
        "createdAt": datetime.fromtimestamp(look.began, UTC).isoformat(),
        "lastUpdatedAt": datetime.fromtimestamp(state.at, UTC).isoformat(),
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
    }
    questions = find_questions(look)
    if state.finished and not look.alive.live and not questions:
        if all(one.phase == "cancelled" for one in state.tasks.values()):
            return {**task, "status": "cancelled"}
        result = result_of(describe_status(look)).model_dump(by_alias=True, exclude_none=True, mode="json")
        return {**task, "status": "completed", "result": result}
    rows = _rows(look)
    if not questions and not (rows and not look.alive.live):
        return {**task, "status": "working"}
    said = f"{rows[0].sentence}; {rows[0].command}" if rows else ""
    return {
        **task,
        "status": "input_required",
        "statusMessage": clean(shorten(said, 500)),
        "inputRequests": {key: _elicit(f"{name} asks: {text}") for key, (name, text) in questions.items()},
    }


def _rows(look: RunLook) -> list[Any]:
    return list(attention(look.course, look.state, look.alive))


def _elicit(message: str) -> dict[str, Any]:
    """Return the request for one text."""
    form = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    asked = {"mode": "form", "message": clean(shorten(message, _MOST_QUESTION)), "requestedSchema": form}
    return {"method": "elicitation/create", "params": asked}
