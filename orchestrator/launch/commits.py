"""
Finds commits that a person names, in any repository, and makes one change of the difference between two.

The person's repository is only read: no ref or object is written into it. Needed commits are fetched into this host's
mirror and stay there.
"""

from dataclasses import dataclass
from pathlib import Path

from forgepool.orchestrator.run.hub import CannotRun, Hub, open_hub
from forgepool.supervisor.gate.affected_checks import MOST_PATHS
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.scans.subject import printable
from forgepool.worktrees.commits.candidate import commit_candidate
from forgepool.worktrees.commits.changes import find_impossible_path
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, is_object_id, is_ref, without_password
from forgepool.worktrees.hub.hub import HubFacts, inspect_hub, is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository on this host, seen from a folder in it."""

    facts: HubFacts
    top: Path | None
    """Root of the folder's work tree; None in a bare repository."""
    git: Git
    """Git for that work tree, whose HEAD may differ from that of another."""

    def commit(self, name: str) -> CommitId:
        """
        Raises:
            CannotRun: there is no such commit.
        """
        found = _resolved(self.git, name)
        if found is None:
            raise CannotRun(
                f"'{name}' is not a commit of {self.top or self.facts.url}; name a branch, a tag or a commit"
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChange:
    """The difference between two commits, as one commit on their merge base. All are in the mirror."""

    base: CommitId
    head: CommitId
    fork: CommitId
    """The merge base."""
    candidate: CommitId
    commits: int
    subject: str
    """Subject of the latest commit."""

    @property
    def empty(self) -> bool:
        return self.candidate == self.fork


def open_repository(where: str) -> Repository:
    """
    Raises:
        CannotRun: it is named by a URL that leads to another host.
        HubUnusable: there is none at that path.
    """
    if is_url(where) and not where.startswith("file:"):
        raise CannotRun(f"{without_password(where)} is not on this host; clone it, and give the clone's path")
    facts = inspect_hub(where)
    here = Path(where).resolve()
    top = next((one for one in (here, *here.parents) if (one / ".git").exists()), None)
    if facts.bare or top is None or is_url(where):
        return Repository(facts=facts, top=None, git=Git(git_dir=facts.local or here))
    return Repository(facts=facts, top=top, git=Git(git_dir=_git_dir(top / ".git")))


def fetch_commit(hub: Hub, repository: Repository | None, name: str) -> CommitId:
    """
    Bring the named commit into the mirror and return it. Without a local repository, the hub's refs decide.

    Raises:
        CannotRun: there is no such commit.
    """
    if repository is None:
        return _brought_from_afar(hub, name)
    commit = repository.commit(name)
    _bring(hub, commit)
    return commit


def change(hub: Hub, base: CommitId, head: CommitId) -> CommitChange:
    """
    Raises:
        CannotRun: they have nothing in common, or the head has a tree that git can never merge.
    """
    git = hub.mirror.git
    common = git.run("merge-base", base, head, ok=(0, 1)).text
    if not common:
        raise CannotRun(f"{head[:12]} and {base[:12]} have no commit in common; rebase one onto the other first")
    fork = CommitId(common)
    if odd := find_impossible_path(git, fork, head, most=MOST_PATHS):
        raise CannotRun(
            f"{head[:12]} has the name '{printable(odd)[:200]}' in its tree, which no checkout can have; "
            "make the commit with a name that git accepts"
        )
    date, _, subject = git.text("log", "-1", "--no-show-signature", "--format=%ct %s", head).partition(" ")
    commits = int(git.text("rev-list", "--count", f"{fork}..{head}"))
    tree = tree_of(git, head)
    unchanged = tree == tree_of(git, fork)
    candidate = fork if unchanged else commit_candidate(git, base=fork, tree=tree, message=subject, at=int(date))
    return CommitChange(base=base, head=head, fork=fork, candidate=candidate, commits=commits, subject=subject)


def open_both(where: str, settings: Settings) -> tuple[Hub, Repository | None]:
    """Open a repository as a hub and as a local one; None for the latter where it is on another host."""
    hub = open_hub(where, settings)
    return hub, open_repository(where) if hub.facts.local is not None else None


def _brought_from_afar(hub: Hub, name: str) -> CommitId:
    if is_object_id(name):
        _bring(hub, CommitId(name))
        return CommitId(name)
    if is_ref(name):
        found = hub.mirror.hub_refs(name).get(name)
        if found is None:
            raise CannotRun(f"{hub.facts.url} has no ref {name}; `git ls-remote` shows those it has")
        _bring(hub, found)
        return found
    commit = hub.base_of(name)
    hub.mirror.ensure(commit)
    return commit


def _bring(hub: Hub, commit: CommitId) -> None:
    if hub.mirror.has(commit):
        return
    try:
        hub.mirror.fetch(f"+{commit}:refs/hub/asked/{commit}")
    except GitFailed as failed:
        if "not our ref" not in failed.stderr and "find remote ref" not in failed.stderr:
            raise
        raise CannotRun(
            f"{hub.facts.url} does not have commit {commit[:12]} on any branch or tag; push it there first"
        ) from failed


def _resolved(git: Git, name: str) -> CommitId | None:
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    said = git.run(*words, ok=(0, 1, 128))
    return CommitId(said.text) if said.status == 0 and is_object_id(said.text) else None


def _git_dir(pointer: Path) -> Path:
    """Return a work tree's git folder, following the pointer file of a linked one."""
    if pointer.is_dir():
        return pointer
    return (pointer.parent / pointer.read_text().removeprefix("gitdir:").strip()).resolve()
