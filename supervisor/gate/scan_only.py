"""The scans by themselves, which take milliseconds. No command is run."""

import time
from dataclasses import replace

from forgepool.supervisor.gate.check_entry import entries_in, find_taken_out
from forgepool.supervisor.gate.requirements import demands_of
from forgepool.supervisor.gate.verdicts import conflicting, keep_out
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.supervisor.regeneration.regenerate import Unrun
from forgepool.workers.policy.gate_file.document import NotConfigured, as_check
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.scans.scanning import find_kept_out as held_of
from forgepool.workers.workspace.scans.scanning import scan, subject_of
from forgepool.worktrees.commits.compose import Composed, Conflict, compose
from forgepool.worktrees.commits.diff import patch_id
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.hub import HubUnusable
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, open_mirror


def screen(request: CheckRequest, settings: Settings) -> CheckResult:
    """Scan a request of one entry. `green` says nothing about checks, carries no certificate, and needs none."""
    started = time.monotonic()
    blank = CheckResult(
        request_id=request.request_id, token=request.token, verdict="infrastructure", host=settings.host
    )
    try:
        mirror = open_mirror(request.hub, settings.cache, credential_helper=settings.git_credential_helper)
        result = _screened(mirror, request.model_copy(update={"checks_waived": True}), blank)
    except (NotConfigured, DocumentWrong) as wrong:
        result = blank.model_copy(update={"verdict": "not_configured", "detail": str(wrong)})
    except (GitFailed, MissingCommit, HubUnusable, OSError) as trouble:
        result = blank.model_copy(update={"detail": str(trouble)})
    return result.model_copy(update={"seconds": time.monotonic() - started})


def _screened(mirror: Mirror, request: CheckRequest, blank: CheckResult) -> CheckResult:
    entries, demands, base = entries_in(mirror, request), demands_of(mirror, request), CommitId(request.base)
    if (gone := find_taken_out(mirror, request)) is not None:
        return blank.model_copy(update={"verdict": "stale", "detail": gone})
    composed = compose(mirror.git, base, entries, request.style, Unrun(definitions=demands.regenerate))
    match composed:
        case Conflict():
            return conflicting(mirror, request, composed, blank)
        case Composed(commit=commit, tree=tree):
            (entry,) = request.entries
            subject = subject_of(mirror.git, base, tree, entry, demands.checks, demands.scans)
            makers = tuple(as_check(one) for one in demands.regenerate)
            findings = scan(replace(subject, makers=makers))
            patch = patch_id(mirror.git, base, tree)
            told = blank.model_copy(
                update={"commit": commit, "tree": tree, "patch_id": patch, "findings": findings, "verdict": "green"}
            )
            held = held_of(findings, reviewed=demands.reviewed)
            return keep_out(request, composed, held, told) if held else told
