"""
Lands a spec, one or more batches: composes it again, demands the evidence for exactly that tree, and moves the target
by compare-and-swap.

Composition is deterministic, so composing again must give the commit that was tested. The checks are read from the tip
again; each needs a certificate that fits check, definition and inputs. Where the request or the target wants a review,
each entry needs an approval as well (`approvals`). The composed diff may only touch what the entries themselves
changed, and generated files. Of those the kept versions are taken, and no command is run (`regeneration`). The push
moves target and markers together or not at all. Asked twice, the lander finds its own marker and answers `landed`.

Certificates and approvals are trusted to be earned: they guard against mistakes, old messages and mixed-up trees, not
against a forger. The sender of a request can claim that a check was green, and can name other entries, `checks: none`
and other plan checks. With a fleet key only processes that have it can send one. Without a key every writer to Redis
can, and is trusted.

Why not scan once more: an entry with a blocking finding has had no checks run, so it has no certificates. A finding
that only asks for a look gets through where review is wanted, and then the approval is demanded here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from forgepool.supervisor.checks.certificates import Inputs, unproven
from forgepool.supervisor.gate.approvals import find_unapproved
from forgepool.supervisor.gate.check_entry import entries_in, find_taken_out, gate_changed_by, patch_ids
from forgepool.supervisor.gate.diff_ownership import find_unowned
from forgepool.supervisor.gate.requirements import Demands, demands_of
from forgepool.supervisor.messages.answers import Landing
from forgepool.supervisor.messages.requests import LandRequest
from forgepool.supervisor.regeneration.regenerate import NotKept, remaking
from forgepool.workers.policy.gate_file.document import NotConfigured, voting
from forgepool.workers.queue import crash_points
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import marker_ref, require_hub
from forgepool.worktrees.commits.compose import Composed, Conflict, compose, tree_of
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, TreeId
from forgepool.worktrees.hub.hub import HubUnusable
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, open_mirror
from forgepool.worktrees.hub.protect import gate_option, token_at
from forgepool.worktrees.hub.target import Moved, NotMoved, TargetElsewhere, is_contained, move_target


@dataclass(frozen=True, slots=True, kw_only=True)
class _Objection:
    """Why a request may not land, in one sentence."""

    said: str
    unapproved: str = ""
    """All that is wanting is an approval of this task that holds."""
    untested: bool = False
    """All that is wanting is another test of what it composes to by now."""


def land(request: LandRequest, settings: Settings, *, stop: Callable[[], bool]) -> Landing:
    """Land the request. Trouble with git or the hub is `infrastructure`, to be asked again."""
    blank = Landing(
        request_id=request.request_id,
        token=request.token,
        outcome="infrastructure",
        host=settings.host,
    )
    try:
        mirror = _gates_mirror(request.hub, settings)
        ready = _composed(mirror, request)
        if isinstance(ready, _Objection):
            told = {"detail": ready.said, "unapproved": ready.unapproved}
            return blank.model_copy(update={"outcome": "untested" if ready.untested else "refused", **told})
        if stop():
            return blank.model_copy(update={"detail": "given up before the target was moved"})
        crash_points.crash_here("landing.before-push")
        landing = _move(mirror, request, ready, blank)
        crash_points.crash_here("landing.after-push")
        # The push insists on the marker's absence, so looking first would only cost time; a refusal may mean that
        # an earlier sending of this request got through.
        if landing.outcome == "refused" and (stale := _stale_markers(mirror, request)):
            landing = _move(mirror, request, ready, blank, replacing=stale)
        earlier = None if landing.outcome == "landed" else _landed_before(mirror, request)
        if earlier != request.commit and len(request.entries) > 1:
            # The last of them may have landed by itself, by an earlier request; the others have not.
            return landing
        return landing if earlier is None else blank.model_copy(update={"outcome": "landed", "commit": earlier})
    except (GitFailed, MissingCommit, HubUnusable, OSError) as trouble:
        return blank.model_copy(update={"detail": str(trouble)})


def _gates_mirror(hub: str, settings: Settings) -> Mirror:
    """The hub's mirror, whose pushes are known at the hub as the gate's where it is guarded."""
    given = settings.gate_token.get_secret_value().strip() if settings.gate_token else ""
    token = token_at(hub) or given
    option = gate_option(token) if token else None
    return open_mirror(hub, settings.cache, credential_helper=settings.git_credential_helper, push_option=option)


def _landed_before(mirror: Mirror, request: LandRequest) -> CommitId | None:
    """The commit with which the last entry has landed, by its marker in the hub: they land together or not at all."""
    marker = marker_ref(request.run, request.entries[-1].task)
    commit = mirror.hub_refs(marker).get(marker)
    return commit if commit is not None and is_contained(mirror, request.target, commit) else None


def _stale_markers(mirror: Mirror, request: LandRequest) -> dict[str, CommitId]:
    """Return markers of commits that the target lacks: from a lost journal, or from a foreign push."""
    there = mirror.hub_refs(*(marker_ref(request.run, entry.task) for entry in request.entries))
    return {ref: commit for ref, commit in there.items() if not is_contained(mirror, request.target, commit)}


def _composed(mirror: Mirror, request: LandRequest) -> Composed | _Objection:
    """Compose the request again; or return why it may not land, where its evidence is incomplete."""
    entries = entries_in(mirror, request)
    if (gone := find_taken_out(mirror, request)) is not None:
        return _Objection(said=gone.said)
    try:
        demands = demands_of(mirror, request)
    except (NotConfigured, DocumentWrong) as missing:
        return _Objection(said=str(missing))
    made = remaking(mirror, request, demands.regenerate)
    composed = compose(mirror.git, CommitId(request.base), entries, request.style, made)
    if isinstance(composed, Conflict) and isinstance(composed.unmade, NotKept):
        files = ", ".join(composed.paths[:5])
        said = f"what was made of {files} for '{composed.entry}' is not kept any more; it is made and tested again"
        return _Objection(said=said, untested=True)
    if not isinstance(composed, Composed) or composed.commit != request.commit:
        said = f"{request.commit[:12]} is not what the entries compose to on {request.base[:12]}"
        return _Objection(said=said, untested=any(step.made for step in composed.steps))
    if composed.tree != request.tree:
        return _Objection(said=f"the tree of {request.commit[:12]} is {composed.tree[:12]}, not {request.tree[:12]}")
    remade = [path for step in composed.steps if step.made for path in step.made.paths]
    if strange := find_unowned(mirror.git, CommitId(request.base), composed.tree, entries, remade):
        changed = ", ".join(strange[:5])
        return _Objection(said=f"the composed tree changes {changed}, which none of the entries changes")
    if (task := gate_changed_by(mirror.git, request, composed)) is not None:
        return _Objection(said=f"'{task}' changes what the target demands, and lands alone")
    return _unproven(mirror.git, request, composed, demands) or composed


def _unproven(git: Git, request: LandRequest, composed: Composed, demands: Demands) -> _Objection | None:
    """Return what the evidence lacks."""
    checks = demands.checks
    inputs = Inputs(git=git, tree=composed.tree, checks=checks)
    if missing := unproven(voting(checks), inputs, request.certificates):
        return _Objection(said=f"no valid certificate of {', '.join(missing)} for tree {composed.tree[:12]}")
    base = Inputs(git=git, tree=tree_of(git, CommitId(request.base)), checks=checks)
    if missing := unproven(voting(checks), inputs, request.certificates, base):
        said = f"{', '.join(missing)} fails as on another tip than {request.base[:12]}; it is tested again"
        return _Objection(said=said, untested=True)
    if not demands.reviewed:
        return None
    patches = partial(patch_ids, git, CommitId(request.base), composed)
    wanting = find_unapproved(request, patches, everybody=demands.of_everybody, independence=demands.independence)
    return None if wanting is None else _Objection(said=wanting.said, unapproved=wanting.task)


def _move(
    mirror: Mirror,
    request: LandRequest,
    ready: Composed,
    blank: Landing,
    *,
    replacing: Mapping[str, CommitId] | None = None,
) -> Landing:
    answer = move_target(
        mirror,
        target=request.target,
        commit=ready.commit,
        expected_tip=CommitId(request.base),
        certified_tree=TreeId(request.tree),
        markers={
            marker_ref(request.run, entry.task): step.commit
            for entry, step in zip(request.entries, ready.steps, strict=True)
        },
        replacing=replacing or {},
        obsolete=mirror.hub_refs(*request.done) if request.done else {},
        near=tuple(entry.ref for entry in request.spec),
    )
    if not isinstance(answer, Moved):
        require_hub(mirror, request.anchor)
    match answer:
        case Moved(commit=commit):
            return blank.model_copy(update={"outcome": "landed", "commit": commit})
        case TargetElsewhere(tip=tip):
            if tip is None:
                gone = f"branch {request.target} is gone from the hub; create it again, then resume"
                return blank.model_copy(update={"outcome": "refused", "detail": gone})
            detail = f"{request.target} has moved to {tip[:12]}"
            return blank.model_copy(update={"outcome": "moved", "commit": tip, "detail": detail})
        case NotMoved(reason=reason):
            return blank.model_copy(update={"outcome": "refused", "detail": reason, "by_hub": True})
        case _:
            assert_never(answer)
