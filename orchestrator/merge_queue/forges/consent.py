"""Whether a change has the approvals that its target's CODEOWNERS demand, by what the forge says of it."""

from collections.abc import Iterable

from forgepool.orchestrator.merge_queue.forges.codeowners import Codeowners, Missing
from forgepool.orchestrator.merge_queue.forges.protocol import Forge, PullRequest


def wanting(forge: Forge, change: PullRequest, paths: Iterable[str], owners: Codeowners) -> tuple[Missing, ...]:
    """
    The approvals that are still missing; the forge is asked only where somebody owns one of the paths.

    `paths` are those that the change differs in from the target, of a rename both; `owners` is the target's file.

    Raises:
        ForgeRefused, ForgeAway: nothing is known of the approvals, so there are none.
    """
    touched = tuple(paths)
    asked = owners.owners_wanted(touched)
    if not asked:
        return ()
    approved = forge.find_approvers(change)
    if not approved:
        return owners.missing_approvals(touched, ())
    members = {owner: found for owner in asked if (found := forge.members_of(owner)) is not None}
    return owners.missing_approvals(touched, approved, members)
