"""
Recovery of what the hub knows and the journal does not: lost answers, and landings that were not reported. The hub is
asked, never Redis: a published result is adopted, and a marker means landed.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import (
    CheckSent,
    Event,
    LandingAnswered,
    OrderAnswered,
    OrderSent,
    RacerPromoted,
    TaskAlreadyThere,
    TaskFailed,
    TaskParked,
    TaskReturned,
)
from forgepool.orchestrator.plan.budget import SeenUse
from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.supervisor.messages.answers import Landing
from forgepool.workers.context.transcript.entries import Entry, TranscriptWrong, TurnSaid, parse_transcript
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.schema.mistakes import Progress
from forgepool.workers.schema.orders import BuiltinAgent, CommandAgent, Limits, ScriptedAgent, Spent
from forgepool.workers.workspace.checkpoints import read_progress
from forgepool.workers.workspace.refs import candidate_ref, marker_ref, read_result, result_ref, run_refs
from forgepool.workers.workspace.resume import sum_carried_in
from forgepool.worktrees.commits.candidate import WORK
from forgepool.worktrees.git.git import CommitId, Git
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.target import is_contained

_GIVING_UP = (TaskFailed, TaskReturned, TaskParked, OrderSent, RacerPromoted)
_RESULTS = (candidate_ref, result_ref)
_MAY_HAVE_LANDED = ("queued", "testing", "reviewing", "reviewed", "landing")


def recover_events(state: RunState, mirror: Mirror) -> list[Event]:
    """
    Return what the hub's refs say of tasks whose answers are missing. Raises GitFailed when the hub cannot be asked.
    """
    refs = mirror.hub_refs(run_refs(state.run))
    landing = state.train.landing
    together = landing.intent.entries[:-1] if landing is not None else ()
    events: list[Event] = []
    for task in (*state.tasks.values(), *state.racers.values()):
        if task.id in together:
            # They land with the last of them, or not at all.
            continue
        marker = refs.get(marker_ref(state.run, task.id))
        if task.phase in _MAY_HAVE_LANDED and (marker is not None or task.intended):
            events += recover_landing(state, mirror, task)
        elif task.phase == "running" and any(ref(state.run, task.id, task.attempt) in refs for ref in _RESULTS):
            events += recover_result(state, mirror, task)
    return events


def recover_result(state: RunState, mirror: Mirror, task: TaskState) -> list[Event]:
    """The result of the attempt under way, where the hub has it."""
    result = read_result(mirror, state.run, task.id, task.attempt)
    if result is None or task.message is None:
        return []
    mine = result.model_copy(update={"token": task.message.token})
    return [OrderAnswered(task=task.id, result=mine)]


def find_seen_use(course: PlanIndex, state: RunState, mirror: Mirror, task: TaskState) -> SeenUse | None:
    """
    Return the hub's knowledge of the use of the attempt under way; None for agents without a transcript, or an
    unreadable one. Raises GitFailed when the hub cannot be asked.
    """
    if not isinstance(course.tasks[task.id].agent, BuiltinAgent):
        return None
    found, progress = read_progress(mirror, state.run, task.id, task.attempt), course.plan.progress
    if found is None:
        return SeenUse(unseen=None if progress in ("phase", "off") else 1)
    try:
        entries = parse_transcript(found.transcript, "progress")
    except TranscriptWrong:
        return None
    return sum_seen_use(entries, attempt=task.attempt, unseen=_unseen(entries, progress))


def _unseen(entries: Sequence[Entry], progress: Progress) -> int | None:
    """Estimate the turns since a push, from the time that those before it took."""
    if not isinstance(progress, float):
        return 1 if progress == "turn" else None
    turns = [entry.at for entry in entries if isinstance(entry, TurnSaid) and entry.turn.role == "assistant"]
    turn_s = median(later - earlier for earlier, later in pairwise(turns)) if turns[1:] else 1.0
    return 1 + math.ceil(progress / max(1.0, turn_s))


def sum_seen_use(entries: Sequence[Entry], *, attempt: int, unseen: int | None = 1) -> SeenUse:
    return SeenUse(
        unseen=unseen,
        used=_used(entries),
        carried=sum_carried_in(entries, attempt=attempt),
        largest_turn=_largest_turn(entries),
    )


def recover_landing(state: RunState, mirror: Mirror, task: TaskState) -> list[Event]:
    """
    That a landing under way or in doubt has happened, where the hub says so: by the marker, or by the target's history.

    A hub that is killed within a push leaves the one without the other: git moves several refs one after another.
    """
    marker = marker_ref(state.run, task.id)
    commit = mirror.hub_refs(marker).get(marker)
    if commit is None or not is_contained(mirror, state.target, commit):
        commit = next((one for one in map(CommitId, task.intended) if is_contained(mirror, state.target, one)), None)
    return [] if commit is None else [_has_landed(state, task, commit)]


def unless_landed(state: RunState, mirror: Mirror, events: Sequence[Event]) -> list[Event]:
    """
    Return the same events, but `landed` for a task whose doubtful landing has happened, since a lander thought dead may
    have been slow. Raises GitFailed when the hub cannot be asked: without its answer the task must not be given up, nor
    done twice.
    """
    return settle_events(state, events, lambda task: recover_landing(state, mirror, task))


def settle_events(state: RunState, events: Sequence[Event], ask: Callable[[TaskState], list[Event]]) -> list[Event]:
    """The same events, or, where `ask` shows that tasks they concern have landed, that alone: more may follow."""
    doubtful = dict.fromkeys(one for event in events for one in _concerned(event))
    found = [each for task in (state.tasks[one] for one in doubtful) if task.landing_in_doubt for each in ask(task)]
    return found or list(events)


def _concerned(event: Event) -> tuple[str, ...]:
    if isinstance(event, _GIVING_UP):
        return (event.task,)
    return event.car or (event.task,) if isinstance(event, CheckSent) else ()


def _has_landed(state: RunState, task: TaskState, commit: CommitId) -> Event:
    landing = state.train.landing
    message = landing.message if landing is not None and task.id in landing.intent.entries else None
    # They land with the last of them; whatever else has landed has done so alone.
    together = landing.intent.entries if landing is not None and landing.intent.commit == commit else ()
    return LandingAnswered(
        task=task.id,
        entries=together if len(together) > 1 else (),
        result=Landing(
            request_id=message.message_id if message else "",
            token=message.token if message else "",
            outcome="landed",
            commit=commit,
            detail="found landed in the hub",
        ),
    )


def _used(entries: Sequence[Entry]) -> Spent:
    return Meter.of(Limits(), entries).spent


def _largest_turn(entries: Sequence[Entry]) -> Spent:
    """Return, of each kind, the most that a turn used; an unknown cost leaves the sum of the priced ones."""
    turns = [_used([entry]) for entry in entries if isinstance(entry, TurnSaid) and entry.turn.role == "assistant"]
    return Spent(
        input_tokens=max((one.input_tokens for one in turns), default=0),
        output_tokens=max((one.output_tokens for one in turns), default=0),
        cost_usd=max((one.cost_usd or 0.0 for one in turns), default=0.0),
    )


_ASKED = ("id", "title", "description", "files", "acceptance", "env")
_ASSETS = "FORGEPOOL_ASSETS"
_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40,64})", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    id: str
    parents: tuple[str, ...]
    message: str


def work_of(plan: Plan, task: Task) -> str:
    """
    Return a digest of what a task asks for: equal for equal work, whatever else the plan says of it.

    Which model does it, what it needs and what it may use are no part of that. The plan's assets are, for a task that
    names their folder.
    """
    agent = task.agent
    how = agent.run if isinstance(agent, CommandAgent) else agent.script if isinstance(agent, ScriptedAgent) else ""
    asked = {key: getattr(task, key) for key in _ASKED} | {"plan": plan.name, "agent": agent.kind, "how": how}
    if task.criteria:
        asked["criteria"] = task.criteria
    if _ASSETS in json.dumps(asked):
        asked["assets"] = [(asset.path, asset.sha256) for asset in plan.assets]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


def find_already_there(
    mirror: Mirror, tip: str, plan: Plan, *, among: Collection[str] | None = None
) -> list[TaskAlreadyThere]:
    """
    Find the tasks, of all or `among` these ids, whose work is in the history of the tip.

    Raises:
        GitFailed: the history could not be read.
    """
    wanted = {task.id: work_of(plan, task) for task in plan.tasks if among is None or task.id in among}
    landed = _landings(mirror.git, tip, frozenset(wanted.values()))
    found = [(task, landed.get(work)) for task, work in wanted.items()]
    return [TaskAlreadyThere(task=one, commit=at[0], by_run=at[1]) for one, at in found if at is not None]


def _landings(git: Git, tip: str, wanted: Collection[str]) -> dict[str, tuple[str, str]]:
    """Map each wanted work to the latest landing that stands, and to the run that landed it."""
    gone = _reverted(git, tip)
    found: dict[str, tuple[str, str]] = {}
    for commit in _commits(git, tip, f"^{WORK}: "):
        works = [work for work in _trailers(commit, WORK) if work in wanted and work not in found]
        # A revert names the merge, or the work that it brought in.
        if works and gone.isdisjoint({commit.id, *commit.parents[1:]}) and _stands(git, tip, commit):
            run = next(reversed(_trailers(commit, "Forgepool-Run")), "")
            found |= {work: (commit.id, run) for work in works}
    return found


def _stands(git: Git, tip: str, landing: _Commit) -> bool:
    """Compare the tip with the tree before the landing: reverts that name no commit, and merges that took nothing."""
    if not landing.parents:
        return False
    before = landing.parents[0]
    brought = _changed(git, before, landing.id)
    return bool(brought) and not brought.isdisjoint(_changed(git, before, tip))


def _changed(git: Git, old: str, new: str) -> set[str]:
    return set(git.run("diff-tree", "-r", "-z", "--no-renames", "--name-only", old, new).fields)


def _reverted(git: Git, tip: str) -> set[str]:
    """Find the commits that were taken back. The latest come first: a revert that was reverted takes nothing back."""
    gone: set[str] = set()
    for commit in _commits(git, tip, "^This reverts commit "):
        if commit.id not in gone:
            for named in _REVERTS.findall(commit.message):
                gone.update((named, *_brought_in_by(git, named)))
    return gone


def _brought_in_by(git: Git, commit: str) -> list[str]:
    """List the commits that a merge brought in: who reverts a merge of a branch takes back all that landed on it."""
    # The message may name a commit that is not here, or one without parents.
    return git.run("rev-list", commit, f"^{commit}^1", "--", ok=(0, 128)).text.split()


def _commits(git: Git, tip: str, said: str) -> Iterator[_Commit]:
    """Read the commits of the history whose message has such a line, children before their parents."""
    words = ("log", "-z", "--no-show-signature", "--topo-order", f"--grep={said}", "--format=%H %P%n%B")
    for entry in git.run(*words, tip, "--").stdout.decode(errors="replace").split("\0"):
        ids, _, message = entry.partition("\n")
        if ids:
            first, *parents = ids.split()
            yield _Commit(id=first, parents=tuple(parents), message=message)


def _trailers(commit: _Commit, key: str) -> list[str]:
    """Return all values of one key: a branch that was squashed into one commit may name many."""
    return [str(value).strip() for value in re.findall(rf"^{key}: (.*)$", commit.message, re.MULTILINE)]


def landing_message(course: PlanIndex, state: RunState, task: TaskState, attempt: int) -> str:
    """Return the message of the commit on the target: its subject, and the trailers by which history is read again."""
    planned, entry = course.tasks[task.id], state.submitted.get(task.id)
    agent = planned.agent.kind if entry is None else " ".join(entry.author.agent.split())
    by = f"Forgepool-By: {' '.join(entry.by.split())}\n" if entry is not None and entry.by else ""
    work = work_of(course.plan, planned) if entry is None else entry.card.work if entry.card is not None else ""
    title = planned.title if entry is None or entry.card is not None else f"{entry.branch or task.id}: {planned.title}"
    return (
        f"{title}\n\n"
        f"Forgepool-Run: {state.run}\n"
        f"Forgepool-Task: {task.id}\n"
        f"Forgepool-Attempt: {attempt}\n"
        f"Forgepool-Agent: {agent}\n{by}" + (f"{WORK}: {work}\n" if work else "")
    )
