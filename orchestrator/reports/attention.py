"""
Everything in a run or a queue that needs a person: one row each, with the one command that ends it.

The rows follow from the folded state alone, so a row goes as soon as its cause goes. Nothing is stored or marked as
read. A cause has one row: tasks that are blocked by a failed one have none, and a budget that stops many tasks has one.
Pure.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from forgepool.orchestrator.decisions.orders.treasury import UNCOUNTED
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import count_of, one_line
from forgepool.orchestrator.decisions.requests import why_not_approve
from forgepool.orchestrator.decisions.reviews.post_merge import list_unreviewed
from forgepool.orchestrator.reports.costs import budget_words
from forgepool.orchestrator.reports.event_text import shorten_list
from forgepool.orchestrator.reports.queue_status import EntryStanding, standing_of
from forgepool.orchestrator.state.run import REOPENED, RunState, branch_of, with_branches
from forgepool.orchestrator.state.task import TERMINAL, TaskState
from forgepool.workers.schema.orders import ReasonKind
from forgepool.worktrees.git.git import without_password

Cause = Literal[
    "question", "approval", "budget", "paused", "no host", "stuck", "unexpected end", "conflict", "failed", "trouble"
]
"""The kinds of rows, the most urgent first: work that stands still for one word comes before work that has ended."""
RANKS: tuple[Cause, ...] = get_args(Cause)
UNTAKEN_S = 120.0
"""Seconds that a message of a live run may wait for a worker before that counts as stuck."""
RETURNED_S = 7 * 86400.0
"""Seconds after which a branch that a queue returned asks for nothing more."""
_LASTING: frozenset[ReasonKind] = frozenset(
    ("check_failed", "out_of_scope", "verify_failed", "no_change", "agent_failed", "refused", "findings")
)
"""The kinds of reasons for which a command comes back again, on the same tree."""
_MOST_ROWS = 100
"""Failed tasks of one run with a row of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionRow:
    """One thing that needs a person."""

    run: str
    """The run or the queue."""
    task: str
    """Empty for what concerns the whole run."""
    name: str
    """The task as people know it: of an entry, its branch."""
    cause: Cause
    sentence: str
    command: str
    """The command that ends it. Words in capitals are for the person to replace."""
    since: float
    """Unix seconds."""

    @property
    def about(self) -> str:
        return self.name or "the run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """Facts beside the state: whether a process writes the journal now, and the time."""

    live: bool
    now: float
    """Unix seconds."""


def attention(course: PlanIndex, state: RunState, alive: Liveness) -> list[AttentionRow]:
    """List what needs a person, the most urgent first, and of equals the one that has waited longest."""
    if not state.run:
        return []
    rows = _of_queue(course, state, alive) if course.serving else _of_run(course.grow_with(state), state, alive)
    return rank(list(rows))


def rank(rows: Sequence[AttentionRow]) -> list[AttentionRow]:
    return sorted(rows, key=lambda row: (RANKS.index(row.cause), row.since, row.run, row.task))


def _of_run(course: PlanIndex, state: RunState, alive: Liveness) -> Iterator[AttentionRow]:
    yield from _parked(course, state)
    yield from _failed(course, state)
    if alive.live:
        yield from _held_up(state, alive)
    elif state.halted_by_review and list_unreviewed(state):
        command = f"forgepool approve {state.run} --wave --by NAME"
        yield _row(state, "approval", f"What has landed needs a review: {state.halted}", command)
    elif not state.finished and (state.count(*TERMINAL) < len(state.tasks) or state.halted):
        yield _stopped(state)


def _parked(course: PlanIndex, state: RunState) -> Iterator[AttentionRow]:
    """Yield a row for each task that waits for a person, and one for all that wait for budget."""
    parked = state.in_phase("needs_human")
    shared = [one.words for one in state.treasury.values() if one.effect == "asks"]
    stopped = (task for task in parked if task.parked_for == "budget")
    broke = [task for task in stopped if not any(words in task.detail for words in shared)]
    for task in parked:
        if task.question:
            yield _of_task(state, task, "question", f"It asks: {task.question}", "answer", "TEXT")
        elif task in broke:
            continue
        elif task.parked_for == "budget":
            yield _of_task(state, task, "budget", task.detail.partition("; forgepool ")[0], "retry")
        elif task.candidate and why_not_approve(course, state, task.id) is None:
            why = task.detail.partition("; forgepool ")[0]
            yield _of_task(state, task, "approval", f"Its change waits for approval: {why}", "approve", "--by NAME")
        else:
            yield _of_task(state, task, "trouble", task.detail, "retry")
    if broke:
        tokens = course.budget(state).usd is None
        command = f"forgepool budget {state.run} --{'tokens TOKENS' if tokens else 'usd USD'}"
        used = "; ".join(budget_words(course.ledger(state))) or broke[0].detail
        names = shorten_list([task.id for task in broke])
        since = min(task.since for task in broke)
        yield _row(state, "budget", f"The budget stops {names}: {used}", command, since)


def _failed(course: PlanIndex, state: RunState) -> Iterator[AttentionRow]:
    failed = state.in_phase("failed")
    for task in failed[:_MOST_ROWS]:
        reason = task.reasons[-1] if task.reasons else None
        conflict = reason is not None and reason.kind == "conflict"
        tried = count_of(max(1, task.attempt), "attempt")
        blocked = _blocked_by(state, task) if len(failed) == 1 else ""
        said = f"Failed after {tried}: {reason.summary if reason is not None else task.detail}{blocked}"
        if reason is not None and reason.kind in _LASTING and course.tasks[task.id].agent.kind == "command":
            again = f"{said}; its command does the same again on the same tree: correct the plan, and run it again"
            yield _entry_row(state, task, "failed", again, f"forgepool resume {state.run} --plan FILE")
            continue
        yield _of_task(state, task, "conflict" if conflict else "failed", said, "retry")
    if left := failed[_MOST_ROWS:]:
        said = f"{count_of(len(left), 'more task')} failed: {shorten_list([task.id for task in left])}"
        yield _row(state, "failed", said, f"forgepool report {state.run}")


def _blocked_by(state: RunState, task: TaskState) -> str:
    blocked = state.count("blocked")
    return f"; {count_of(blocked, 'task')} cannot go on without it" if blocked and task else ""


def _held_up(state: RunState, alive: Liveness) -> Iterator[AttentionRow]:
    """Yield what keeps a live run from going on, or lets it pass a limit."""
    for limit in state.treasury.values():
        if limit.limit.startswith(UNCOUNTED):
            yield _row(state, "budget", one_line(limit.words), "forgepool spend")
    if state.all_ended and state.treasury_words and list_unreviewed(state):
        command = f"forgepool approve {state.run} --wave --by NAME"
        yield _row(state, "approval", f"The review of what has landed waits: {state.treasury_words}", command)
    for task, words in state.lacking.items():
        said = f"No present host has {' and '.join(words)}, which '{task}' and perhaps others need"
        yield _row(state, "no host", said, "forgepool worker --broker URL", state.lacking_since)
    if state.gate_away:
        serve = _serve_command(state)
        yield _row(state, "stuck", f"The merge queue of {state.target} is silent: {state.gate_away}", serve)
    waiting = [one for one in state.outstanding().values() if not state.holder(one)]
    late = [one for one in waiting if alive.now - one.issued_at > UNTAKEN_S]
    busy = len(waiting) < len(state.outstanding())
    if late and not busy:
        oldest = min(late, key=lambda one: one.issued_at)
        minutes = (alive.now - oldest.issued_at) / 60
        what = f"'{oldest.task}'" if oldest.task else "the target's checks"
        said = f"No worker has taken {what} for {minutes:.0f} minutes, and none is at work"
        yield _row(state, "stuck", said, "forgepool worker --broker URL", oldest.issued_at)


def _stopped(state: RunState) -> AttentionRow:
    """Return the row of a run that has not ended, and that no process runs."""
    left = count_of(len(state.tasks) - state.count(*TERMINAL), "task")
    command = f"forgepool resume {state.run}"
    if state.halted:
        return _row(state, "paused", f"Landing is paused with {left} to go: {state.halted}", command)
    if state.stopped is None:
        return _row(state, "unexpected end", f"Its process ended without a word, with {left} to go", command)
    if state.stopped == REOPENED:
        return _row(state, "paused", f"It has {left} to do again; nothing runs it", command)
    why = f": {state.stopped}" if state.stopped else ""
    return _row(state, "paused", f"It was stopped with {left} to go{why}", command)


def _of_queue(course: PlanIndex, state: RunState, alive: Liveness) -> Iterator[AttentionRow]:
    target = shlex.quote(state.target)
    if (why := state.paused or state.halted) and (alive.live or state.train.line.entries):
        yield _row(state, "paused", f"The queue is paused: {why}", f"forgepool queue resume --target {target}")
    waiting = len(state.train.line.entries)
    if not alive.live and waiting:
        said = f"No process serves the queue of {state.target}, which holds {count_of(waiting, 'submission')}"
        yield _row(state, "stuck", said, _serve_command(state))
    for task in state.in_phase("needs_human", "failed", "queued"):
        row = _of_entry(course, state, task, alive.now)
        if row is not None:
            yield row


def _of_entry(course: PlanIndex, state: RunState, task: TaskState, now: float) -> AttentionRow | None:
    entry = state.submitted.get(task.id)
    if entry is None:
        return None
    name = shlex.quote(branch_of(state, task.id))
    again = f"forgepool queue retry {name} --target {shlex.quote(state.target)}"
    if task.phase == "queued":
        refused = state.train.refused.get(task.id)
        return None if refused is None else _entry_row(state, task, "trouble", with_branches(state, refused), again)
    stand = standing_of(state, task, now)
    if task.phase == "needs_human":
        can = why_not_approve(course, state, task.id) is None
        command = f"forgepool approve {state.run} {name} --by NAME"
        return _entry_row(state, task, "approval" if can else "trouble", stand.why, command if can else again)
    # The run that delegated an entry is told, and has a row of its own.
    if entry.card is not None or now - task.since > RETURNED_S:
        return None
    command = f"forgepool queue submit BRANCH --name {name}"
    return _entry_row(state, task, _returned_cause(stand), f"Returned: {stand.why}", command)


def _returned_cause(stand: EntryStanding) -> Cause:
    return "conflict" if stand.code == "conflict" else "failed"


def _entry_row(state: RunState, task: TaskState, cause: Cause, why: str, command: str) -> AttentionRow:
    return AttentionRow(
        run=state.run,
        task=task.id,
        name=branch_of(state, task.id),
        cause=cause,
        sentence=why,
        command=command,
        since=task.since,
    )


def _serve_command(state: RunState) -> str:
    hub = shlex.quote(without_password(state.hub))
    return f"forgepool queue serve --repo {hub} --target {shlex.quote(state.target)}"


def _of_task(state: RunState, task: TaskState, cause: Cause, said: str, word: str, rest: str = "") -> AttentionRow:
    command = " ".join(part for part in ("forgepool", word, state.run, task.id, rest) if part)
    return _entry_row(state, task, cause, said, command)


def _row(state: RunState, cause: Cause, said: str, command: str, since: float | None = None) -> AttentionRow:
    at = state.at if since is None else since
    return AttentionRow(run=state.run, task="", name="", cause=cause, sentence=said, command=command, since=at)
