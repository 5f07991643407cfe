"""
`supply-chain`: new dependencies with the names of others, from elsewhere, and code that runs while they are installed.

All of it has honest uses, so it asks for attention. Only what a change adds counts. What a manifest of the change
declared before may stand in another one now.
"""

import re
from collections.abc import Iterator

from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.languages.suite import beside_tests
from forgepool.workers.workspace.scans.subject import Subject, find_moved_lines, finding, lighter
from forgepool.workers.workspace.scans.supply.lookalikes import find_original
from forgepool.workers.workspace.scans.supply.manifests import (
    INDEX,
    RUNS,
    Declared,
    Dependency,
    is_manifest,
    read_manifest,
)
from forgepool.worktrees.commits.diff import FileDiff, contents

RULE = "supply-chain"
FAR = "this package comes from an address and not from the registry; take a release from the registry"
_LINES = (
    (r"build\.rs", r"\bCommand::new\b|\bTcpStream\b|\b(?:reqwest|ureq|curl)::|\blibc::(?:system|execv\w*)\b", RUNS),
    (
        r"setup\.py",
        r"\bcmdclass\s*=|\bos\.(?:system|popen|exec\w+|spawn\w+)\(|\bsubprocess\.\w+\(|\burl(?:open|retrieve)\(|\bexec\(",
        RUNS,
    ),
    (r"binding\.gyp", r"[\"']actions[\"']\s*:|<!@?\(", RUNS),
    (r"go\.mod", r"=>\s+[^\s.]", "a module is replaced by another one; require the one that is meant"),
    (r"pom\.xml|.*\.gradle(?:\.kts)?", r"<(?:plugin)?repository>|\bmaven\s*[({].*\burl\b|\bmaven\(\s*[\"']", INDEX),
    (r"Gemfile", r"^\s*source\s+[\"'](?!https://rubygems\.org\b)", INDEX),
    (
        r"Dockerfile.*|.*\.(?:sh|bash|ya?ml|toml|cfg|ini)|Makefile|justfile",
        r"--(?:extra-)?index-url[\s=]+[\"']?https?://(?!(?:\w+\.)?pypi\.org\b)"
        r"|\bnpm\b.*--registry[\s=]+[\"']?https?://(?!registry\.npmjs\.org\b)",
        INDEX,
    ),
    (r"Dockerfile.*|.*\.(?:sh|bash|ya?ml)|Makefile|justfile", r"\b(?:pip3?|npm|yarn)\s.*\bgit\+", FAR),
)
_COMMENT = re.compile(r"\s*(?:#|//|<!--)")


def scan_supply(subject: Subject) -> Iterator[ScanFinding]:
    """Report `supply-chain` in manifests, in build scripts, and in commands that name another index."""
    yield from _in_manifests(subject)
    moved = find_moved_lines(subject)
    for file in subject.read:
        name = file.path.rpartition("/")[2]
        patterns = [(re.compile(pattern), why) for names, pattern, why in _LINES if re.fullmatch(names, name)]
        before = [_words(line.text) for line in file.removed if any(each.search(line.text) for each, _ in patterns)]
        for line in file.added if patterns else ():
            why = next((why for pattern, why in patterns if pattern.search(line.text[:2_000])), None)
            # A formatter's other quotes and f-strings have the words that were there.
            restyled = why is not None and any(_words(line.text) <= words for words in before)
            if why is not None and not restyled and not _COMMENT.match(line.text) and line.text.strip() not in moved:
                yield finding(RULE, _weight(file), why, file.path, line.number, line.text)


def _words(line: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W\d]\w+", line[:2_000]))


def _in_manifests(subject: Subject) -> Iterator[ScanFinding]:
    files = [file for file in subject.read if is_manifest(file.path) or is_manifest(file.old_path or file.path)]
    texts = contents(subject.git, {blob for file in files for blob in (file.id, file.old_id) if blob.strip("0")})
    known = frozenset[Declared]().union(
        *(read_manifest(file.old_path or file.path, _text(texts, file.old_id)) for file in files)
    )
    names = {each.name for each in known if isinstance(each, Dependency)}
    for file in files:
        for each in sorted(read_manifest(file.path, _text(texts, file.id)) - known, key=str):
            if (why := _why(each, names)) is not None:
                shown = each.source or each.name if isinstance(each, Dependency) else each.text
                yield finding(RULE, _weight(file), why, file.path, _line(file, each), shown)


def _why(each: Declared, known: set[str]) -> str | None:
    if not isinstance(each, Dependency):
        return each.why
    if each.source:
        return FAR
    if each.name in known or not each.name:
        return None
    if not each.name.isascii():
        return "the name of this package has letters of another alphabet; name the package that is meant"
    original = find_original(each.ecosystem, each.name)
    return None if original is None else f"the name '{each.name}' is easily taken for '{original}'; name the one meant"


def _line(file: FileDiff, each: Declared) -> int:
    """Return the first added line that names the package or the setting; 0 if none does."""
    text = each.name or each.source if isinstance(each, Dependency) else each.text.partition(":")[0].rpartition(".")[2]
    pattern = re.compile("[-_.]+".join(re.escape(part) for part in re.split(r"[-_.]+", text)), re.IGNORECASE)
    return next((line.number for line in file.added if pattern.search(line.text)), 0)


def _weight(file: FileDiff) -> Weight:
    return lighter("attention") if beside_tests(file.path) else "attention"


def _text(texts: dict[str, bytes], content: str) -> str:
    return texts.get(content, b"").decode(errors="replace")
