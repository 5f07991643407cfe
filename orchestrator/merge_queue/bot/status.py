"""The gate's entries as the forge is to see them: pure."""

import textwrap
from collections.abc import Callable, Mapping

from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.merge_queue.bot.memory import Given
from forgepool.orchestrator.merge_queue.forges.intake import KnownEntry
from forgepool.orchestrator.reports.queue_status import EntryStanding, explain_task, standings
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState

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
