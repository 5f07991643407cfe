"""
Whether somebody who may has approved what is to land: a reviewer of another family than its authors', or a person.

A reviewer has seen a diff, so the approval holds for that diff, wherever on the target it comes to lie. A person has
looked at a candidate, and answers for it.
"""

from collections.abc import Callable
from typing import assert_never

from supervisor.messages import EntryRef, LandRequest, PersonApproval, ReviewApproval

_NOBODYS = ("command",)
"""Agents behind which there is no model."""


def unapproved(request: LandRequest, patch: Callable[[], str]) -> str | None:
    """
    Why the request's approval lets nothing land, in one sentence; None when it does.

    `patch` gives the patch id of the diff that would land, as found by the one who asks.
    """
    match request.approval:
        case None:
            return "nobody has approved it, and nothing lands here without a review or a person's approval"
        case PersonApproval(commit=commit, by=by):
            others = [entry.task for entry in request.entries if entry.commit != commit]
            return f"{by} has approved {commit[:12]}, not the candidate of '{others[0]}'" if others else None
        case ReviewApproval():
            return _unreviewed(request, request.approval, patch)
        case _:
            assert_never(request.approval)


def _unreviewed(request: LandRequest, approval: ReviewApproval, patch: Callable[[], str]) -> str | None:
    if not approval.families or "unknown" in approval.families:
        return "the approval does not say of which family its reviewer is"
    for entry in request.entries:
        if (why := _may_be_kin(entry, approval.families)) is not None:
            return why
    if approval.patch_id != patch():
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
