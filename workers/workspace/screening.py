"""
Scans an attempt's work where it was made, by the gate's own rules and as its base has them.

The gate scans again what would land, and only it judges. Here a finding comes back while its author can still mend it,
and keeps a secret out of the hub.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forgepool.workers.policy.gate_file.document import CheckDefinition, GateFile, as_check
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import WorkOrder, WorkResult
from forgepool.workers.schema.policy_rules import ScanTerms
from forgepool.workers.workspace.scans.findings import ScanFinding, ScannedChange, finding_words
from forgepool.worktrees.commits.changes import FileTooLarge
from forgepool.worktrees.git.git import CommitId, Git, TreeId

if TYPE_CHECKING:
    from forgepool.workers.workspace.scans.subject import Subject

_MOST_TOLD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptWork:
    """The files that an attempt has made so far."""

    git: Git
    order: WorkOrder
    tree: TreeId
    paths: tuple[str, ...]
    """Every path that differs from the base."""
    planned: tuple[str, ...] = ()
    claims: str = ""


def find_held(work: AttemptWork) -> tuple[ScanFinding, ...]:
    """
    Return the findings for which the gate would return the work; none where it is not known by which rules it scans.

    Raises:
        GitFailed: the base or the tree cannot be read.
    """
    from forgepool.workers.workspace.scans.scanning import find_kept_out, scan

    gate = read_gate_at_base(work)
    if gate is None or work.order.scans is None or not work.paths:
        return ()
    reviewed = work.order.scans.reviewed or gate.review == "required"
    return find_kept_out(scan(_subject(work, gate)), reviewed=reviewed)


def find_secrets_held(work: AttemptWork) -> tuple[ScanFinding, ...]:
    """Return the secrets for which the gate would return the work. Raises GitFailed."""
    from forgepool.workers.workspace.scans.content.secrets import RULE

    return tuple(one for one in find_held(work) if one.rule == RULE)


def mask_result(result: WorkResult, work: AttemptWork | None = None) -> WorkResult:
    """Hide what looks like a secret in the texts of a result, and the secrets in the work's files."""
    from forgepool.workers.workspace.scans.content.secrets import find_secrets, mask

    texts = {name: getattr(result, name) for name in ("detail", "log_tail", "claimed_summary")}
    if not any(texts.values()):
        return result
    found = () if work is None else find_secrets(_subject(work, read_gate_at_base(work) or GateFile(checks=())))
    values = [each.value for each in found]
    return result.model_copy(update={name: mask(text, values) for name, text in texts.items() if text})


def describe_held(held: Sequence[ScanFinding]) -> tuple[str, str]:
    """Return one sentence about the findings, and a list of them for their author."""
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    lines = [finding_words(one) for one in held[:_MOST_TOLD]]
    return f"the gate's scans would return it for {lines[0]}{more}", "\n".join(lines)


def why_withheld(work: AttemptWork) -> str:
    """Return why the work must not be pushed, as a sentence without the secret; empty where it may be."""
    return why_unpushable(_subject(work, read_gate_at_base(work) or GateFile(checks=())))


def why_unpushable(subject: "Subject") -> str:
    """Return why a change must not be pushed, as a sentence without the secret; empty where it may be."""
    from forgepool.workers.workspace.scans.content.secrets import RULE, files_not_read, find_secrets
    from forgepool.workers.workspace.scans.shape import scan_sizes
    from forgepool.workers.workspace.scans.subject import printable

    found = [] if RULE in subject.waive else [one for one in find_secrets(subject) if one.weight != "note"]
    if found:
        return f"{printable(found[0].path)}:{found[0].line} looks like {found[0].what}"
    if (large := next(iter(scan_sizes(subject)), None)) is not None:
        return f"{large.path}: {large.said}"
    cut = (file for file in subject.files if file.cut and file.status != "D")
    unread = next(iter((*cut, *files_not_read(subject))), None)
    return f"{printable(unread.path)} is too large to be searched for secrets" if unread is not None else ""


def read_gate_at_base(work: AttemptWork) -> GateFile | None:
    """Return what the base demands, with the plan's checks; None where its file is wrong, which the gate reports."""
    from forgepool.workers.policy.gate_file.reading import read_gate

    terms = work.order.scans or ScanTerms()
    setups = {setup.name: setup.run for setup in work.order.setups}
    checks = [CheckDefinition.model_validate_json(text, extra="ignore") for text in terms.definitions] or [
        CheckDefinition(name=name, run=run, setup=setups.get(name)) for name, run in terms.checks.items()
    ]
    try:
        return read_gate(work.git, CommitId(work.order.base), checks)
    except (DocumentWrong, FileTooLarge):
        return None


def _subject(work: AttemptWork, gate: GateFile) -> "Subject":
    from forgepool.workers.workspace.scans.scanning import subject_of
    from forgepool.workers.workspace.scans.subject import is_covered

    terms = work.order.scans or ScanTerms()
    change = ScannedChange(
        holds=() if work.order.writes_nothing else work.order.files or None,
        # The orchestrator was asked for these, and a path that it refuses has ended the verification.
        extended=work.paths,
        grants=terms.grants,
        waive=terms.waive,
        planned=work.planned,
        claims=work.claims,
    )
    subject = subject_of(work.git, CommitId(work.order.base), work.tree, change, gate.checks, gate.scans)
    generated = [glob for one in gate.regenerate for glob in one.paths]
    return replace(
        subject,
        # The gate runs the commands that make them, and knows which of them were made by hand.
        made=frozenset(path for path in work.paths if is_covered(generated, path)),
        makers=tuple(as_check(one) for one in gate.regenerate),
    )
