"""
The agent as an editor sees it: sessions, prompts, and the words that a person can say about a run.

This module needs the extra `acp`, and is imported after that was looked for.
"""

import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from acp import PROTOCOL_VERSION, RequestError
from acp.helpers import update_available_commands
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    AvailableCommand,
    ClientCapabilities,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptCapabilities,
    PromptResponse,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
    StopReason,
    ToolCallUpdate,
)

from forgepool.orchestrator.cli.output.say import printable
from forgepool.orchestrator.cli.run.check import describe_plan, find_problems
from forgepool.orchestrator.interfaces.acp.picture import describe_rows, how_to_answer, preview_text
from forgepool.orchestrator.interfaces.acp.prompts import Block, find_plan, prompt_text
from forgepool.orchestrator.interfaces.acp.turn import EditorTurn, sentence_of
from forgepool.orchestrator.interfaces.clients.detached import RunLauncher
from forgepool.orchestrator.interfaces.clients.plans import plan_file, refuse_leave, why_ask
from forgepool.orchestrator.interfaces.clients.results import clean, shorten
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.reports.home import HomeView, RunSummary
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun, open_hub, read_plan
from forgepool.workers.schema.settings import Settings

_WANTED = (
    "This agent runs plans: name a plan file in the prompt, link it, or write the plan itself as YAML "
    "(`forgepool schema` describes it)."
)
_COMMANDS = (
    AvailableCommand(name="status", description="Show how the run stands, and follow it"),
    AvailableCommand(name="continue", description="Continue a run that was stopped"),
    AvailableCommand(name="retry", description="Retry a task: /retry TASK"),
    AvailableCommand(name="cancel", description="Cancel the run for good, or one task: /cancel TASK"),
)
_KNOWN = [f"/{command.name}" for command in _COMMANDS]
_PREFIX = "acp"
"""Beginning of the names of sessions, and so of their runs."""
_MOST_LISTED = 100


@dataclass(slots=True, kw_only=True)
class EditorSession:
    folder: Path
    """The editor's working folder: its repository has the target, and paths in prompts are relative to it."""
    turn: EditorTurn | None = None
    """The turn that goes on now."""


class ForgepoolAgent:
    """Answers one editor. Its methods are the protocol's."""

    def __init__(self, settings: Settings, *, may_approve: bool, ask_above_usd: float) -> None:
        self._home, self._launcher = HomeView(settings), RunLauncher(settings, "acp")
        self._settings, self._may_approve, self._ask_above_usd = settings, may_approve, ask_above_usd
        self._sessions: dict[str, EditorSession] = {}
        self._editor = "unnamed editor"
        self._client: Client | None = None

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **kwargs: object,
    ) -> InitializeResponse:
        if client_info is not None:
            self._editor = shorten(printable(clean(client_info.name)).strip(), 80) or self._editor
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="forgepool", title="Forgepool", version=version("forgepool")),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(embedded_context=True),
                session_capabilities=SessionCapabilities(list=SessionListCapabilities()),
            ),
        )

    async def new_session(self, cwd: str, **kwargs: object) -> NewSessionResponse:
        session = run_folder.new_run_id(_PREFIX)
        self._sessions[session] = EditorSession(folder=Path(cwd))
        return NewSessionResponse(session_id=session)

    async def load_session(self, cwd: str, session_id: str, **kwargs: object) -> LoadSessionResponse:
        """Show a session's run as its journal has it. A session that never started a run is empty."""
        run = self._run_of(session_id)
        # It becomes the name of a run, and of files: an id such as acp-/../x must not leave the home.
        if run is None and not (session_id.startswith(f"{_PREFIX}-") and run_folder.is_run_name(session_id)):
            raise _refuse(f"there is no run '{session_id[:80]}'; `forgepool runs` lists them")
        self._sessions[session_id] = EditorSession(folder=Path(cwd))
        if run is not None:
            turn = self._begin_turn(session_id)
            try:
                picture = await turn.show(run)
            except Exception as failure:
                raise _refuse(sentence_of(failure)) from failure
            following = "\n`/status` follows it." if picture.live else ""
            await turn.tell(f"{picture.ending}\n{describe_rows(picture)}{following}")
        return LoadSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: object
    ) -> ListSessionsResponse:
        """Return the runs of plans whose repository is on this machine, the latest first."""
        summaries = await asyncio.to_thread(self._home.summaries)
        runs = [one for one in summaries if not one.gate and one.hub.startswith("/")]
        if cwd is not None:
            runs = [one for one in runs if Path(cwd).is_relative_to(_worktree(one.hub))]
        return ListSessionsResponse(sessions=[_info(one) for one in runs[:_MOST_LISTED]])

    async def prompt(self, prompt: list[Block], session_id: str, **kwargs: object) -> PromptResponse:
        session = self._sessions.get(session_id)
        if session is None:
            raise _refuse(f"session '{session_id[:80]}' is not open; load it first")
        if session.turn is not None:
            raise _refuse("a turn of this session goes on; stop it, or wait for its end")
        turn = session.turn = self._begin_turn(session_id)
        try:
            return PromptResponse(stop_reason=await self._answer(turn, session, prompt))
        except Exception as failure:
            await turn.tell(sentence_of(failure))
            return PromptResponse(stop_reason="end_turn")
        finally:
            session.turn = None

    async def cancel(self, session_id: str, **kwargs: object) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.turn is not None:
            session.turn.cancelled.set()

    def _begin_turn(self, session_id: str) -> EditorTurn:
        assert self._client is not None, "the connection comes first"
        return EditorTurn(
            client=self._client,
            session=session_id,
            home=self._home,
            launcher=self._launcher,
            may_approve=self._may_approve,
            person=f"the person at {self._editor} (ACP)",
        )

    def _run_of(self, session_id: str) -> str | None:
        """Return the session's latest run: of the session's own name, or of that name and a number."""
        names = self._home.names()
        run = next((name for name in names if name == session_id or name.startswith(f"{session_id}.")), None)
        return None if run is None or run_folder.open_run(self._settings, run).options.gate else run

    async def _answer(self, turn: EditorTurn, session: EditorSession, prompt: Sequence[Block]) -> StopReason:
        run, text = self._run_of(turn.session), prompt_text(prompt)
        now = None if run is None else await turn.look(run, after=sys.maxsize)
        answers = now is not None and bool(now.questions)
        plan = None if _command(text) in _KNOWN else find_plan(prompt, session.folder, answers=answers)
        if plan is not None:
            if now is not None and now.live:
                raise CannotRun(f"run {run} of this session goes on; stop it, or give the plan to a new session")
            return await self._start(turn, session, plan, run)
        if run is None:
            await turn.tell(_WANTED)
            return "end_turn"
        update = update_available_commands(_COMMANDS)
        await turn.client.session_update(session_id=turn.session, update=update)
        return await self._say(turn, run, text)

    async def _start(self, turn: EditorTurn, session: EditorSession, plan: str, earlier: str | None) -> StopReason:
        """Check and preview the plan, then start its run and follow it."""
        name = turn.session if earlier is None else _next_name(turn.session, earlier)
        repo = str(session.folder)
        with plan_file(plan, self._settings) as path:
            hub = await asyncio.to_thread(open_hub, repo, self._settings)
            read = await asyncio.to_thread(read_plan, path, hub)
            if not self._may_approve:
                refuse_leave(read)
            problems = await asyncio.to_thread(find_problems, read, hub, self._settings, path.parent)
            await turn.tell(preview_text(await asyncio.to_thread(describe_plan, read, hub, problems)))
            if problems:
                raise CannotRun("; ".join(problems))
            options = await self._agree_to_cost(turn, read)
            if options is None:
                await turn.tell("The cost was not agreed to, so nothing was started.")
                return "cancelled" if turn.cancelled.is_set() else "end_turn"
            if turn.cancelled.is_set():
                return "cancelled"
            begun = await asyncio.to_thread(self._launcher.begin, name, path, read, repo, *options)
        if not begun:
            raise CannotRun(f"run {name} still checks its plan and this machine; `/status` follows it")
        return await turn.follow(name)

    async def _agree_to_cost(self, turn: EditorTurn, plan: Plan) -> tuple[str, ...] | None:
        """Return the options of a run whose cost the person agrees to; None where they do not."""
        why = why_ask(plan, self._ask_above_usd)
        if why is None:
            return ()
        cap = plan.budget.usd or self._ask_above_usd
        start = PermissionOption(option_id="start", name=f"Start it, at most {cap:g} USD", kind="allow_once")
        leave = PermissionOption(option_id="leave", name="Do not start it", kind="reject_once")
        call = ToolCallUpdate(tool_call_id=f"{turn.session}:cost", title=why, kind="other", status="pending")
        return ("--budget-usd", f"{cap}") if await turn.ask(call, start, leave) == "start" else None

    async def _say(self, turn: EditorTurn, run: str, text: str) -> StopReason:
        """Take the prompt for a command, or for the answer to a question; then follow the run."""
        picture = await turn.show(run, after=sys.maxsize)
        match word := _command(text):
            case "/status":
                pass
            case "/continue":
                if picture.finished:
                    raise CannotRun(f"{picture.ending} There is nothing to continue; `/retry TASK` retries a task.")
            case "/retry":
                await turn.say(run, "retry", text.removeprefix(word).strip())
            case "/cancel":
                await turn.say(run, "cancel", text.removeprefix(word).strip())
            case "" if picture.questions and text:
                await turn.say(run, "answer", *_answered(picture.questions, text, how_to_answer(picture)))
            case "":
                raise CannotRun(f"{picture.ending} {_WANTED}")
            case _:
                raise CannotRun(f"there is no command '{clean(word)[:40]}'; commands are: {', '.join(_KNOWN)}")
        state = await turn.show(run, after=picture.number)
        if word not in ("/status", "/cancel") and not state.live and not state.finished:
            await asyncio.to_thread(self._launcher.resume, run, after=state.number)
        return await turn.follow(run, after=state.number)


def _command(text: str) -> str:
    """Return the command with which a prompt begins; empty without one, as where it begins with a path."""
    word = next(iter(text.split(maxsplit=1)), "")
    return word if re.fullmatch(r"/[\w-]+", word) else ""


def _answered(questions: dict[str, str], text: str, how: str) -> tuple[str, str]:
    """Return the task and the answer. Raises CannotRun where it is not clear which task it is for."""
    task, colon, answer = text.partition(":")
    if colon and task.strip() in questions:
        return task.strip(), answer.strip()
    if len(questions) > 1:
        raise CannotRun(f"there are questions of {', '.join(questions)}. {how}")
    return next(iter(questions)), text


def _next_name(session: str, earlier: str) -> str:
    number = earlier.removeprefix(f"{session}.")
    return f"{session}.{int(number) + 1 if number.isdecimal() else 2}"


def _worktree(hub: str) -> Path:
    return Path(hub).parent if Path(hub).name == ".git" else Path(hub)


def _info(run: RunSummary) -> SessionInfo:
    title = f"{run.plan}: {run.outcome}, {run.done} of {run.total} done"
    at = datetime.fromtimestamp(run.at, UTC).isoformat()
    return SessionInfo(session_id=run.run, cwd=str(_worktree(run.hub)), title=clean(title), updated_at=at)


def _refuse(sentence: str) -> RequestError:
    return RequestError(-32602, sentence)
