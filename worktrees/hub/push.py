"""
One push of several refs, all or none, each by compare-and-swap; and the meaning of its failure.

The message of a failed push is not reliable, so the refs themselves are read afterwards.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
