"""
Where the `.git` of a folder leads: what a command that works in the folder may read, and must not change.

Nothing is run, and nothing of a git directory is believed that does not itself name the folder.
"""

import os
from pathlib import Path

_LEADS_TO = "gitdir:"


class NotOurs(Exception):
    """A `.git` that leads to somewhere it should not; one sentence."""


def git_folders(folder: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """
    What is to be protected in the folder, and what beside it is to be readable for git to work; real paths.

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
    said = pointer.read_text(errors="replace").strip()
    admin = _real(pointer.parent / said.removeprefix(_LEADS_TO).strip())
    if not said.startswith(_LEADS_TO) or _line(admin / "gitdir", admin) != pointer:
        raise NotOurs(f"{pointer} leads to no worktree of its own; run `git worktree repair` where the repository is")
    return admin


def _shared(pointer: Path, admin: Path) -> Path:
    shared = _line(admin / "commondir", admin)
    if shared is None or not (shared / "HEAD").is_file() or not (shared / "objects").is_dir():
        raise NotOurs(f"{pointer} leads to no repository; run `git worktree repair` where that is")
    return shared


def _line(file: Path, above: Path) -> Path | None:
    """The path in a file, which may be relative to a folder."""
    try:
        said = file.read_text(errors="replace").strip()
    except OSError:
        return None
    return _real(above / said) if said else None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
