"""
Runs the recorded checks again, on each tree that landed, on this host and in its sandbox.

A bundle without a signature that holds brings no commands: `plan_checks` are then empty, and only the
target's own checks run.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from forgepool.orchestrator.reports.proof.bundle import LandingProof, ProofBundle
from forgepool.supervisor.gate.check_entry import examine
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.workers.policy.gate_file.document import GATE_FILE, CheckDefinition, voting
from forgepool.workers.policy.gate_file.reading import read_gate
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.changes import changes
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror

_PATIENCE_S = 3600.0


def find_landings_to_check(
    bundle: ProofBundle, mirror: Mirror, plan_checks: Sequence[CheckDefinition]
) -> tuple[LandingProof, ...]:
    """Return the landings for which there are checks. Raises DocumentWrong, FileTooLarge, GitFailed."""
    return tuple(
        landing
        for landing in bundle.landings
        if voting(read_gate(mirror.git, CommitId(landing.base), plan_checks).checks)
    )


def run_checks_again(
    bundle: ProofBundle,
    landings: Sequence[LandingProof],
    plan_checks: tuple[CheckDefinition, ...],
    mirror: Mirror,
    settings: Settings,
    *,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Yield a sentence for each landing whose checks are not green here. Nothing that this host remembers is used."""
    confined = settings.model_copy(update={"sandbox": "auto"}) if settings.sandbox == "off" else settings
    for landing in landings:
        where = f"landing {landing.commit[:12]}"
        changed = {one.path for one in changes(mirror.git, CommitId(landing.base), CommitId(landing.commit))}
        if GATE_FILE in changed:
            yield f"{where}: it changes {GATE_FILE}, so its checks cannot be run again as they were"
            continue
        request = _request(bundle, mirror, landing).model_copy(update={"plan_checks": plan_checks})
        result = examine(request, confined, stop=stop)
        if result.verdict != "green":
            yield f"{where}: run again here, its checks are not green: {_why(result)}"


def _request(bundle: ProofBundle, mirror: Mirror, landing: LandingProof) -> CheckRequest:
    """Ask for the whole set of checks on the landed commit itself."""
    now = time.time()
    return CheckRequest(
        request_id=f"verify-{secrets.token_hex(6)}",
        token=secrets.token_hex(8),
        run="verify",
        hub=mirror.hub,
        target=bundle.target,
        base=landing.commit,
        entries=(),
        whole=True,
        checks_waived=bundle.checks_waived,
        private=True,
        issued_at=now,
        start_by=now + _PATIENCE_S,
    )


def _why(result: CheckResult) -> str:
    failed = ", ".join(f"'{one.check}' ({one.reason or one.how})" for one in result.failures)
    return failed or result.detail or result.verdict
