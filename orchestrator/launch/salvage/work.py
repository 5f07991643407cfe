"""The work of an attempt that did not land, composed on the target's tip. Nothing of the run is changed."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forgepool.orchestrator.decisions.orders.kept_work import KeptStanding, list_kept
from forgepool.orchestrator.decisions.reasons import add_authors, author_of
from forgepool.orchestrator.journal.events import OrderAnswered
from forgepool.orchestrator.run.hub import CannotRun, Hub, reopen_hub
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TaskState
from forgepool.supervisor.messages.requests import Author
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.changes import PathChange, changes
from forgepool.worktrees.commits.compose import Composed, Entry, compose
from forgepool.worktrees.git.git import CommitId, Git
from forgepool.worktrees.hub.hub import inspect_hub
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedWork:
    """The files of one attempt, as a commit on the target's tip; where that conflicts, as they were made."""

    hub: Hub
    kept: KeptStanding
    base: CommitId
    """The commit on which the work stands: the target's tip, or the attempt's base."""
    commit: CommitId
    conflicts: tuple[str, ...] = ()
    """Paths that do not merge onto the target's tip."""

    @property
    def git(self) -> Git:
        return self.hub.mirror.git

    @property
    def files(self) -> tuple[PathChange, ...]:
        return changes(self.git, self.base, self.commit)


def find_works(state: RunState, task: TaskState, attempt: int | None = None) -> list[KeptStanding]:
    """
    Return the kept works of a task that can be composed, newest first; with an attempt, only its own.

    Raises:
        CannotRun: it has landed, has left no files, or will be continued by its next attempt.
    """
    run = state.run
    if task.phase in DONE and not any(list_kept(state, task)):
        raise CannotRun(f"task '{task.id}' of run {run} is {task.phase}; only work that did not land can be salvaged")
    works = sorted(list_kept(state, task), key=lambda one: one.attempt)
    if attempt is not None and all(one.attempt != attempt for one in works):
        left = ", ".join(str(one.attempt) for one in works) or "none"
        raise CannotRun(f"attempt {attempt} of task '{task.id}' has left no files; attempts that have: {left}")
    works = [one for one in works if attempt in (None, one.attempt)]
    # Of an attempt whose files could not be kept there is only the reason.
    found = [one for one in works if one.what != "unfinished" and one.commit]
    if found:
        return found[::-1]
    if works and works[-1].what != "unfinished":
        again = f"to have it done again: forgepool retry {run} {task.id}"
        raise CannotRun(f"the work of task '{task.id}' is not in the hub: {works[-1].withheld}; {again}")
    if works:
        raise CannotRun(
            f"attempt {works[-1].attempt} of task '{task.id}' left unfinished work, which only its next attempt can "
            f"continue; to get it: git fetch {state.hub} {works[-1].ref}"
        )
    raise CannotRun(
        f"no attempt of task '{task.id}' of run {run} has left files; the task is {task.phase.replace('_', ' ')}"
    )


def compose_work(
    run: KeptRun, state: RunState, task: TaskState, settings: Settings, attempt: int | None = None
) -> SalvagedWork:
    """
    Compose the kept work of an attempt on the target's tip, in this host's mirror alone.

    Without an attempt, it is the newest that changes anything there.

    Raises:
        CannotRun: there is none, or only another host has it.
        HubAway, GitFailed: the hub could not be asked.
    """
    works = find_works(state, task, attempt)
    hub = reopen_hub(run.options.hub, settings)
    newest = _compose_on_tip(run, task, hub, works[0])
    if newest.files:
        return newest
    for kept in works[1:]:
        # Only another host may have one of these.
        with suppress(CannotRun):
            if (work := _compose_on_tip(run, task, hub, kept)).files:
                return work
    return newest


def _compose_on_tip(run: KeptRun, task: TaskState, hub: Hub, kept: KeptStanding) -> SalvagedWork:
    mirror, commit = hub.mirror, CommitId(kept.commit)
    tip = hub.tip_for(run.plan)
    try:
        if not kept.withheld:
            mirror.ensure(commit, refs=(kept.ref,))
        elif not commit or not mirror.has(commit):
            raise CannotRun(f"the work of task '{task.id}' is not in the hub: {kept.withheld}")
        mirror.ensure(tip)
    except MissingCommit as missing:
        raise CannotRun(f"the hub has the work of task '{task.id}' no longer: {missing}") from missing
    message = message_of_work(run, task.id, kept)
    composed = compose(mirror.git, tip, [Entry(commit=commit, name=task.id, message=message)], "squash")
    if isinstance(composed, Composed):
        return SalvagedWork(hub=hub, kept=kept, base=tip, commit=composed.commit)
    base = CommitId(mirror.git.text("rev-parse", "--verify", f"{commit}^"))
    return SalvagedWork(hub=hub, kept=kept, base=base, commit=commit, conflicts=composed.paths)


def message_of_work(run: KeptRun, task: str, kept: KeptStanding, more: str = "") -> str:
    """Return the message of a commit of the work."""
    return f"{run.course.tasks[task].title}\n\nSalvaged from run {run.options.run}: {task}, {kept.words}{more}\n"


def find_author(run: KeptRun, task: str, attempt: int) -> Author:
    """Return the author of an attempt's work: the task's agent, with the models that its answer names."""
    state, recorded = run.replay()
    answers = [one.event.result for one in recorded if isinstance(one.event, OrderAnswered) and one.event.task == task]
    found = [one for one in answers if one.attempt == attempt]
    planned = run.course.tasks[task]
    works = state.tasks[task].works
    # An attempt that was cancelled has left its files and no answer.
    own = author_of(planned, found[-1] if found else None)
    mended = found[-1].mended if found else works[attempt].mends if attempt in works else None
    return add_authors(own, works, mended)


def make_branch(work: SalvagedWork, repo: Path, branch: str) -> None:
    """
    Make a branch of the work in a clone on this host.

    Raises:
        CannotRun: as `require_room`, or the clone is the hub, to which the work was not pushed.
    """
    git = require_room(work, repo, branch)
    if work.kept.withheld and git.git_dir == work.hub.facts.local:
        raise CannotRun(
            f"{repo} is the hub, and this work was not pushed there: {work.kept.withheld}; give --to DIR or "
            "--patch FILE"
        )
    _bring(work, git)
    git.run("update-ref", f"refs/heads/{branch}", work.commit, "0" * len(work.commit))


def require_room(work: SalvagedWork, repo: Path, branch: str) -> Git:
    """
    Return the clone, in which the branch can be made.

    Raises:
        CannotRun: the branch exists, its name is invalid, or the clone lacks the history that the work stands on.
    """
    git = _clone(work, repo)
    if git.run("check-ref-format", f"refs/heads/{branch}", ok=(0, 1)).status or branch.startswith("-"):
        raise CannotRun(f"'{branch}' is no name for a branch; give another one with --branch")
    if git.run("show-ref", "--verify", "--quiet", f"refs/heads/{branch}", ok=(0, 1)).status == 0:
        raise CannotRun(f"the clone in {repo} has a branch '{branch}' already; give another name with --branch")
    return git


def make_worktree(work: SalvagedWork, repo: Path, folder: Path) -> None:
    """
    Check the work out as a worktree of a clone on this host, without a branch.

    Raises:
        CannotRun: the folder is not empty.
    """
    git = _clone(work, repo)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CannotRun(f"{folder} is there already and is not an empty folder; give another one with --to")
    _bring(work, git)
    git.run("worktree", "add", "--quiet", "--detach", str(folder.absolute()), work.commit)


def read_patch(work: SalvagedWork) -> bytes:
    """Return the work as a patch that `git apply` reads."""
    plain = ("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
    return work.git.run("diff", *plain, work.base, work.commit).stdout


def _clone(work: SalvagedWork, repo: Path) -> Git:
    """Return the repository. Raises CannotRun where it lacks the history that the work stands on, and HubUnusable."""
    local = inspect_hub(str(repo)).local
    if local is None:
        raise CannotRun(f"{repo} is not on this host; give a clone of the repository with --repo")
    git = Git(git_dir=local)
    known = (work.base, f"{work.kept.commit}^")
    if all(git.run("cat-file", "-e", f"{one}^{{commit}}", ok=(0, 1, 128)).status for one in known):
        raise CannotRun(
            f"{repo} lacks the commits that the work stands on; fetch there, or give a clone of {work.hub.facts.url} "
            "with --repo"
        )
    return git


def _bring(work: SalvagedWork, git: Git) -> None:
    """
    Fetch the commit from the mirror. A ref names it meanwhile.

    Raises:
        GitFailed: the clone could not be written.
    """
    mirror = work.hub.mirror
    ref = f"refs/forgepool/salvage/{work.commit}"
    mirror.git.run("update-ref", ref, work.commit)
    try:
        Mirror(path=git.git_dir, hub=str(mirror.path)).bring(ref)
    finally:
        mirror.git.run("update-ref", "-d", ref)
