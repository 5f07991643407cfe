"""
The tasks of a plan that an earlier run of it has landed: read from the target's own history, and from nothing else.

Each landing says in a trailer which work it is, by a digest of what the task asks for. That alone proves nothing:
a landing counts while the target's history has it, no commit says that it was reverted, and at least one of the paths
that it changed is still other than it was before. One that changed nothing counts for nothing. No branch of an agent
brings the trailer in by itself: the gate refuses it (finding `claimed-work`).
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from forgepool.orchestrator.journal.events import TaskAlreadyThere
from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.workers.schema.orders import CommandAgent, ScriptedAgent
from forgepool.worktrees.commits.candidate import WORK
from forgepool.worktrees.git.git import Git
from forgepool.worktrees.hub.mirror import Mirror

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
