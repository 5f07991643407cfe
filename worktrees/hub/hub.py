"""Finds a repository and refuses one that cannot be used: the hub, and the git folder of a work tree."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from forgepool.worktrees.errors import UserError
from forgepool.worktrees.git.git import (
    Git,
    GitFailed,
    find_repository,
    network_environment,
    run_outside,
    without_password,
)

_SCHEMES = ("file", "ssh", "git+ssh", "ssh+git", "http", "https", "git")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HELPER = re.compile(r"[A-Za-z0-9]+::")
_HOST_PATH = re.compile(r"[^/:\s]+:(?!:)")


class HubUnusable(UserError):
    """The hub cannot be used; the text says why and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFacts:
    """The facts about a hub. `url` is for fetch and push; `local` is its git folder on this host, if it is here."""

    url: str
    local: Path | None
    bare: bool
    default_branch: str | None
    checked_out: Mapping[str, Path]
    """Maps a branch to the folder it is checked out in; empty for remote hubs."""


def is_url(where: str) -> bool:
    """Does git take it for a URL (or `host:path`), and not for a path on this host?"""
    return bool(_SCHEME.match(where) or _HELPER.match(where)) or (
        _HOST_PATH.match(where) is not None and not Path(where).exists()
    )


def inspect_hub(where: str, *, credential_helper: str | None = None) -> HubFacts:
    """
    Return the facts about a hub named by a path, a path inside a work tree, or a URL, which may need a password.

    Raises:
        HubUnusable: missing, not a repository, without a commit, shallow, unreachable, of an unsafe protocol,
            or owned by another user.
    """
    if not is_url(where):
        return _inspect_folder(Path(where).absolute(), url=None)
    scheme = _SCHEME.match(where)
    if _HELPER.match(where) or (scheme and scheme[1] not in _SCHEMES):
        raise HubUnusable(
            f"{without_password(where)}: its protocol is not safe to use; use one of {', '.join(_SCHEMES)}"
        )
    if scheme and scheme[1] == "file":
        return _inspect_folder(Path(unquote(urlsplit(where).path)), url=where)
    return _inspect_url(where, credential_helper)


def _inspect_folder(folder: Path, url: str | None) -> HubFacts:
    if not folder.is_dir():
        raise HubUnusable(f"{folder}: there is no such folder; give the path or URL of a git repository")
    found = find_repository(folder)
    if "dubious ownership" in found.stderr:
        raise HubUnusable(f"{folder}: the repository is {_foreign(folder)}")
    if found.status != 0:
        raise HubUnusable(
            f"{folder}: not a git repository; give the path of one (--repo, in most commands), "
            f"or make one with: git init {folder}"
        )
    common, bare, shallow = found.text.rsplit("\n", 2)
    git = Git(git_dir=Path(common))
    if shallow == "true":
        raise HubUnusable(f"{folder}: a shallow clone, history is missing; get it with: git fetch --unshallow")
    if not git.text("for-each-ref", "--count=1", "refs/heads", "refs/tags", "refs/remotes"):
        raise HubUnusable(f"{folder}: the repository has no commit; make a first one with: git commit")
    _refuse_foreign(git)
    return HubFacts(
        url=url or common,
        local=Path(common),
        bare=bare == "true",
        default_branch=_default_branch(git),
        checked_out=MappingProxyType(_checked_out(git)),
    )


def _refuse_foreign(git: Git) -> None:
    """Fetch and push refuse a repository of another owner, and git's own exception list is not read here."""
    try:
        git.run("ls-remote", "--", str(git.git_dir), "HEAD")
    except GitFailed as failed:
        if "dubious ownership" in failed.stderr:
            raise HubUnusable(f"{git.git_dir}: the repository is {_foreign(git.git_dir)}") from failed
        raise HubUnusable(f"{git.git_dir}: git cannot read it: {failed}") from failed


def _foreign(folder: Path) -> str:
    return f"owned by another user (id {folder.stat().st_uid}); run as that user, or give a clone of it that is yours"


def _default_branch(git: Git) -> str | None:
    """Return the branch that HEAD names, if it exists."""
    head = git.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).text
    if not head.startswith("refs/heads/") or git.run("show-ref", "--verify", "-q", head, ok=(0, 1)).status:
        return None
    return head.removeprefix("refs/heads/")


def _checked_out(git: Git) -> dict[str, Path]:
    found: dict[str, Path] = {}
    folder = git.git_dir
    for line in git.run("worktree", "list", "--porcelain", "-z").fields:
        word, _, value = line.partition(" ")
        if word == "worktree":
            folder = Path(value)
        elif word == "branch":
            found[value.removeprefix("refs/heads/")] = folder
    return found


def _inspect_url(url: str, helper: str | None) -> HubFacts:
    asking = () if helper is None else ("-c", "credential.helper=", "-c", f"credential.helper={helper}")
    env = network_environment(with_home=helper is not None)
    try:
        output = run_outside(*asking, "ls-remote", "--symref", "--", url, env=env, timeout_s=120).text
    except GitFailed as failed:
        raise HubUnusable(
            f"{without_password(url)}: the hub does not answer; check the URL and your access: {failed}"
        ) from failed
    default: str | None = None
    refs: set[str] = set()
    for line in output.splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: refs/heads/") and name == "HEAD":
            default = value.removeprefix("ref: refs/heads/")
        refs.add(name)
    if not refs:
        raise HubUnusable(f"{without_password(url)}: the hub has no commit; push a first one to it")
    known = default if f"refs/heads/{default}" in refs else None
    return HubFacts(url=url, local=None, bare=True, default_branch=known, checked_out=MappingProxyType({}))


_LEADS_TO = "gitdir:"


class NotOurs(Exception):
    """A `.git` that leads to a wrong place; the text is one sentence."""


def git_folders(folder: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """
    Return the paths to protect in a work tree, and the paths outside that git must read; real paths.

    Runs nothing, and trusts no git directory that does not itself name the folder.

    Raises:
        NotOurs: `.git` is a link, or leads to a place that is no git directory of this folder.
    """
    pointer = folder / ".git"
    if pointer.is_symlink():
        raise NotOurs(f"{pointer} is a symbolic link; a folder is wanted whose .git is a folder, or git's own file")
    if pointer.is_dir():
        return (pointer,), ()
    if not pointer.is_file():
        return (), ()
    return (pointer,), (_shared(pointer, _admin(pointer)),)


def _admin(pointer: Path) -> Path:
    output = pointer.read_text(errors="replace").strip()
    admin = Path(os.path.realpath(pointer.parent / output.removeprefix(_LEADS_TO).strip()))
    if not output.startswith(_LEADS_TO) or _line(admin / "gitdir", admin) != pointer:
        raise NotOurs(f"{pointer} leads to no worktree of its own; run `git worktree repair` where the repository is")
    return admin


def _shared(pointer: Path, admin: Path) -> Path:
    shared = _line(admin / "commondir", admin)
    if shared is None or not (shared / "HEAD").is_file() or not (shared / "objects").is_dir():
        raise NotOurs(f"{pointer} leads to no repository; run `git worktree repair` where that is")
    return shared


def _line(file: Path, above: Path) -> Path | None:
    """Return the path in a file, relative to a folder."""
    try:
        output = file.read_text(errors="replace").strip()
    except OSError:
        return None
    return Path(os.path.realpath(above / output)) if output else None
