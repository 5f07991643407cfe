"""
All scans, asked together: what they look at, what they found, and what of it keeps an entry out.

Each family of rules is a module beside this one; what a rule is called and what it means is in `RULES`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from forgepool.supervisor.findings import ScanFinding, Weight
from forgepool.supervisor.gate_file.document import OF_THE_GATE, CheckDefinition, ScanRules
from forgepool.supervisor.messages import EntryRef
from forgepool.supervisor.scans import gate_settings, protection, shape
from forgepool.supervisor.scans.content import bypasses, evasion, instructions, placeholders, secrets, unicode
from forgepool.supervisor.scans.source.grammar import sources
from forgepool.supervisor.scans.source.layout import may_be_layout, without_layout
from forgepool.supervisor.scans.subject import Subject, find_moved_lines, finding, printable
from forgepool.supervisor.scans.tests import tampering
from forgepool.worktrees.commits.diff import contents, tree_diff, unread_paths
from forgepool.worktrees.git.git import CommitId, Git, TreeId

MOST_OF_A_RULE = 20
"""Findings that are told of one rule and weight; one more says how many there are besides."""

OF_PATHS = ("protected-path", "outside-lock")
"""Rules about files as such, whatever is in them."""
LIMITS = ("empty-change", shape.SIZE_RULE)
"""Rules that hold for every change, also where findings of a person's change are only reported."""
_NO_RULES = ScanRules()
_WORST_FIRST: dict[Weight, int] = {"blocks": 0, "attention": 1, "note": 2}


def leave_for(findings: Iterable[ScanFinding]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a person would have to say to let these through: paths that may be changed, and rules to be waived."""
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
    entry: EntryRef,
    checks: Sequence[CheckDefinition] = (),
    rules: ScanRules = _NO_RULES,
) -> Subject:
    """
    What there is to scan of an entry that is composed on `base`; `rules` are those of the target's own gate file.

    Raises:
        GitFailed: one of the two is not there.
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
        old_paths=_paths(git, base),
        new_paths=_paths(git, tree),
        checks=tuple(checks),
        protect=rules.protect,
        holds=entry.holds,
        extended=entry.extended,
        grants=entry.grants,
        waive=(*entry.waive, *rules.waive),
        planned=entry.planned,
        claims=entry.claims,
        people=rules.people if entry.author.is_person else "enforce",
        max_file_mb=rules.max_file_mb,
        commit=CommitId(entry.commit),
    )


def scan(subject: Subject) -> tuple[ScanFinding, ...]:
    """
    What all rules find, save those that are waived: the worst first, then by place; of one rule so many at most.

    Of a person's change that is only reported, what is no limit is a note, after it has been put in order.
    """
    if subject.people == "off":
        return tuple(
            each for each in (*shape.scan_empty(subject), *shape.scan_sizes(subject)) if _counts(subject, each)
        )
    hidden = secrets.find_secrets(subject)
    values = [each.value for each in hidden]
    found = (each for each in _found(subject, hidden) if _counts(subject, each))
    bounded = _bounded(sorted({_told(each, values) for each in found}, key=_place))
    return tuple(bounded) if subject.people == "enforce" else tuple(map(_reported, bounded))


def _counts(subject: Subject, found: ScanFinding) -> bool:
    return found.rule not in subject.waive


def _reported(found: ScanFinding) -> ScanFinding:
    """As a note, without what would be right: nobody asks for that. A key is to be taken back all the same."""
    if found.rule in LIMITS:
        return found
    said = found.said if found.rule == "secret" else found.said.partition("; ")[0]
    return found.model_copy(update={"weight": "note", "said": said})


def find_kept_out(findings: Iterable[ScanFinding], *, reviewed: bool) -> tuple[ScanFinding, ...]:
    """Those that keep an entry out: all that block, and, where nobody else looks at it, what wants to be looked at."""
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
    yield from gate_settings.scan_gate_settings(subject)
    yield from tampering.scan_tests(subject)
    yield from evasion.scan_harness(subject)


def _not_read(subject: Subject) -> Iterator[ScanFinding]:
    """What nobody has looked through for secrets is said, and not taken for free of them."""
    for file in secrets.files_not_read(subject):
        said = "part of this file was not searched for secrets, as the change is too large; have a person read it"
        yield finding(unicode.UNREADABLE, "attention", said, file.path)


def _paths(git: Git, treeish: str) -> frozenset[str]:
    return frozenset(git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", treeish).fields)


def _told(found: ScanFinding, values: list[str]) -> ScanFinding:
    """The finding as it may be shown: on one line each, and without any secret."""
    return found.model_copy(
        update={
            "path": printable(found.path, 4_000),
            "text": printable(secrets.hide_values(found.text, values)),
            "said": printable(secrets.hide_values(found.said, values), 1_000),
        }
    )


def _place(found: ScanFinding) -> tuple[int, str, int, str, str]:
    return _WORST_FIRST[found.weight], found.path, found.line, found.rule, found.said


def _bounded(findings: Iterable[ScanFinding]) -> Iterator[ScanFinding]:
    """At most so many of one rule and weight, then one that counts the others."""
    told: Counter[tuple[str, Weight]] = Counter()
    last: dict[tuple[str, Weight], ScanFinding] = {}
    for each in findings:
        kind = (each.rule, each.weight)
        told[kind] += 1
        if told[kind] <= MOST_OF_A_RULE:
            yield each
        last.setdefault(kind, each)
    for kind, count in told.items():
        if count > MOST_OF_A_RULE:
            said = f"{count - MOST_OF_A_RULE} more findings of this rule"
            yield last[kind].model_copy(update={"path": ".", "line": 0, "text": "", "said": said})
