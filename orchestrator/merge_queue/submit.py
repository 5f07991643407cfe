"""A commit of somebody's repository, given to the gate of a hub: one push."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forgepool.orchestrator.decisions.queue.submissions import CLASSES, STYLES, entry_name, tag_text
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import submission_ref
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.hub.hub import inspect_hub
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody wants to be let in, and what they say of it."""

    what: str
    """A branch, a tag or a commit of `repo`."""
    repo: str
    hub: str | None
    """None: the repository's `origin`, or itself where it has none."""
    target: str | None
    """None: the hub's default branch."""
    name: str | None
    """None: that of the branch, or the commit's beginning."""
    klass: str
    needs: tuple[str, ...]
    by: str | None
    agent: str | None
    family: tuple[str, ...]
    style: str | None = None
    """How it is to come into the target; None: as the gate does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    name: str
    commit: str
    hub: str
    target: str
    ref: str
    tag: str
    """The object that `ref` is at until the queue takes it in."""
    tip: str
    """The target's commit before."""


def submit(wish: Wish, settings: Settings) -> tuple[Mirror, Submitted]:
    """
    Returns also the repository by which its hub can be asked what becomes of it.

    Raises:
        CannotRun: it names nothing, or the hub does not take it.
        HubUnusable, GitFailed: a repository cannot be worked with.
    """
    mine = inspect_hub(wish.repo)
    if mine.local is None:
        raise CannotRun(f"{wish.repo} is not on this host; give the clone that has the commit with --repo")
    git = Git(git_dir=mine.local)
    commit = _commit(git, wish)
    hub = inspect_hub(wish.hub or origin_of(git) or wish.repo, credential_helper=settings.git_credential_helper)
    target = wish.target or hub.default_branch or "main"
    name = entry_name(wish.name or (wish.what if not commit.startswith(wish.what) else commit[:12]))
    mirror = Mirror(path=mine.local, hub=hub.url, credential_helper=settings.git_credential_helper)
    return mirror, hand_in(mirror, target, commit, name, wish)


def hand_in(mirror: Mirror, target: str, commit: CommitId, name: str, wish: Wish) -> Submitted:
    """
    Gives a commit that the mirror has to the gate of its hub.

    Raises:
        CannotRun: the hub has no such target, or does not take it.
        GitFailed: the hub could not be asked.
    """
    ref = submission_ref(target, name)
    there = mirror.hub_refs(ref, f"refs/heads/{target}")
    if f"refs/heads/{target}" not in there:
        raise CannotRun(f"{mirror.hub} has no branch '{target}'; name one that has a gate with --target")
    tag = _tag(mirror.git, commit, name, wish)
    said = mirror.push([RefUpdate(ref=ref, new=tag, expected=there.get(ref))])
    if not isinstance(said, Pushed):
        raise CannotRun(f"{mirror.hub} does not take {ref}: {said}; get permission to push there, or try again")
    own = wish.name or wish.what
    branch = own if entry_name(own) == name else name
    return Submitted(
        name=branch, commit=commit, hub=mirror.hub, target=target, ref=ref, tag=tag, tip=there[f"refs/heads/{target}"]
    )


def _commit(git: Git, wish: Wish) -> CommitId:
    if wish.klass not in CLASSES:
        raise CannotRun(f"there is no class '{wish.klass}'; say {', '.join(CLASSES[:-1])} or {CLASSES[-1]}")
    if wish.style is not None and wish.style not in STYLES:
        raise CannotRun(f"there is no way of landing '{wish.style}'; say {', '.join(STYLES[:-1])} or {STYLES[-1]}")
    try:
        return CommitId(git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{wish.what}^{{commit}}"))
    except GitFailed as unknown:
        raise CannotRun(f"'{wish.what}' is no branch, tag or commit of {Path(wish.repo).absolute()}") from unknown


def origin_of(git: Git) -> str | None:
    said = git.run("config", "--local", "--get", "remote.origin.url", ok=(0, 1))
    return said.text.strip() or None


def _tag(git: Git, commit: CommitId, name: str, wish: Wish) -> CommitId:
    """A tag object that no ref of the repository names: it is for the hub."""
    by = wish.by or _author(git, commit)
    said: list[tuple[str, str]] = [("By", by), ("Class", wish.klass), ("Branch", wish.name or wish.what)]
    said += _each("Needs", [entry_name(one) for one in wish.needs])
    said += [("Style", wish.style)] if wish.style else []
    said += [("Agent", wish.agent)] if wish.agent else []
    said += _each("Family", wish.family)
    plain = "".join(one for one in by if one not in "<>\n") or "somebody"
    text = tag_text(commit, name, said, by=plain, at=time.time())
    return CommitId(git.text("mktag", stdin=text.encode("utf-8", "replace")))


def _each(key: str, values: Sequence[str]) -> list[tuple[str, str]]:
    return [(key, value) for value in values]


def _author(git: Git, commit: CommitId) -> str:
    return git.text("show", "-s", "--format=%an", commit) or "somebody"
