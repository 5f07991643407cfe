"""
Moves refs of a hub on this host without a push, which would start four more git processes.

This is done only if the result is the same: the hub is owned by this user and has no hooks. It has no settings beyond
the ordinary ones, and no branch to move is checked out. In all other cases, and after any error, the caller pushes.
"""

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from forgepool.worktrees.git.git import Git, GitFailed, is_object_id
from forgepool.worktrees.hub.push import RefUpdate

_SECTION = re.compile(r"^\s*\[\s*([^\s\]\"]+)", re.MULTILINE)
_KEY = re.compile(r"^\s*(?:\[[^\]]*\])?\s*([A-Za-z][\w-]*)", re.MULTILINE)
_BARE = re.compile(r"^\s*bare\s*=\s*true\s*$", re.MULTILINE | re.IGNORECASE)
_SECTIONS = frozenset(("core", "remote", "branch", "user"))
_OF_CORE = ("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode")
_KEYS = frozenset((*_OF_CORE, "symlinks", "url", "fetch", "merge", "remote", "name", "email"))
"""The settings a hub may have. Others, such as `receive.denyDeletes`, are for a push to obey."""


def move_refs(hub: Path, mirror: Git, updates: Sequence[RefUpdate]) -> bool:
    """
    Move all the refs of the hub or none, each only from its expected commit; the mirror has the new commits.

    Return False where a push has to do it, or has to tell why it cannot be done.
    """
    with suppress(OSError, UnicodeDecodeError, GitFailed):
        place = next(folder for folder in (hub / ".git", hub, None) if folder is None or (folder / "refs").is_dir())
        if place is not None and _is_plain(place, updates) and _brought(Git(git_dir=place), mirror, updates):
            lines = "".join(map(_line, updates))
            Git(git_dir=place).run("update-ref", "--no-deref", "-m", "push", "--stdin", stdin=lines.encode())
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
    told = {*map(str.lower, _SECTION.findall(settings))} <= _SECTIONS
    told = told and {*map(str.lower, _KEY.findall(settings))} <= _KEYS
    if not told or (place / "objects").stat().st_uid != os.geteuid() or (place / "shallow").exists():
        return False
    hooks = place / "hooks"
    if hooks.is_dir() and any(hook.suffix != ".sample" for hook in hooks.iterdir()):
        return False
    heads = [*place.glob("worktrees/*/HEAD"), *([] if _BARE.search(settings) else [place / "HEAD"])]
    taken = {head.read_text().strip() for head in heads}
    return not any(_is_special(place, update, taken) for update in updates)


def _is_special(place: Path, update: RefUpdate, taken: set[str]) -> bool:
    """Is it checked out, a link to another ref, or a branch to delete?"""
    if update.new is None and (update.expected is None or update.ref.startswith("refs/heads/")):
        return True
    ref = place / update.ref
    return f"ref: {update.ref}" in taken or (ref.is_file() and not is_object_id(ref.read_text().strip()))


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
    files = [Path(each[:2], each[2:]) for each in lacking]
    if not all((theirs / file).is_file() or (ours / file).is_file() for file in files):
        return False
    # The new commits come first in the list and last into the hub: a hub never has a commit without its files.
    for file in reversed(files):
        _bring(theirs / file, ours / file)
    return True


def _bring(source: Path, target: Path) -> None:
    if target.exists():
        return
    target.parent.mkdir(exist_ok=True)
    with suppress(FileExistsError):
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError:
            # Another file system, or one without links.
            aside = target.parent / f"tmp_obj_{os.getpid()}"
            shutil.copyfile(source, aside)
            aside.chmod(0o444)
            aside.replace(target)
