"""
Whether somebody who may has approved what is to land: a reviewer of another family than its authors', or a person.

A reviewer has seen a diff, so the approval holds for that diff, wherever on the target it comes to lie. A person has
looked at a candidate, and answers for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from supervisor.messages import Approval, EntryRef, LandRequest, PersonApproval, ReviewApproval

_NOBODYS = ("command",)
"""Agents behind which there is no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unapproved:
    """A task whose approval is wanting, and how, in one sentence."""

    task: str
    said: str


def unapproved(
    request: LandRequest, patches: Callable[[], Sequence[str]], *, everybody: bool = False
) -> Unapproved | None:
    """
    Why the request's approvals let nothing land; None when they do.

    `everybody`: the target wants one of each entry, whatever the request says.

    `patches` gives the patch id of what each entry changes where it would land, as found by the one who asks.
    """
    missing = len(request.entries) - len(request.approvals)
    approvals = (*request.approvals, *(None for _ in range(missing)))[: len(request.entries)]
    found: Sequence[str] = ()
    for at, (entry, approval) in enumerate(zip(request.entries, approvals, strict=True)):
        if not (everybody or entry.reviewed or (request.reviewed and len(request.entries) == 1)):
            continue
        found = found or (patches() if isinstance(approval, ReviewApproval) else ())
        if (why := _objection(entry, approval, found[at] if found else "")) is not None:
            return Unapproved(task=entry.task, said=why)
    return None


def _objection(entry: EntryRef, approval: Approval | None, patch: str) -> str | None:
    match approval:
        case None:
            return "nobody has approved it, and nothing lands here without a review or a person's approval"
        case PersonApproval(commit=commit, by=by):
            return None if entry.commit == commit else f"{by} has approved {commit[:12]}, not that of '{entry.task}'"
        case ReviewApproval():
            return _unreviewed(entry, approval, patch)
        case _:
            assert_never(approval)


def _unreviewed(entry: EntryRef, approval: ReviewApproval, patch: str) -> str | None:
    if not approval.families or "unknown" in approval.families:
        return "the approval does not say of which family its reviewer is"
    if (why := _may_be_kin(entry, approval.families)) is not None:
        return why
    if approval.patch_id != patch:
        return "another diff than the one that would land was reviewed; have it reviewed as it is now"
    return None


def _may_be_kin(entry: EntryRef, families: tuple[str, ...]) -> str | None:
    """Why a reviewer of these families may be one of the entry's own authors; None when it is none."""
    own = entry.author.families
    if "unknown" in own or (not own and entry.author.agent not in _NOBODYS):
        return f"nobody can tell of which family the author of '{entry.task}' is; let a person approve it"
    if shared := sorted(set(own) & set(families)):
        return f"'{entry.task}' was made by the family {', '.join(shared)}, and so was its review"
    return None
