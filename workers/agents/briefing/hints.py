"""
Guesses, without a model, which files a task is about: this saves an agent the turns of finding them.

Five rules propose files with a confidence:
the task's own globs;
files that its text names;
paths that tasks before it changed;
files that define symbols it mentions;
files that used to change together with the surest of these.

`best` keeps those that exist. Why no index: a grep of one commit takes a second, and an index would be stale.
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
    """0 to 1. A rule's confidence names the rule; it is no probability."""
    reason: str
    source: str
    """The hint's origin, as the section's first line names it."""


def best(hints: Iterable[Hint], tree: Collection[str]) -> tuple[Hint, ...]:
    """Return the surest hints first, each path once, whose files exist and whose names can be quoted."""
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
    """Drop line breaks and backticks: a file's name may hold anything, even orders to the reader."""
    return "".join(each for each in text if each.isprintable() and each != "`")


def render_hints(hints: Sequence[Hint]) -> str:
    """Return the task card's section; it is empty without hints."""
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
"""Words that may name a file: with a slash, a dot, or a capital as in Makefile."""
_SOURCE = "the task's words"
_MOST_ALIKE = 3
"""A name that more files have says nothing."""


def find_named_files(text: str, paths: Sequence[str]) -> Iterator[Hint]:
    """Propose the files that a text names by path, by the end of a path, by file name, or as a module."""
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
    """Return the words of a text that could be names, each once, in order."""
    names: dict[str, None] = {}
    for quoted, plain in _WORD.findall(text):
        for word in (quoted, *re.findall(r"[\w./@+-]{2,200}", quoted)) if quoted else (plain,):
            names.setdefault(word.strip().removeprefix("./").rstrip(".").rstrip("/"))
    return [word for word in names if word]


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
    """Read `pkg.part` and `pkg.part.name` as `pkg/part.py`, wherever the package lies."""
    if "." not in word or "/" in word:
        return
    for module in (word, word.rpartition(".")[0]):
        if "." in module and len(files := by_module.get(module, [])) == 1:
            yield Hint(path=files[0], confidence=0.85, reason=f"the task names {word}", source=_SOURCE)
            return


def _grouped(paths: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        groups[key(path)].append(path)
    return groups


_MOST_NAMES = 20
_MOST_PLACES = 4
"""A symbol that more files define says nothing."""
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
    """Return the first twenty identifiers: names in backticks, and words in CamelCase or snake_case."""
    quoted = [name for part in re.findall(r"`([^`\n]{1,200})`", text) for name in _IDENTIFIER.findall(part)]
    mixed = [name for name in _IDENTIFIER.findall(text) if _MIXED.search(name)]
    return tuple(dict.fromkeys([*quoted, *mixed]))[:_MOST_NAMES]


def _definitions(names: tuple[str, ...], git: Git, base: CommitId, timeout_s: float) -> Iterator[tuple[str, str]]:
    """Return path and text of each line that defines one of the names."""
    either = "|".join(names)
    keyword = rf"(^|[^A-Za-z0-9_])({_KEYWORDS})[[:space:]]+(\([^)]*\)[[:space:]]*)?({either})([^A-Za-z0-9_]|$)"
    assigned = rf"^({either})[[:space:]]*(:[^=]*)?="
    argv = ("grep", "-I", "-z", "-E", "-e", keyword, "-e", assigned, base)
    for line in git.run(*argv, ok=(0, 1), timeout_s=timeout_s).text.splitlines():
        name, _, text = line.partition("\0")
        yield name.removeprefix(f"{base}:"), text


_COMMITS = 500
_LARGE = 30
"""A commit of more paths says nothing about any two of them."""
_FEWEST = 3
_SHARE = 0.5
_COMMIT_MARK = "\x01"


def companions(git: Git, base: CommitId, seeds: Collection[str], *, timeout_s: float = 1.0) -> Iterator[Hint]:
    """
    Propose files in at least three, and at least half, of the last commits that changed one of the seeds.

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
    """Return the paths that each of the last commits changed, without merges and sweeping commits."""
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
"""Hints of this confidence have their companions looked up."""


def hints_by_rule(order: WorkOrder, git: Git, base: CommitId) -> tuple[Hint, ...]:
    """Return the best hints of all rules. A rule that needs git gives none where git fails."""
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
    """Return the task's own text, its commands, and the reasons why attempts came back."""
    reasons = [part for reason in order.reasons for part in (reason.summary, *reason.paths)]
    return "\n".join([order.title, order.description, *order.acceptance, *reasons])


def hintable_paths(git: Git, base: CommitId) -> tuple[str, ...]:
    """Return every file of the commit whose name a message can carry; none where git fails."""
    return tuple(path for path in _asked("tree", lambda: tree_paths(git, base)) if path.isprintable())


def _declared(globs: Sequence[str]) -> Iterable[Hint]:
    """Propose globs as paths: `best` drops those with a wildcard, which are no files."""
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
    """Return the answer, or nothing where git failed: hints are never worth a failure."""
    try:
        return list(ask())
    except GitFailed as failed:
        log.info("hints.none", of=what, why=str(failed))
        return []
