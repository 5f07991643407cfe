"""
Moves refs of a hub on this host without a push, which would start four more git processes.

This is done only if the result is the same: the hub is owned by this user and has no hooks. It has no settings beyond
the ordinary ones, and no branch to move is checked out. In all other cases, and after any error, the caller pushes.
"""

import hashlib
import os
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from forgepool.worktrees.git.git import Git, GitFailed, is_object_id
from forgepool.worktrees.git.objects import put_object
from forgepool.worktrees.hub.push import RefUpdate

_SECTION = re.compile(r"^\s*\[\s*([^\s\]\"]+)", re.MULTILINE)
_KEY = re.compile(r"^\s*(?:\[[^\]]*\])?\s*([A-Za-z][\w-]*)", re.MULTILINE)
_BARE = re.compile(r"^\s*bare\b(.*)$", re.MULTILINE | re.IGNORECASE)
_STRANGE = re.compile(r"\ufeff|\][^\n]*\[")
"""A byte order mark, or a second section on one line."""
_BRANCH = re.compile(r"ref: (refs/heads/\S+)\n")
_SECTIONS = frozenset(("core", "remote", "branch", "user"))
_OF_CORE = ("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode")
_KEYS = frozenset((*_OF_CORE, "symlinks", "url", "fetch", "merge", "remote", "name", "email"))
"""The settings a hub may have. Others, such as `receive.denyDeletes`, are for a push to obey."""
_MOST_BYTES = 50_000_000
"""The largest object that is copied here, as a file and unpacked; both are held in memory."""


def move_refs(hub: Path, mirror: Git, updates: Sequence[RefUpdate]) -> bool:
    """
    Move all the refs of the hub or none, each only from its expected commit; the mirror has the new commits.

    Return False where a push has to do it, or has to tell why it cannot be done.
    """
    with suppress(OSError, ValueError, zlib.error, GitFailed):
        place = next(folder for folder in (hub / ".git", hub, None) if folder is None or (folder / "refs").is_dir())
        if place is not None and _is_plain(place, updates) and _brought(Git(git_dir=place), mirror, updates):
            lines = os.fsencode("".join(map(_line, updates)))
            Git(git_dir=place).run("update-ref", "--no-deref", "-m", "push", "--stdin", stdin=lines)
            return True
    return False


def _line(update: RefUpdate) -> str:
    if update.new is None:
        return f"delete {update.ref} {update.expected}\n"
    if update.expected is None:
        return f"create {update.ref} {update.new}\n"
    return f"update {update.ref} {update.new} {update.expected}\n"


def _is_plain(place: Path, updates: Sequence[RefUpdate]) -> bool:
    settings = (place / "config").read_text()
    told = not _STRANGE.search(settings) and {*map(str.lower, _SECTION.findall(settings))} <= _SECTIONS
    told = told and {*map(str.lower, _KEY.findall(settings))} <= _KEYS
    if not told or (place / "objects").stat().st_uid != os.geteuid() or (place / "shallow").exists():
        return False
    hooks = place / "hooks"
    if hooks.is_dir() and any(hook.suffix != ".sample" for hook in hooks.iterdir()):
        return False
    bare = [each.strip(" \t=").lower() for each in _BARE.findall(settings)] == ["true"]
    heads = [*place.glob("worktrees/*/HEAD"), *([] if bare else [place / "HEAD"])]
    return not any(_is_special(place, update, heads) for update in updates)


def _is_special(place: Path, update: RefUpdate, heads: Sequence[Path]) -> bool:
    """Is it a link to another ref, a branch to delete, or a branch that may be checked out?"""
    ref = place / update.ref
    if _is_link(ref) or (update.new is None and update.expected is None):
        return True
    if not update.ref.startswith("refs/heads/"):
        return False
    # A person who rebases or bisects is on no branch, and on this one again later.
    return update.new is None or any(_branch(place, head) in (None, update.ref) for head in heads)


def _branch(place: Path, head: Path) -> str | None:
    """Return the one branch that is checked out, if it can be told."""
    found = None if head.is_symlink() else _BRANCH.fullmatch(head.read_text())
    return None if found is None or _is_link(place / found[1]) else found[1]


def _is_link(ref: Path) -> bool:
    return ref.is_symlink() or (ref.is_file() and not is_object_id(ref.read_text().strip()))


def _brought(hub: Git, mirror: Git, updates: Sequence[RefUpdate]) -> bool:
    """Give the hub all objects of the new commits that it lacks; False where one is not a file of its own."""
    new = {update.new for update in updates if update.new is not None}
    if not new:
        return True
    theirs, ours = mirror.git_dir / "objects", hub.git_dir / "objects"
    if re.search(r'[:"\n]', str(theirs)):
        return False
    words = ("rev-list", "--objects", "--no-object-names", *sorted(new), "--not", "--all")
    # Git looks through all of them, as it does when it receives a push: what is incomplete does not get in.
    lacking = hub.run(*words, env={"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(theirs)}).text.split()
    sources = {each: theirs / each[:2] / each[2:] for each in lacking}
    if any(not source.is_file() or source.stat().st_size > _MOST_BYTES for source in sources.values()):
        return False
    # The new commits come first in the list and last into the hub: a hub never has a commit without its files.
    return all([_bring(each, sources[each], ours / each[:2] / each[2:]) for each in reversed(lacking)])


def _bring(name: str, source: Path, target: Path) -> bool:
    """
    Copy the file of an object, as a new file of the hub's own; False where it is not the object of that name.

    Why no hard link: a damaged mirror would damage the hub, and the file would keep the mirror's group and age.
    """
    content, stream = source.read_bytes(), zlib.decompressobj()
    digest = hashlib.sha1 if len(name) == 40 else hashlib.sha256
    if digest(stream.decompress(content, _MOST_BYTES), usedforsecurity=False).hexdigest() != name:
        return False
    if not stream.eof or stream.unused_data:
        return False
    put_object(target, content)
    return True
