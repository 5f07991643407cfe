"""A commit of somebody's repository, given to the gate of a hub: one push."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forgepool.orchestrator.decisions.queue.submissions import CLASSES, STYLES, entry_name, tag_text
from forgepool.orchestrator.launch.prerequisites import CannotReach
from forgepool.orchestrator.merge_queue.hub_queue import HubLook, HubQueue
from forgepool.orchestrator.reports.queue_board import BoardEntry
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


LOOK_S = 1.5
"""Seconds between two looks at the hub."""
LOOKS_GONE = 4
"""Looks in a row at which neither the hub nor the board has an entry: a board may be late, or unreadable."""
PATIENCE_S = 600.0
"""Seconds for which a hub that does not answer is asked again."""

Outcome = Literal["landed", "returned"]
_WORDS = {"waits": "queued", "tested": "testing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryProgress:
    """A line for the person who waits; with the outcome, it is the last one."""

    line: str
    outcome: Outcome | None = None
    entry: BoardEntry | None = None
    is_gone: bool = False
    """Neither the hub nor the board has it. It is believed after some looks."""


def follow_entry(queue: HubQueue, mine: Submitted) -> Iterator[EntryProgress]:
    """
    Each change, until the entry has landed or was returned.

    Raises:
        CannotReach: the hub has not answered for a long time.
    """
    before, answered, gone = "", time.monotonic(), 0
    while True:
        try:
            progress = progress_of(queue, queue.look(), mine)
            answered = time.monotonic()
        except GitFailed as trouble:
            progress = EntryProgress(line=f"the hub does not answer, and is asked again: {trouble}")
            if time.monotonic() > answered + PATIENCE_S:
                raise CannotReach(
                    f"{mine.hub} has not answered for {PATIENCE_S / 60:.0f} minutes: {trouble}"
                ) from trouble
        gone = gone + 1 if progress.is_gone else 0
        if 0 < gone < LOOKS_GONE:
            time.sleep(LOOK_S)
            continue
        if progress.line != before:
            yield progress
        if progress.outcome is not None:
            return
        before = progress.line
        time.sleep(LOOK_S)


def progress_of(queue: HubQueue, look: HubLook, mine: Submitted) -> EntryProgress:
    """Raises GitFailed where the hub cannot be asked what has landed."""
    entry = look.entry(mine.name)
    if look.submitted.get(mine.ref) == mine.tag:
        waits = "queued; the queue takes it in when it looks at the hub again"
        late = f"queued; {look.silence}, and it will be picked up when one starts"
        return EntryProgress(line=late if look.silence else waits)
    if look.board is None:
        if queue.contains(look, mine.commit):
            return EntryProgress(line=f"landed; {mine.target} has it", outcome="landed")
        if mine.ref in look.submitted or look.silence:
            return _gone(look, mine)
        return EntryProgress(line=f"the queue of {mine.target} does not show here how entries stand; ask on its host")
    refused = [one.why for one in look.board.refused if one.name == mine.name and one.commit == mine.commit]
    if entry is None or (refused and entry.stand.commit != mine.commit):
        return _not_there(queue, look, mine, refused[-1] if refused else "")
    if entry.stand.commit != mine.commit:
        return EntryProgress(line=f"returned; {entry.stand.commit[:12]} was submitted in its place", outcome="returned")
    return _standing(queue, look, mine, entry)


def _not_there(queue: HubQueue, look: HubLook, mine: Submitted, why: str) -> EntryProgress:
    if queue.contains(look, mine.commit):
        return EntryProgress(line=f"landed; {mine.target} has {mine.commit[:12]} already", outcome="landed")
    if why:
        return EntryProgress(line=f"returned; it was not taken in: {why}", outcome="returned")
    in_line = sum(one.stand.place is not None for one in look.board.entries) if look.board is not None else 0
    if mine.ref not in look.submitted and look.board is not None and look.board.in_line > in_line:
        return EntryProgress(line="queued; it stands behind those that the queue shows here")
    return _gone(look, mine)


def _gone(look: HubLook, mine: Submitted) -> EntryProgress:
    """Tell of what neither the hub nor the queue has: a queue shows an entry before it takes the ref away."""
    what = (
        "another submission was made in its place"
        if mine.ref in look.submitted
        else "it was withdrawn before a queue took it in"
    )
    return EntryProgress(line=f"returned; {what}", outcome="returned", is_gone=True)


def _standing(queue: HubQueue, look: HubLook, mine: Submitted, entry: BoardEntry) -> EntryProgress:
    stand = entry.stand
    if stand.state == "landed" and stand.code == "lost":
        return EntryProgress(line=f"returned; {stand.why}", outcome="returned", entry=entry)
    if stand.state == "landed":
        if queue.has_landed(look, mine.name, mine.commit, mine.tip):
            return EntryProgress(line=f"landed as {stand.landed_as[:12]}", outcome="landed", entry=entry)
        where = f"{mine.target} does not have {stand.landed_as[:12]}"
        return EntryProgress(line=f"the queue says that it has landed, and {where}; it is asked again")
    if stand.state in ("returned", "withdrawn"):
        why = stand.why if stand.state == "returned" else "withdrawn"
        return EntryProgress(line=f"returned; {why}", outcome="returned", entry=entry)
    quiet = f" ({look.silence})" if look.silence else ""
    return EntryProgress(line=f"{_WORDS.get(stand.state, stand.state)}; {stand.why}{quiet}")
