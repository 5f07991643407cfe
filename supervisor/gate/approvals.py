"""
The approval of what is to land, by a person or by a reviewer of another family than its authors'.

A reviewer has seen a diff, so the approval holds for that diff, wherever on the target it comes to lie. A person has
looked at a candidate, and answers for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from forgepool.supervisor.messages.answers import Approval, PersonApproval, ReviewApproval
from forgepool.supervisor.messages.requests import MODELLESS, EntryRef, Independence, LandRequest
from forgepool.workers.agents.families import is_same_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Unapproved:
    """A task whose approval is wanting, and how, in one sentence."""

    task: str
    said: str


def find_unapproved(
    request: LandRequest,
    patches: Callable[[], Sequence[str]],
    *,
    everybody: bool = False,
    independence: Independence = "other_family",
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
        if (why := _objection(entry, approval, found[at] if found else "", independence)) is not None:
            return Unapproved(task=entry.task, said=why)
    return None


def _objection(entry: EntryRef, approval: Approval | None, patch: str, independence: Independence) -> str | None:
    match approval:
        case None:
            return "it has no approval, and nothing lands here without a review or a person's approval"
        case PersonApproval(commit=commit, by=by):
            return None if entry.commit == commit else f"{by} has approved {commit[:12]}, not that of '{entry.task}'"
        case ReviewApproval():
            return _unreviewed(entry, approval, patch, independence)
        case _:
            assert_never(approval)


def _unreviewed(entry: EntryRef, approval: ReviewApproval, patch: str, independence: Independence) -> str | None:
    if not approval.families or "unknown" in approval.families:
        return "the approval does not name its reviewer's family"
    allowed = independence == "other_model" and approval.same_family and _is_other_model(entry, approval)
    if not allowed and (why := _may_be_kin(entry, approval.families)) is not None:
        return why
    if approval.patch_id != patch:
        return "another diff than the one that would land was reviewed; have it reviewed as it is now"
    return None


def _is_other_model(entry: EntryRef, approval: ReviewApproval) -> bool:
    """Tell whether all models are known, and none of the reviewer's is one of the author's."""
    own = entry.author.models
    return bool(own and approval.models) and not any(is_same_model(one, own) for one in approval.models)


def _may_be_kin(entry: EntryRef, families: tuple[str, ...]) -> str | None:
    """Why a reviewer of these families may be one of the entry's own authors; None when it is none."""
    own = entry.author.families
    if "unknown" in own or (not own and entry.author.agent not in MODELLESS):
        return f"the family of the author of '{entry.task}' is not known; let a person approve it"
    if shared := sorted(set(own) & set(families)):
        return f"'{entry.task}' was made by the family {', '.join(shared)}, and so was its review"
    return None
