"""
The target's demands on all that lands on it, read from its tip and never from a candidate; a plan may add to them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forgepool.supervisor.messages.requests import EntryRef, Independence, TrainRequest
from forgepool.workers.policy.gate_file.document import (
    GATE_FILE,
    CheckDefinition,
    GateFile,
    NotConfigured,
    RegenerateDefinition,
    ScanRules,
    Scopes,
    apply_scopes,
    effective_checks,
    voting,
)
from forgepool.workers.policy.gate_file.reading import read_gate_file, unknown_scopes, unknown_uses
from forgepool.worktrees.commits.changes import FileTooLarge, find_at, read_file
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The demands of a target's tip and a plan together."""

    checks: tuple[CheckDefinition, ...]
    scans: ScanRules
    reviewed: bool
    """Nothing lands without an approval: the plan or the target wants one."""
    of_everybody: bool = False
    """The target wants one of each entry."""
    regenerate: tuple[RegenerateDefinition, ...] = ()
    independence: Independence = "other_family"
    """The independence required of reviewers."""

    def frees(self, entry: EntryRef) -> bool:
        """A person made it, and findings of it are only reported: checks and approvals alone decide."""
        return entry.author.is_person and self.scans.people != "enforce"


def demands_of(mirror: Mirror, request: TrainRequest) -> Demands:
    """
    The checks of the tip's own gate file and of the plan, the former winning on equal names; and what else it says.

    Raises:
        NotConfigured: neither has any check, and the plan does not say `checks: none`; a check cannot fail, or uses one
            that is not there; or the target's file has gone since the run began, or is no file that can be read.
        DocumentWrong: the target's gate file cannot be read as one.
    """
    name = f"{request.target}:{GATE_FILE}"
    text = _gate_file(mirror, request)
    of_target = read_gate_file(text.decode(errors="replace"), name) if text is not None else GateFile(checks=())
    checks = apply_scopes(effective_checks(of_target.checks, request.plan_checks), of_target.scopes)
    if not checks and not request.checks_waived:
        raise NotConfigured(f"neither {name} nor the plan has a check; add one, or say `checks: none` in the plan")
    if checks and not voting(checks):
        raise NotConfigured(f"no check of {name} or the plan has a vote, so nothing would be demanded; let one vote")
    _refuse_worthless(checks, of_target.scopes)
    required = of_target.review == "required"
    reviewed = request.reviewed or required
    return Demands(
        checks=checks,
        scans=of_target.scans,
        reviewed=reviewed,
        of_everybody=required,
        regenerate=of_target.regenerate,
        independence=_independence(of_target, request),
    )


def independence_of(mirror: Mirror, request: TrainRequest) -> Independence:
    """
    Return what is asked of reviewers: as the target has it, else as the plan has it.

    Raises:
        NotConfigured, DocumentWrong: as `demands_of`.
    """
    text = _gate_file(mirror, request)
    if text is None:
        return request.independence
    return _independence(read_gate_file(text.decode(errors="replace"), f"{request.target}:{GATE_FILE}"), request)


def _independence(of_target: GateFile, request: TrainRequest) -> Independence:
    match of_target.review:
        case "required":
            return "other_family"
        case "self-other-model":
            return "other_model"
        case _:
            return request.independence


def read_regenerated(mirror: Mirror, request: TrainRequest) -> tuple[RegenerateDefinition, ...]:
    """
    Return the files of the target that commands generate, whatever else it demands.

    Raises:
        NotConfigured, DocumentWrong: as `demands_of`.
    """
    text = _gate_file(mirror, request)
    if text is None:
        return ()
    return read_gate_file(text.decode(errors="replace"), f"{request.target}:{GATE_FILE}").regenerate


def _refuse_worthless(checks: Sequence[CheckDefinition], scopes: Scopes) -> None:
    from forgepool.supervisor.checks.cannot_fail import why_unfailing

    for _, said in (*unknown_uses(checks), *unknown_scopes(checks, scopes)):
        raise NotConfigured(said)
    for check in checks:
        if check.voting and "cannot_fail" not in check.waive and (why := why_unfailing(check.run)) is not None:
            mend = "let its failure be the check's, or say `waive: [cannot_fail]`"
            raise NotConfigured(f"check '{check.name}' cannot fail: {why}; {mend}")


def _gate_file(mirror: Mirror, request: TrainRequest) -> bytes | None:
    """The target's gate file; None when there is none and never was in this run."""
    base, name = CommitId(request.base), f"{request.target}:{GATE_FILE}"
    found = find_at(mirror.git, base, GATE_FILE).get(GATE_FILE)
    if found is None:
        if request.had_gate_file:
            raise NotConfigured(f"{GATE_FILE} has gone from {request.target}; put it back, or start a new run")
        return None
    if found.kind != "file":
        raise NotConfigured(f"{name} is a {found.kind}; make it a regular file")
    try:
        return read_file(mirror.git, base, GATE_FILE)
    except FileTooLarge as large:
        raise NotConfigured(f"{name} is too large to be a gate file: {large}") from large
