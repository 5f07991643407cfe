"""One round of the bot: what the forge has ready, what the gate makes of it, and what either is told of the other."""

import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
from forgepool.orchestrator.merge_queue.submit import Wish, hand_in
from forgepool.orchestrator.reports.queue_board import QueueView
from forgepool.orchestrator.reports.queue_status import EntryStanding, explain_task, standings
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.workspace.refs import submission_ref
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import MissingCommit

BY_A_PERSON = "it was withdrawn; another commit enters again, and so does: forgepool queue retry"


def entries_of(
    state: RunState, given: Mapping[int, Given], now: float, contains: Callable[[str, str], bool]
) -> dict[int, KnownEntry]:
    """By number, the newest entry of each change; `contains` says whether a commit has another in its history."""
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
    match task.phase:
        case "landed":
            inside = contains(task.commit, head)
            return KnownEntry(
                number=number, head=head, standing="landed", said=stand.why, commit=task.commit, contained=inside
            )
        case "failed" | "blocked":
            return KnownEntry(number=number, head=head, standing="returned", said=stand.why)
        case "cancelled" if one.withdrawn:
            return KnownEntry(number=number, head=head, standing="withdrawn", said=stand.why)
        case "cancelled":
            return KnownEntry(number=number, head=head, standing="returned", said=BY_A_PERSON)
        case _:
            return KnownEntry(number=number, head=head, standing="waiting", said=_pending(stand))


def _pending(stand: EntryStanding) -> str:
    """Without what changes with each landing of another: forges count how often they are told."""
    match stand.state, stand.code:
        case "waits", "line":
            return "it waits in line"
        case "tested", _:
            return "its checks run"
        case _, "frozen":
            return stand.why
        case "green", _:
            return "its checks are green; it lands with or after what stands before it"
        case _:
            return stand.why


def paragraph(state: RunState, task: TaskState, now: float) -> str:
    """
    Why it was returned, as a comment. Output of checks is in it, so it is quoted as it is: no mark-up in it counts,
    and nobody who is named in it is called.
    """
    said, *commands = explain_task(state, task, now).split("\n")
    # A command is one line, or it is none.
    text = "\n".join([textwrap.fill(said, 100, break_long_words=False, break_on_hyphens=False), *commands])
    fence = "```"
    while fence in text:
        fence += "`"
    return f"The queue has returned this change.\n\n{fence}text\n{text[:_MOST_OF_A_COMMENT]}\n{fence}"


_MOST_OF_A_COMMENT = 20_000


OF_ONE_CHANGE = (ForgeRefused, GitFailed, MissingCommit, CannotRun)
"""What keeps the bot from doing something for one change, and for no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """Between one gate and one forge."""

    forge: Forge
    door: Door
    view: QueueView
    target: str
    memory: Memory
    tell: Callable[[str], None]
    """A sentence on what could not be done for a change; it is tried again in the next round."""

    def round(self) -> None:
        """
        Raises:
            ForgeRefused, ForgeAway: of the forge nothing is known in this round.
            GitFailed, JournalUnreadable: nor of the hub, of the gate.
        """
        entries = self._entries()
        waiting = [number for number, entry in entries.items() if entry.standing == "waiting"]
        ready = self.forge.changes_ready(waiting)
        found = steps(ready, entries, self.memory.told, (self.target,))
        admitted = {step.change.number: self._admission(step.change) for step in found if isinstance(step, Submit)}
        Doing(bot=self, admitted=admitted, entries=entries).all_of(found)

    def _entries(self) -> Mapping[int, KnownEntry]:
        given = self.memory.given
        return self.view.look(lambda state: entries_of(state, given, time.time(), self._contains))

    def _contains(self, commit: str, head: str) -> bool:
        """Of what was told as landed long ago nobody asks it any more."""
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
        """Entries of which the gate has a word yet to take in: what is submitted meanwhile could be meant by it."""
        return {one.task for _, one in inbox.waiting(self.view.folder) if one.task is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """The steps of one round, carried out."""

    bot: Bot
    admitted: Mapping[int, Admission]
    entries: Mapping[int, KnownEntry]
    by_commit: dict[str, Admission] = field(default_factory=dict)
    """What was said of a commit's admission goes before what its report would have said."""

    def all_of(self, found: Sequence[Step]) -> None:
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
                """With its report."""

    def _submit(self, change: PullRequest, entering: Enters) -> None:
        bot, mirror, head = self.bot, self.bot.door.mirror, CommitId(change.head)
        given = Given(name=entering.name, head=change.head)
        ref = submission_ref(bot.target, entering.name)
        if bot.memory.given.get(change.number) == given and ref in mirror.hub_refs(ref):
            return  # The gate has not looked at it yet.
        wish = Wish(
            what=change.head,
            repo=str(mirror.path),
            hub=mirror.hub,
            target=bot.target,
            name=entering.name,
            klass="normal",
            needs=entering.needs,
            by=change.author,
            agent=None,
            family=(),
        )
        bot.memory.give(change.number, given)
        hand_in(mirror, bot.target, head, entering.name, wish)

    def _withdraw(self, number: int) -> None:
        """Unless the same round replaces it: the gate does that at once, and keeps its place."""
        given = self.bot.memory.given[number]
        if isinstance(self.admitted.get(number), Enters) or given.name in self.bot.list_requested():
            return
        self.bot.memory.give(number, given.model_copy(update={"withdrawn": True}))
        inbox.leave(self.bot.view.folder, PersonRequest(do="cancel", task=given.name, by="forge"))

    def _report(self, report: StatusReport, companion: Explain | NoteLanded | None) -> None:
        """What goes with it is told before it counts as told; whatever dies between tells the status again."""
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
        """Once: kept before it is sent, and forgotten only where the forge says that it has not looked at it."""
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
