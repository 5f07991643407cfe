"""
Proves the evidence of landings: the certificates of checks, and the approvals.

The lander's own rules are used (`supervisor.checks.certificates`). The checks are read from the commit on which the
landing stands, as the gate has read them. A reviewer's approval is bound to a diff, whose digest is computed again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from forgepool.orchestrator.reports.proof.bundle import LandedEntry, LandingProof, ProofBundle, ReviewProof
from forgepool.supervisor.checks.certificates import Inputs, certificate_key, unproven
from forgepool.supervisor.messages.answers import Certificate
from forgepool.workers.policy.gate_file.document import GateFile, voting
from forgepool.workers.policy.gate_file.reading import read_gate
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.worktrees.commits.changes import FileTooLarge, changes
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.commits.diff import patch_id
from forgepool.worktrees.git.git import CommitId, Git, TreeId


def check_certificates(
    bundle: ProofBundle, git: Git, base: str, commit: str, certificates: Sequence[Certificate]
) -> Iterator[str]:
    """Yield what the certificates lack to be those of this commit's tree, by the checks of `base`."""
    where = f"landing {commit[:12]}" if base != commit else f"all checks on {commit[:12]}"
    try:
        gate = read_gate(git, CommitId(base), bundle.plan_checks)
    except (DocumentWrong, FileTooLarge) as wrong:
        yield f"{where}: the target's checks cannot be read: {wrong}"
        return
    names = Counter(one.check for one in certificates)
    if not gate.checks and not bundle.checks_waived and base != commit:
        yield f"{where}: the target at {base[:12]} and the plan have no check, and the plan does not say `checks: none`"
    for one in certificates:
        yield from _check_one(where, one, gate, times=names[one.check])
    inputs = Inputs(git=git, tree=tree_of(git, CommitId(commit)), checks=gate.checks)
    under = Inputs(git=git, tree=tree_of(git, CommitId(base)), checks=gate.checks)
    for name in unproven(voting(gate.checks), inputs, certificates, under):
        yield f"{where}: no certificate shows that check '{name}', as {base[:12]} defines it, was green on its tree"


def _check_one(where: str, one: Certificate, gate: GateFile, *, times: int) -> Iterator[str]:
    if one.check not in {check.name for check in gate.checks}:
        yield f"{where}: it has a certificate of '{one.check}', which is no check of the target or the plan"
    if times > 1:
        yield f"{where}: it has {times} certificates of '{one.check}'"
    if one.key != certificate_key(one.check, one.definition, one.environment, one.tree, one.against):
        yield f"{where}: the certificate of '{one.check}' was changed: its key does not fit"
    if bool(one.known_failures) != bool(one.against) or (one.findings and not one.known_failures):
        yield f"{where}: the certificate of '{one.check}' does not fit the failures that it names"


def voting_certificates(bundle: ProofBundle, git: Git, landing: LandingProof) -> list[Certificate]:
    """Return those that `check_certificates` compares with the tree. The others only have a key that fits."""
    names = {check.name for check in voting(read_gate(git, CommitId(landing.base), bundle.plan_checks).checks)}
    return [one for one in landing.certificates if one.check in names]


def is_of_landed_diff(review: ReviewProof, git: Git, parent: str, tree: str) -> bool:
    """Tell whether a review passed the very diff that landed. A diff with generated files is none that was reviewed."""
    return review.outcome == "passed" and review.patch_id == patch_id(git, CommitId(parent), TreeId(tree))


def check_commands(bundle: ProofBundle, git: Git, base: str, commands: dict[str, str]) -> Iterator[str]:
    """Yield commands that the bundle shows for checks and that are not theirs."""
    try:
        own = {check.name: check.run for check in read_gate(git, CommitId(base), bundle.plan_checks).checks}
    except (DocumentWrong, FileTooLarge):
        return
    for name, command in commands.items():
        if own.get(name) != command:
            yield f"check '{name}' is shown as `{command}`, and at {base[:12]} it runs `{own.get(name, 'nothing')}`"


def check_approval(
    bundle: ProofBundle, git: Git, base: str, entry: LandedEntry, parent: str, tree: str
) -> Iterator[str]:
    """Yield what an entry's approval lacks. `base` has the target's demands; the entry stands on `parent`."""
    try:
        gate = read_gate(git, CommitId(base), bundle.plan_checks)
    except (DocumentWrong, FileTooLarge):
        return
    passed = entry.review is not None and entry.review.outcome == "passed"
    if (gate.review == "required" or entry.task in bundle.reviewed) and not passed and not entry.approved_by:
        yield f"'{entry.task}' landed without the approval that it needs"
    if entry.review is None or not passed or entry.approved_by:
        return
    yield from _check_review(git, entry, entry.review, parent, TreeId(tree), regenerated=bool(gate.regenerate))


def _check_review(
    git: Git, entry: LandedEntry, review: ReviewProof, parent: str, tree: TreeId, *, regenerated: bool
) -> Iterator[str]:
    kin = sorted(set(review.families) & set(entry.families))
    if kin and not review.same_family:
        yield f"'{entry.task}' was written and reviewed by the same family: {', '.join(kin)}"
    if unseen := sorted(set(review.read) - set(review.changed)):
        yield f"the review of '{entry.task}' is said to have read {unseen[0]}, which is not in its diff"
    if is_of_landed_diff(review, git, parent, tree):
        paths = {path for one in changes(git, CommitId(parent), tree) for path in (one.path, one.old_path) if path}
        if review.changed and paths != set(review.changed):
            yield f"the review of '{entry.task}' names other changed files than its diff has"
    elif not regenerated:
        # Generated files are no part of the diff that is approved, and only their commands tell which they are. Where
        # there may be some, the review is told as not provable (`verify`).
        yield f"the review of '{entry.task}' was of another diff than the one that landed"
