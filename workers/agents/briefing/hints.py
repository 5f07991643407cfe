"""
Files that a text names: by path, by the end of a path, by name, or as a module.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from forgepool.workers.schema.orders import Prior, WorkOrder
from forgepool.worktrees.commits.changes import tree_paths
from forgepool.worktrees.git.git import CommitId, Git, GitFailed

THRESHOLD = 0.7
MOST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    path: str
    confidence: float
    """0 to 1. By rule it says which rule, not a probability."""
    reason: str
    source: str
    """What it was made from, as the section's first line names it."""


def best(hints: Iterable[Hint], tree: Collection[str]) -> tuple[Hint, ...]:
    """Those that are worth telling, exist and can be quoted: each path once, the surest first."""
    by_path: dict[str, Hint] = {}
    for hint in hints:
        known = by_path.get(hint.path)
        if (
            hint.path in tree
            and _plain(hint.path) == hint.path
            and hint.confidence >= THRESHOLD
            and (not known or known.confidence < hint.confidence)
        ):
            by_path[hint.path] = hint
    return tuple(sorted(by_path.values(), key=lambda hint: (-hint.confidence, hint.path))[:MOST])


def _plain(text: str) -> str:
    """On one line and without quotes of its own: a file's name may hold anything, orders to the reader too."""
    return "".join(each for each in text if each.isprintable() and each != "`")


def render_hints(hints: Sequence[Hint]) -> str:
    """The section of the card; empty without hints. The form of its lines is P-053's."""
    if not hints:
        return ""
    sources = ", ".join(dict.fromkeys(hint.source for hint in hints))
    return "\n".join(
        [
            "## File Hints",
            f"The following files are likely relevant to this task (generated from {sources}):",
            *(f"- `{hint.path}` (confidence: {hint.confidence:.2f}) — {_plain(hint.reason)}" for hint in hints),
        ]
    )


_WORD = re.compile(r"`([^`\n]{1,200})`|([\w./@+-]{2,200})")
_TELLING = re.compile(r"/|\w\.\w|^\.\w|^[A-Z]")
"""A name that is no ordinary word: it has a slash, a dot, or a capital as in Makefile."""
_SOURCE = "the task's words"
_MOST_ALIKE = 3
"""Files of one name, beyond which the name says nothing."""


def find_named_files(text: str, paths: Sequence[str]) -> Iterator[Hint]:
    known = frozenset(paths)
    by_name = _grouped(paths, lambda path: path.rpartition("/")[2])
    by_module = _grouped(paths, lambda path: re.sub(r"(?:/__init__)?\.\w+$", "", path).replace("/", "."))
    for word in words(text):
        if not _TELLING.search(word):
            continue
        if word in known:
            yield Hint(path=word, confidence=0.95, reason="the task names it", source=_SOURCE)
        else:
            yield from _by_name(word, by_name.get(word.rpartition("/")[2], []))
            yield from _by_module(word, by_module)


def words(text: str) -> list[str]:
    """What could be a name of something, each once, in order."""
    found: dict[str, None] = {}
    for quoted, plain in _WORD.findall(text):
        for word in (quoted, *re.findall(r"[\w./@+-]{2,200}", quoted)) if quoted else (plain,):
            found.setdefault(word.strip().removeprefix("./").rstrip(".").rstrip("/"))
    return [word for word in found if word]


def _by_name(word: str, alike: Sequence[str]) -> Iterator[Hint]:
    if "/" in word:
        alike = [path for path in alike if path.endswith(f"/{word}")]
    if not 0 < len(alike) <= _MOST_ALIKE:
        return
    confidence = 0.85 if len(alike) == 1 else 0.75
    which = "" if len(alike) == 1 else f", as {len(alike)} files are called"
    for path in alike:
        yield Hint(path=path, confidence=confidence, reason=f"the task names {word}{which}", source=_SOURCE)


def _by_module(word: str, by_module: dict[str, list[str]]) -> Iterator[Hint]:
    """`pkg.part` and `pkg.part.name` are `pkg/part.py`, wherever the packages lie."""
    if "." not in word or "/" in word:
        return
    for module in (word, word.rpartition(".")[0]):
        if "." in module and len(found := by_module.get(module, [])) == 1:
            yield Hint(path=found[0], confidence=0.85, reason=f"the task names {word}", source=_SOURCE)
            return


def _grouped(paths: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        groups[key(path)].append(path)
    return groups


_MOST_NAMES = 20
_MOST_PLACES = 4
"""Files that define one name, beyond which the name says nothing."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,60}")
_MIXED = re.compile(r"[A-Z]+[a-z0-9]+\w*[A-Z]|[a-z0-9]+[A-Z]|\w_\w")
"""CamelCase, camelCase, snake_case."""
_KEYWORDS = (
    "def|class|function|func|fn|struct|interface|trait|enum|type|impl|module|mod|record|protocol|object|union|namespace"
    "|const|let|var|val|static|macro_rules!|#define|create table|CREATE TABLE"
)


def find_definitions(text: str, git: Git, base: CommitId, *, timeout_s: float = 1.0) -> Iterator[Hint]:
    """
    Raises:
        GitFailed: git was not done in time, or the commit cannot be read.
    """
    names = identifiers(text)
    if not names:
        return
    files: dict[str, set[str]] = defaultdict(set)
    for path, line in _definitions(names, git, base, timeout_s):
        for name in names:
            if re.search(rf"\b{name}\b", line):
                files[name].add(path)
    for name, paths in files.items():
        if len(paths) <= _MOST_PLACES:
            for path in sorted(paths):
                yield Hint(path=path, confidence=0.8, reason=f"defines {name}", source="symbol definitions")


def identifiers(text: str) -> tuple[str, ...]:
    """What is written as one in backticks, and words that no plain sentence has; the first twenty."""
    quoted = [name for part in re.findall(r"`([^`\n]{1,200})`", text) for name in _IDENTIFIER.findall(part)]
    mixed = [name for name in _IDENTIFIER.findall(text) if _MIXED.search(name)]
    return tuple(dict.fromkeys([*quoted, *mixed]))[:_MOST_NAMES]


def _definitions(names: tuple[str, ...], git: Git, base: CommitId, timeout_s: float) -> Iterator[tuple[str, str]]:
    """Path and text of each line that defines one of the names."""
    either = "|".join(names)
    keyword = rf"(^|[^A-Za-z0-9_])({_KEYWORDS})[[:space:]]+(\([^)]*\)[[:space:]]*)?({either})([^A-Za-z0-9_]|$)"
    assigned = rf"^({either})[[:space:]]*(:[^=]*)?="
    argv = ("grep", "-I", "-z", "-E", "-e", keyword, "-e", assigned, base)
    yield from _parsed(git.run(*argv, ok=(0, 1), timeout_s=timeout_s).text, base)


def _parsed(said: str, base: str) -> Iterator[tuple[str, str]]:
    for line in said.splitlines():
        name, _, text = line.partition("\0")
        yield name.removeprefix(f"{base}:"), text


_COMMITS = 500
_LARGE = 30
"""Paths of a commit, beyond which it says nothing about any two of them."""
_FEWEST = 3
_SHARE = 0.5
_COMMIT_MARK = "\x01"


def companions(git: Git, base: CommitId, seeds: Collection[str], *, timeout_s: float = 1.0) -> Iterator[Hint]:
    """
    Files in at least three, and at least half, of the last commits that changed one of the seeds.

    Raises:
        GitFailed: git was not done in time, or the commit cannot be read.
    """
    if not seeds:
        return
    changed: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for paths in _commits(git, base, timeout_s):
        for seed in paths & set(seeds):
            changed[seed] += 1
            together.update((seed, other) for other in paths - {seed})
    for (seed, other), times in together.items():
        share = times / changed[seed]
        if times >= _FEWEST and share >= _SHARE:
            confidence = 0.7 + 0.2 * (share - _SHARE) / (1 - _SHARE)
            reason = f"changed in {times} of the last {changed[seed]} commits that changed {seed}"
            yield Hint(path=other, confidence=round(confidence, 2), reason=reason, source="git history")


def _commits(git: Git, base: CommitId, timeout_s: float) -> list[set[str]]:
    """The paths each of the last commits changed, merges and sweeping ones left out."""
    argv = ("log", "-n", str(_COMMITS), "--no-merges", "--no-renames", "--name-only", "-z", "--format=%x01")
    commits: list[set[str]] = []
    for field in git.run(*argv, base, timeout_s=timeout_s).fields:
        if field == _COMMIT_MARK:
            commits.append(set())
        else:
            commits[-1].add(field.removeprefix("\n"))
    return [paths for paths in commits if len(paths) <= _LARGE]


log = structlog.get_logger()

T = TypeVar("T")

_SURE = 0.8
"""Of a hint whose companions are worth looking for."""


def hints_by_rule(order: WorkOrder, git: Git, base: CommitId) -> tuple[Hint, ...]:
    """The best hints; none where git cannot be asked."""
    paths = hintable_paths(git, base)
    tree = frozenset(paths)
    text = words_of(order)
    hints = [
        *_declared(order.files),
        *find_named_files(text, paths),
        *_by_needs(order.priors),
        *_asked("definitions", lambda: find_definitions(text, git, base)),
    ]
    seeds = {hint.path for hint in hints if hint.confidence >= _SURE and hint.path in tree}
    return best([*hints, *_asked("history", lambda: companions(git, base, seeds))], tree)


def words_of(order: WorkOrder) -> str:
    """What the task says, and what is said of how it went: its own words, commands, and why attempts came back."""
    reasons = [part for reason in order.reasons for part in (reason.summary, *reason.paths)]
    return "\n".join([order.title, order.description, *order.acceptance, *reasons])


def hintable_paths(git: Git, base: CommitId) -> tuple[str, ...]:
    """Every file of the commit whose name a message can carry; none where git cannot be asked."""
    return tuple(path for path in _asked("tree", lambda: tree_paths(git, base)) if path.isprintable())


def _declared(globs: Sequence[str]) -> Iterable[Hint]:
    """Names without a wildcard are looked up as they are; the others cover too much to say anything."""
    for glob in globs:
        yield Hint(
            path=glob.removeprefix("./"), confidence=0.95, reason="the task may write it", source="the task's files"
        )


def _by_needs(priors: Sequence[Prior]) -> Iterable[Hint]:
    for prior in priors:
        for path in prior.paths:
            reason = f"task {prior.task}, which this one needs, changed it"
            yield Hint(path=path, confidence=0.72, reason=reason, source="what the tasks before it changed")


def _asked(what: str, ask: Callable[[], Iterable[T]]) -> list[T]:
    """The answer, or nothing where git did not give one: hints are never worth a failure."""
    try:
        return list(ask())
    except GitFailed as failed:
        log.info("hints.none", of=what, why=str(failed))
        return []
