"""One turn of a session: follow a run, show what it does, and ask the person about its candidates."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from acp.helpers import text_block, tool_content, update_agent_message_text, update_plan, update_tool_call
from acp.interfaces import Client
from acp.schema import AllowedOutcome, PermissionOption, PlanEntry, StopReason, ToolCallUpdate

from forgepool.orchestrator.cli.app import sentence_and_status
from forgepool.orchestrator.interfaces.acp.picture import RunPicture, describe_rows, how_to_answer, take_picture
from forgepool.orchestrator.interfaces.clients.detached import RunLauncher
from forgepool.orchestrator.interfaces.clients.results import PAGE, clean, shorten
from forgepool.orchestrator.interfaces.clients.words import say_word
from forgepool.orchestrator.interfaces.web.actions import Word
from forgepool.orchestrator.interfaces.web.diff import change_of, diff_of
from forgepool.orchestrator.reports.home import HomeView
from forgepool.orchestrator.run import run_folder
from forgepool.worktrees.errors import cut_long_words

_LOOK_S = 0.3
_STOPS_WITHIN_S = 20.0
_APPROVE = PermissionOption(option_id="approve", name="Approve this commit", kind="allow_once")
_REJECT = PermissionOption(option_id="reject", name="Reject", kind="reject_once")
_REJECTED = "A person read the change in the editor and rejected it, without further words."


@dataclass(slots=True, kw_only=True)
class EditorTurn:
    client: Client
    session: str
    home: HomeView
    launcher: RunLauncher
    may_approve: bool
    person: str
    """The name that is kept with what the person decides."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    _questions: set[str] = field(default_factory=set)

    async def tell(self, text: str) -> None:
        if text:
            await self.client.session_update(
                session_id=self.session, update=update_agent_message_text(f"{text.rstrip()}\n\n")
            )

    async def show(self, run: str, after: int = 0) -> RunPicture:
        """Show a run as it stands, with what happened after an event."""
        picture = await self.look(run, after)
        await self._show_plan(picture.entries)
        await self.tell("\n\n".join(picture.happened))
        return picture

    async def follow(self, run: str, after: int = 0) -> StopReason:
        """Show the run as it goes on, until no process runs it, or the person stops the turn."""
        asks: dict[tuple[str, str], asyncio.Task[None]] = {}
        shown: tuple[PlanEntry, ...] = ()
        try:
            while True:
                # Before the look: an answer that resumed the run must be seen by it.
                is_asked = all(ask.done() for ask in asks.values())
                picture = await self.look(run, after)
                after = picture.number
                if picture.entries != shown:
                    shown = picture.entries
                    await self._show_plan(shown)
                await self.tell("\n\n".join(picture.happened))
                await self._tell_questions(picture)
                for task, commit in picture.candidates.items() if self.may_approve else ():
                    if (task, commit) not in asks:
                        asks[task, commit] = asyncio.create_task(self._ask_about(run, task, commit))
                        is_asked = False
                if self.cancelled.is_set():
                    return await self._stop(run, after)
                if not picture.live and is_asked:
                    await self.tell(f"{picture.ending}\n{describe_rows(picture)}")
                    return "end_turn"
                await self._wait(_LOOK_S)
        finally:
            for ask in asks.values():
                ask.cancel()

    async def say(self, run: str, do: Word, task: str = "", text: str = "", seen: str = "") -> None:
        """Leave a word about the run, and tell what follows. Raises what the command line does."""
        kept = run_folder.find(self.home.settings, run)
        word = partial(say_word, self.home, self.launcher, kept, do, task, text=text, by=self.person, seen=seen)
        left = await asyncio.to_thread(word)
        # Its advice how to continue is for a terminal; here the run is continued.
        await self.tell(clean(left.trouble or left.said.partition(" The run goes on with:")[0]))

    async def ask(self, call: ToolCallUpdate, *options: PermissionOption) -> str:
        """Return the option that the person chose; nothing where the turn was stopped, or no answer came."""
        asking = asyncio.ensure_future(
            self.client.request_permission(session_id=self.session, tool_call=call, options=list(options))
        )
        stopped = asyncio.ensure_future(self.cancelled.wait())
        try:
            await asyncio.wait({asking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            outcome = asking.result().outcome if asking.done() else None
            return outcome.option_id if isinstance(outcome, AllowedOutcome) else ""
        finally:
            asking.cancel()
            stopped.cancel()

    async def _ask_about(self, run: str, task: str, commit: str) -> None:
        """Ask whether a candidate may land; the answer holds for the commit that was shown."""
        call, said = f"{run}:{task}:{commit[:12]}", f"Let {task} land at {commit[:12]}?"
        try:
            diff = await asyncio.to_thread(self._diff, run, task, commit)
            shown = ToolCallUpdate(
                tool_call_id=call, title=said, kind="edit", status="pending", content=[tool_content(text_block(diff))]
            )
            chosen = await self.ask(shown, _APPROVE, _REJECT)
            if chosen == "approve":
                await self.say(run, "approve", task, seen=commit)
            elif chosen == "reject":
                await self.say(run, "reject", task, text=_REJECTED, seen=commit)
            done = update_tool_call(call, status="completed" if chosen == "approve" else "failed")
            await self.client.session_update(session_id=self.session, update=done)
        except Exception as failure:
            await self.tell(sentence_of(failure))

    def _diff(self, run: str, task: str, commit: str) -> str:
        hub, base, now, ref = self.home.view(run).look(lambda look: change_of(look.state, look.state.tasks[task]))
        if now != commit:
            return f"'{task}' has another candidate by now."
        found = diff_of(self.home.settings, hub, base, commit, ref)
        text = clean("\n".join(line for _, line in found.lines))
        more = f"\nThe diff goes on: git diff {base[:12]}...{commit[:12]}" if len(text) > PAGE or found.is_cut else ""
        return found.trouble or f"````diff\n{shorten(text, PAGE)}\n````{more}"

    async def look(self, run: str, after: int) -> RunPicture:
        return await asyncio.to_thread(self.home.view(run).look, partial(take_picture, after=after))

    async def _show_plan(self, entries: tuple[PlanEntry, ...]) -> None:
        await self.client.session_update(session_id=self.session, update=update_plan(entries))

    async def _tell_questions(self, picture: RunPicture) -> None:
        """Tell the questions of a run that goes on meanwhile; at its end they are told with the rest."""
        new = {task: text for task, text in picture.questions.items() if f"{task}:{text}" not in self._questions}
        self._questions |= {f"{task}:{text}" for task, text in new.items()}
        if new and picture.live:
            asked = "\n".join(f"- {task} asks: {text}" for task, text in new.items())
            await self.tell(f"{asked}\n{how_to_answer(picture)}")

    async def _stop(self, run: str, after: int) -> StopReason:
        """Stop the run's process as Ctrl-C does; tell how to continue."""
        self.launcher.stop(run)
        for _ in range(int(_STOPS_WITHIN_S / _LOOK_S)):
            if not (picture := await self.look(run, after)).live:
                break
            await asyncio.sleep(_LOOK_S)
        await self._show_plan(picture.entries)
        await self.tell(f"{picture.ending} Nothing that was finished is lost. `/continue` continues the run.")
        return "cancelled"

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.cancelled.wait()
        except TimeoutError:
            pass


def sentence_of(failure: Exception) -> str:
    """Return the command line's sentence about a failure. Call it while the exception is handled."""
    return clean(cut_long_words(sentence_and_status(failure)[0]))[:4000]
