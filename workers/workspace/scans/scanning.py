"""
Run every scan over one change, order the findings, and decide which of them keep the entry out.

Each family of rules is a module of its own. `RULES` in the gate file's document names and describes the rules.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from forgepool.workers.policy.gate_file.document import OF_THE_GATE, CheckDefinition, ScanRules
from forgepool.workers.workspace.scans import gate_settings, protection, shape
from forgepool.workers.workspace.scans.content import (
    binaries,
    bypasses,
    evasion,
    instructions,
    placeholders,
    secrets,
    unicode,
)
from forgepool.workers.workspace.scans.findings import ScanFinding, ScannedChange, Weight
from forgepool.workers.workspace.scans.source.grammar import sources
from forgepool.workers.workspace.scans.source.layout import may_be_layout, without_layout
from forgepool.workers.workspace.scans.subject import Subject, find_moved_lines, finding, printable
from forgepool.workers.workspace.scans.tests import tampering
from forgepool.worktrees.commits.changes import tree_paths
from forgepool.worktrees.commits.diff import FileDiff, contents, tree_diff, unread_paths
from forgepool.worktrees.git.git import CommitId, Git, TreeId

MOST_OF_A_RULE = 20
"""Findings shown per rule and weight. One further finding counts the rest."""

OF_PATHS = ("protected-path", "outside-lock")
"""Rules that look at paths alone, not at contents."""
LIMITS = ("empty-change", shape.SIZE_RULE)
"""Rules that block even where findings about a person's change are only reported."""
_NO_RULES = ScanRules()
_WORST_FIRST: dict[Weight, int] = {"blocks": 0, "attention": 1, "note": 2}


def leave_for(findings: Iterable[ScanFinding]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what would let these findings through: the paths to grant, and the rules to waive."""
    paths, rules = dict[str, None](), dict[str, None]()
    for each in findings:
        if each.rule in OF_THE_GATE and each.path:
            paths[each.path] = None
        else:
            rules[each.rule] = None
    return tuple(paths), tuple(rules)


def subject_of(
    git: Git,
    base: CommitId,
    tree: TreeId,
    entry: ScannedChange,
    checks: Sequence[CheckDefinition] = (),
    rules: ScanRules = _NO_RULES,
) -> Subject:
    """
    Return the change that the scans read: the entry composed on `base`, under the target's own `rules`.

    Raises:
        GitFailed: `base` or `tree` is missing.
    """
    files = tree_diff(git, base, tree)
    texts = contents(git, (side for file in files for side in (file.id, file.old_id) if may_be_layout(file)))
    reduced, same_code = without_layout(files, texts)
    return Subject(
        git=git,
        base=base,
        tree=tree,
        files=files,
        reduced=reduced,
        same_code=same_code,
        unread=unread_paths(git, base, [file.path for file in files]),
        old_paths=(old_paths := frozenset(tree_paths(git, base))),
        new_paths=_new_paths(old_paths, files),
        checks=tuple(checks),
        protect=rules.protect,
        holds=entry.holds,
        extended=entry.extended,
        grants=entry.grants,
        waive=(*entry.waive, *rules.waive),
        planned=entry.planned,
        claims=entry.claims,
        people=rules.people if entry.by_person else "enforce",
        max_file_mb=rules.max_file_mb,
        commit=CommitId(entry.commit) if entry.commit else None,
    )


def scan(subject: Subject) -> tuple[ScanFinding, ...]:
    """
    Return the findings of all rules that are not waived, worst first, then by place.

    Each rule has a maximum number of findings. In a person's change that is only reported, all but `LIMITS` become
    notes.
    """
    if subject.people == "off":
        limits = (*shape.scan_empty(subject), *shape.scan_sizes(subject))
        return tuple(each for each in limits if each.rule not in subject.waive)
    hidden = secrets.find_secrets(subject)
    values = [each.value for each in hidden]
    counted = {_without_secrets(each, values) for each in _found(subject, hidden) if each.rule not in subject.waive}
    bounded = _bounded(sorted(counted, key=_place))
    return tuple(bounded) if subject.people == "enforce" else tuple(map(_as_note, bounded))


def _as_note(finding_: ScanFinding) -> ScanFinding:
    """Turn a finding into a note without its advice. A secret keeps the advice: it must be revoked all the same."""
    if finding_.rule in LIMITS:
        return finding_
    message = finding_.said if finding_.rule == "secret" else finding_.said.partition("; ")[0]
    return finding_.model_copy(update={"weight": "note", "said": message})


def find_kept_out(findings: Iterable[ScanFinding], *, reviewed: bool) -> tuple[ScanFinding, ...]:
    """Return the findings that keep an entry out: blocking ones, and without a review also those for attention."""
    held = ("blocks",) if reviewed else ("blocks", "attention")
    return tuple(each for each in findings if each.weight in held)


def _found(subject: Subject, hidden: tuple[secrets.Secret, ...]) -> Iterator[ScanFinding]:
    read = sources(subject)
    moved = find_moved_lines(subject)
    yield from secrets.scan_secrets(hidden)
    yield from _not_read(subject)
    yield from unicode.scan_letters(subject)
    yield from unicode.scan_readability(subject, read)
    yield from shape.scan_markers(subject, read)
    yield from instructions.scan_instructions(subject, read)
    yield from placeholders.scan_placeholders(read, moved)
    yield from bypasses.scan_bypasses(read, moved)
    yield from shape.scan_shape(subject)
    yield from shape.scan_sizes(subject)
    yield from protection.scan_protection(subject)
    yield from binaries.scan_binaries(subject)
    yield from gate_settings.scan_gate_settings(subject)
    yield from tampering.scan_tests(subject)
    yield from evasion.scan_harness(subject)


def _not_read(subject: Subject) -> Iterator[ScanFinding]:
    """Report the files that the search for secrets skipped, so that they do not pass for clean."""
    for file in secrets.files_not_read(subject):
        message = "part of this file was not searched for secrets, as the change is too large; have a person read it"
        yield finding(unicode.UNREADABLE, "attention", message, file.path)


def _new_paths(old_paths: frozenset[str], files: Sequence[FileDiff]) -> frozenset[str]:
    gone = {file.path if file.status == "D" else file.old_path for file in files}
    return (old_paths - gone) | {file.path for file in files if file.status != "D"}


def _without_secrets(finding_: ScanFinding, values: list[str]) -> ScanFinding:
    return finding_.model_copy(
        update={
            "path": printable(finding_.path, 4_000),
            "text": printable(secrets.hide_values(finding_.text, values)),
            "said": printable(secrets.hide_values(finding_.said, values), 1_000),
        }
    )


def _place(finding_: ScanFinding) -> tuple[int, str, int, str, str]:
    return _WORST_FIRST[finding_.weight], finding_.path, finding_.line, finding_.rule, finding_.said


def _bounded(findings: Iterable[ScanFinding]) -> Iterator[ScanFinding]:
    counts: Counter[tuple[str, Weight]] = Counter()
    last: dict[tuple[str, Weight], ScanFinding] = {}
    for each in findings:
        kind = (each.rule, each.weight)
        counts[kind] += 1
        if counts[kind] <= MOST_OF_A_RULE:
            yield each
        last.setdefault(kind, each)
    for kind, count in counts.items():
        if count > MOST_OF_A_RULE:
            message = f"{count - MOST_OF_A_RULE} more findings of this rule"
            yield last[kind].model_copy(update={"path": ".", "line": 0, "text": "", "said": message})
