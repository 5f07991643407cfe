"""
One push of several refs, all or none, each by compare-and-swap; the meaning of its failure; the locks it may leave.

The message of a failed push is not reliable, so the refs themselves are read afterwards.
"""

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from forgepool.worktrees.git.git import CommitId, GitFailed, GitOutput, is_object_id, is_ref, without_password


@dataclass(frozen=True, slots=True, kw_only=True)
class RefUpdate:
    """A ref to move from `expected` (None: it must not exist) to `new` (None: delete it)."""

    ref: str
    new: CommitId | None
    expected: CommitId | None

    def __post_init__(self) -> None:
        if not is_ref(self.ref):
            raise ValueError(f"{self.ref!r} is not a full ref name; it would be refs/heads/NAME or the like")
        for commit in (self.new, self.expected):
            if commit is not None and not is_object_id(commit):
                raise ValueError(f"{self.ref}: {commit!r} is not a full commit id")


@dataclass(frozen=True, slots=True)
class Pushed:
    """Every ref has the wanted value at the hub."""


@dataclass(frozen=True, slots=True)
class Stale:
    """A ref was not where it was expected; nothing was moved."""

    ref: str
    actual: CommitId | None = None
    """Its commit; None when the ref does not exist."""


@dataclass(frozen=True, slots=True)
class PushRefused:
    """The hub refused, though every ref is where it was expected; nothing was moved."""

    reason: str


PushAnswer: TypeAlias = Pushed | Stale | PushRefused

LOCKED = ".lock': File exists"
_TRANSIENT = ("failed to update ref", "cannot lock ref", "failed to lock", "unpacker error", "stale info")
_FOLLOWING = ("atomic push fail", "atomic transaction failed", "transaction failed", "fetch first")
_NO_ACCESS = re.compile(
    r"permission\b.*\bdenied|read[- ]only|not permitted|insufficient permission|access denied|\b40[13]\b"
    r"|authentication failed|not allowed to (?:push|upload)|unable to create temporary object directory",
    re.IGNORECASE,
)


def push_words(updates: Sequence[RefUpdate]) -> tuple[list[str], list[str]]:
    """Return the lease options and the refspecs for exactly these updates."""
    leases = [f"--force-with-lease={update.ref}:{update.expected or ''}" for update in updates]
    return leases, [f"{update.new or ''}:{update.ref}" for update in updates]


def judge_push(
    argv: tuple[str, ...], output: GitOutput, updates: Sequence[RefUpdate], refs: Mapping[str, CommitId]
) -> PushAnswer:
    """
    Interpret a failed push from its output and from where the refs are now.

    Raises:
        GitFailed: neither a moved ref nor a refusal explains it, so a retry may help.
    """
    if all(refs.get(update.ref) == update.new for update in updates):
        return Pushed()
    for update in updates:
        actual = refs.get(update.ref)
        if actual not in (update.new, update.expected):
            return Stale(update.ref, actual)
    reason = _refusal(output)
    if reason is None:
        raise GitFailed(argv, output.status, _locked(output) or output.stderr)
    return PushRefused(reason)


def _locked(output: GitOutput) -> str | None:
    """Return the line that names the lock in the way, which git prints before its summary."""
    lines = (line.removeprefix("remote:").strip() for line in output.stderr.splitlines())
    return next((line for line in lines if LOCKED in line), None)


def _refusal(output: GitOutput) -> str | None:
    """Return why the hub refused, in one sentence; None when it did not refuse."""
    denied = _NO_ACCESS.search(output.stderr)
    for ref, why in _rejections(output.text):
        if why.startswith(_FOLLOWING):
            continue
        if not why.startswith(_TRANSIENT):
            return without_password(f"the hub refused {ref}: {why}{_remark(output.stderr)}")
    if denied is None:
        return None
    line = next(line for line in output.stderr.splitlines() if _NO_ACCESS.search(line))
    return without_password(f"the hub gives no permission to push: {line.removeprefix('remote:').strip()}")


def _rejections(porcelain: str) -> list[tuple[str, str]]:
    """Return ref and reason of every `!` line: `!<TAB>from:to<TAB>[remote rejected] (reason)`."""
    found = []
    for line in porcelain.splitlines():
        flag, _, rest = line.partition("\t")
        names, _, summary = rest.partition("\t")
        if flag == "!":
            why = re.search(r"\((.*)\)$", summary)
            found.append((names.rpartition(":")[2], why[1] if why else summary))
    return found


def _remark(stderr: str) -> str:
    """Return the first line of the hub's own hook, in parentheses, if there is one."""
    remarks = (line.removeprefix("remote:").strip() for line in stderr.splitlines() if line.startswith("remote:"))
    first = next((remark for remark in remarks if remark and not remark.startswith("error:")), "")
    return f" ({first})" if first else ""


STALE_S = 10.0
"""The age of a lock left behind: git holds one for milliseconds, except while a hook on transactions works."""
STALE_WITH_HOOK_S = 120.0


def remove_stale_locks(git_dir: Path, refs: Iterable[str]) -> list[Path]:
    """
    Remove and return the stale locks of these refs, of HEAD and of the packed refs, in a hub on this host.

    A killed push leaves them, and nothing else removes them. None are removed while a git process works in the hub.
    """
    age_s = STALE_WITH_HOOK_S if _may_have_hook(git_dir) else STALE_S
    locks = [git_dir / f"{ref}.lock" for ref in ("HEAD", "packed-refs", *refs)]
    # One process at a time: another may have removed a stale lock meanwhile, and taken it.
    holder = os.open(git_dir, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        stale = [lock for lock in locks if _is_old(lock, age_s)]
        if not stale or _somebody_works_in(git_dir):
            return []
        for lock in stale:
            lock.unlink(missing_ok=True)
        return stale
    finally:
        os.close(holder)


def _may_have_hook(git_dir: Path) -> bool:
    """Is there a hook that works while refs are locked, or may it be in a folder that the settings name?"""
    hook, settings = git_dir / "hooks" / "reference-transaction", git_dir / "config"
    if hook.exists() or not settings.is_file():
        return True
    return re.search(rb"hookspath|include", settings.read_bytes().lower()) is not None


def _is_old(lock: Path, age_s: float) -> bool:
    try:
        found = lock.lstat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and time.time() - found.st_mtime > age_s


def _somebody_works_in(git_dir: Path) -> bool:
    place = git_dir.resolve()
    return any(folder == place or folder.is_relative_to(place) for folder in _folders())


def _folders() -> Iterator[Path]:
    """Yield the working folders of git processes on this host. Those of this user, whose locks matter, are readable."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if (process / "comm").read_text().startswith("git"):
                    yield (process / "cwd").readlink()
