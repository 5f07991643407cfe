"""One round of the bot: ready changes of the forge enter the queue, and the forge learns how its entries stand."""

import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.merge_queue.bot.admission import Admission, Door, Enters, Later, Stays
from forgepool.orchestrator.merge_queue.bot.intake import (
    Explain,
    Given,
    KnownEntry,
    Memory,
    NoteLanded,
    StatusReport,
    Step,
    Submit,
    Withdraw,
    steps,
)
from forgepool.orchestrator.merge_queue.forges.protocol import Forge, ForgeAway, ForgeRefused, PullRequest
from forgepool.orchestrator.merge_queue.submit import Wish, push_submission
from forgepool.orchestrator.reports.queue_board import QueueView
from forgepool.orchestrator.reports.queue_status import EntryStanding, explain_task, standings
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.workspace.refs import submission_ref
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import MissingCommit

_MOST_OF_A_COMMENT = 20_000
BY_A_PERSON = "it was withdrawn; push another commit, or run: forgepool queue retry"

OF_ONE_CHANGE = (ForgeRefused, GitFailed, MissingCommit, CannotRun)
"""Exceptions that concern one change and no other."""


def entries_of(
    state: RunState, given: Mapping[int, Given], now: float, contains: Callable[[str, str], bool]
) -> dict[int, KnownEntry]:
    """
    Return the newest entry of each change, by number. `contains` tells whether a commit has another in its history.
    """
    stands = {entry_name(stand.entry): stand for stand in standings(state, now)}
    return {
        number: _entry(state, number, one, stands[one.name], contains)
        for number, one in given.items()
        if one.name in state.submitted
    }


def _entry(
    state: RunState, number: int, one: Given, stand: EntryStanding, contains: Callable[[str, str], bool]
) -> KnownEntry:
    task, head = state.tasks[one.name], stand.commit
    entry = KnownEntry(number=number, head=head, standing="returned", said=stand.why)
    match task.phase:
        case "landed":
            return replace(entry, standing="landed", commit=task.commit, contained=contains(task.commit, head))
        case "failed" | "blocked":
            return entry
        case "cancelled":
            return replace(entry, standing="withdrawn") if one.withdrawn else replace(entry, said=BY_A_PERSON)
        case _:
            return replace(entry, standing="waiting", said=_pending(stand))


def _pending(stand: EntryStanding) -> str:
    """Describe a waiting entry without details that change at every landing: forges limit how often they are told."""
    match stand.state, stand.code:
        case "waits", "line":
            return "it is queued"
        case "tested", _:
            return "its checks run"
        case _, "frozen":
            return stand.why
        case "green", _:
            return "its checks passed; it lands with or after the entries ahead of it"
        case _:
            return stand.why


def paragraph(state: RunState, task: TaskState, now: float) -> str:
    """
    Explain a return, as a comment. It quotes output of checks in a code block, so that no mark-up or mention in it
    takes effect.
    """
    said, *commands = explain_task(state, task, now).split("\n")
    # A command must stay on one line.
    text = "\n".join([textwrap.fill(said, 100, break_long_words=False, break_on_hyphens=False), *commands])
    fence = "```"
    while fence in text:
        fence += "`"
    return f"The queue has returned this change.\n\n{fence}text\n{text[:_MOST_OF_A_COMMENT]}\n{fence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """Connects one queue with one forge."""

    forge: Forge
    door: Door
    view: QueueView
    target: str
    memory: Memory
    tell: Callable[[str], None]
    """Called with a sentence on what failed for a change; it is retried in the next round."""

    def round(self) -> None:
        """
        Do one round.

        Raises:
            ForgeRefused, ForgeAway: the forge did not answer.
            GitFailed, JournalUnreadable: the hub or the queue's journal cannot be read.
        """
        entries = self._entries()
        waiting = [number for number, entry in entries.items() if entry.standing == "waiting"]
        ready = self.forge.changes_ready(waiting)
        found = steps(ready, entries, self.memory.told, (self.target,))
        admitted = {step.change.number: self._admission(step.change) for step in found if isinstance(step, Submit)}
        BotRound(bot=self, admitted=admitted).carry_out(found)

    def _entries(self) -> Mapping[int, KnownEntry]:
        given = self.memory.given
        return self.view.look(lambda state: entries_of(state, given, time.time(), self._contains))

    def _contains(self, commit: str, head: str) -> bool:
        """
        Tell whether the target contains the change's commit; an entry already reported as landed is not asked again.
        """
        told = self.memory.told.get(head)
        return (told is not None and told.state == "success") or self.door.contains(commit, head)

    def _admission(self, change: PullRequest) -> Admission:
        try:
            name = self.view.look(lambda state: self.door.name(state, self.memory.given, change.number))
            if name in self.list_requested():
                return Later()
            return self.view.look(lambda state: self.door.admission(state, self.memory.given, change))
        except OF_ONE_CHANGE as trouble:
            self.tell(f"#{change.number}: {trouble}")
            return Later()

    def list_requested(self) -> set[str]:
        """Return entries with a request in the queue's inbox: a new submission could be taken for the one it means."""
        return {one.task for _, one in inbox.waiting(self.view.folder) if one.task is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class BotRound:
    """Carries out the steps of one round."""

    bot: Bot
    admitted: Mapping[int, Admission]
    by_commit: dict[str, Admission] = field(default_factory=dict)
    """Admission of each commit in this round, which replaces its report."""

    def carry_out(self, found: Sequence[Step]) -> None:
        for step, following in zip(found, (*found[1:], None), strict=False):
            try:
                self._do(step, following if isinstance(following, Explain | NoteLanded) else None)
            except OF_ONE_CHANGE as trouble:
                self.bot.tell(f"{_about(step)}: {trouble}")

    def _do(self, step: Step, companion: Explain | NoteLanded | None) -> None:
        match step:
            case Submit(change=change):
                admission = self.by_commit[change.head] = self.admitted[change.number]
                if isinstance(admission, Enters):
                    self.by_commit[change.head] = Later()  # until the hub has it
                    self._submit(change, admission)
                    self.by_commit[change.head] = admission
            case Withdraw(number=number):
                self._withdraw(number)
            case StatusReport():
                self._report(step, companion)
            case Explain() | NoteLanded():
                pass  # sent with its report

    def _submit(self, change: PullRequest, entering: Enters) -> None:
        bot, mirror, head = self.bot, self.bot.door.mirror, CommitId(change.head)
        given = Given(name=entering.name, head=change.head)
        ref = submission_ref(bot.target, entering.name)
        if bot.memory.given.get(change.number) == given and ref in mirror.hub_refs(ref):
            return  # The queue has not looked at it yet.
        wish = Wish(
            what=change.head,
            repo=str(mirror.path),
            hub=mirror.hub,
            target=bot.target,
            name=entering.name,
            needs=entering.needs,
            by=change.author,
        )
        bot.memory.give(change.number, given)
        push_submission(mirror, bot.target, head, entering.name, wish)

    def _withdraw(self, number: int) -> None:
        """Withdraw an entry, unless this round replaces it: a replacement keeps its place."""
        given = self.bot.memory.given[number]
        if isinstance(self.admitted.get(number), Enters) or given.name in self.bot.list_requested():
            return
        self.bot.memory.give(number, given.model_copy(update={"withdrawn": True}))
        inbox.leave(self.bot.view.folder, PersonRequest(do="cancel", task=given.name, by="forge"))

    def _report(self, report: StatusReport, companion: Explain | NoteLanded | None) -> None:
        """
        Report a status and the comment that goes with it, then remember both; a crash in between repeats the status.
        """
        match self.by_commit.get(report.commit):
            case Stays(report=instead):
                report = instead
            case Later():
                return
        if self.bot.memory.told.get(report.commit) == report and companion is None:
            return
        self.bot.forge.report_status(report.commit, report.state, report.summary)
        if companion is not None:
            self._comment(companion, report.commit)
        self.bot.memory.tell(report)

    def _comment(self, said: Explain | NoteLanded, head: str) -> None:
        """Comment once: the memory is written first, and undone only if the forge surely did not accept it."""
        bot = self.bot
        key = f"{said.number} {head} {type(said).__name__} {bot.view.look(lambda state: self._revision(state, said))}"
        if key in bot.memory.commented:
            return
        bot.memory.comment(key)
        try:
            match said:
                case Explain(number=number):
                    bot.forge.comment(number, self._words(said))
                case NoteLanded(number=number, commit=commit, contained=contained):
                    bot.forge.note_landed(number, commit, contained=contained)
        except ForgeAway as away:
            if away.after_s is not None:
                bot.memory.uncomment(key)
                raise
            bot.tell(f"#{said.number}: {away}; its comment is not sent again")

    def _revision(self, state: RunState, said: Explain | NoteLanded) -> str:
        name = self.bot.memory.given[said.number].name
        return f"{name}.{state.submitted[name].revision}"

    def _words(self, said: Explain) -> str:
        name = self.bot.memory.given[said.number].name

        def words(state: RunState) -> str:
            task = state.tasks[name]
            return paragraph(state, task, time.time()) if task.phase in ("failed", "blocked") else said.text

        return self.bot.view.look(words)


def _about(step: Step) -> str:
    match step:
        case Submit(change=change):
            return f"#{change.number}"
        case StatusReport(commit=commit):
            return commit[:12]
        case _:
            return f"#{step.number}"
