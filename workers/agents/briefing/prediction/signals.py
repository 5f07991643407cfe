"""
The signals that a task will change a file, each with a strength of 0 to 1 and a reason.

`named`: the task's text names the file, exactly or by a word. `defined`: the file defines what the text mentions.
Both find the first files. From those, and from the files given, come the others: `together`, which changed in the same
commits; `imports`, which import them or are imported; `tests`, which test them or are tested by them. `together` also
knows words of past messages, and files that most commits change.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from forgepool.workers.agents.briefing.prediction.history import LARGE, PastCommit
from forgepool.workers.agents.briefing.prediction.snapshot import IndexedTree, is_test, module_of, words_of_text

Signal = Literal["named", "word", "defined", "together", "said", "often", "imports", "tests"]
SIGNALS: tuple[Signal, ...] = ("named", "word", "defined", "together", "said", "often", "imports", "tests")

_MOST_ALIKE = 3
"""A file name that more files have says nothing."""
_MOST_PLACES = 4
"""A symbol that more files define says nothing."""
_RARE = 20
"""A share of one commit in twenty is no sign."""
_PLAIN = 0.5
"""The strength of a plain word that happens to be a symbol's name; an identifier has 1."""
_MOST_NAMES = 50
_MOST_SEEDS = 5
_WORD = re.compile(r"`([^`\n]{1,200})`|([\w./@+-]{2,200})")
_TELLING = re.compile(r"/|\w\.\w|^\.\w|^[A-Z]")
"""Words that may name a file: with a slash, a dot, or a capital as in Makefile."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,60}")
_MIXED = re.compile(r"[A-Z]+[a-z0-9]+\w*[A-Z]|[a-z0-9]+[A-Z]|\w_\w")
"""CamelCase, camelCase, snake_case."""
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "add and are but can change does for from has have into its make more new not now only remove set should that "
        "the their then there this use used using was when where which will with without fix bug issue merge",
    )
)


class Sign(NamedTuple):
    strength: float
    form: str
    """The reason, with gaps for `parts`: thousands are found for each one that is shown."""
    parts: tuple[object, ...] = ()

    @property
    def reason(self) -> str:
        return self.form.format(*self.parts)


Signals = dict[Signal, Sign]
Found = dict[str, Signals]
"""By path."""


@dataclass(slots=True)
class Past:
    """How often files changed: alone, with another, and after a word in the message."""

    commits: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    together: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    said: Counter[str] = field(default_factory=Counter)
    said_with: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def learn(self, commit: PastCommit) -> None:
        paths = commit.paths
        if not 0 < len(paths) <= LARGE:
            return
        self.commits += 1
        self.changed.update(paths)
        for path in paths:
            self.together[path].update(paths)
        for word in telling_words(commit.text):
            self.said[word] += 1
            self.said_with[word].update(paths)


def telling_words(text: str) -> tuple[str, ...]:
    """Return the first words of a text that are not in every text, each once."""
    return tuple(dict.fromkeys(word for word in words_of_text(text[:20_000]) if word not in _COMMON))[:_MOST_NAMES]


def find_evidence(text: str, given: Collection[str], tree: IndexedTree, past: Past, weigh: "Weigh") -> Found:
    """Return the evidence for each path but those given. `weigh` chooses the files to start from."""
    found: Found = defaultdict(dict)
    for path, signal, evidence in (*find_named(text, tree), *find_words(text, tree), *find_defined(text, tree)):
        _keep(found, path, signal, evidence)
    for path, signal, evidence in (*find_said(text, past), *find_often(past)):
        _keep(found, path, signal, evidence)
    first = sorted(((weigh(signals), path) for path, signals in found.items()), reverse=True)[:_MOST_SEEDS]
    seeds = {path: weight for weight, path in first if weight > 0} | dict.fromkeys(given, 1.0)
    for seed, weight in seeds.items():
        for path, signal, evidence in (*find_together(seed, past), *find_linked(seed, tree)):
            _keep(found, path, signal, evidence._replace(strength=evidence.strength * weight))
    return {path: signals for path, signals in found.items() if path in tree.paths and path not in given}


class Weigh:
    """A weighted sum of the signals, squeezed to 0 to 1."""

    def __init__(self, constant: float, **weights: float) -> None:
        self._weights, self._constant = weights, constant

    def __call__(self, signals: Mapping[Signal, Sign]) -> float:
        total = self._constant + sum(self._weights[signal] * each.strength for signal, each in signals.items())
        return 1 / (1 + math.exp(-total))

    def strongest(self, signals: Mapping[Signal, Sign]) -> tuple[Signal, Sign]:
        """Return the evidence that tells a reader most: the text's own words, else what adds most."""

        def tells(item: tuple[Signal, Sign]) -> tuple[bool, bool, float]:
            signal, evidence = item
            return is_in_text(signal, evidence), signal != "often", self._weights[signal] * evidence.strength

        return max(signals.items(), key=tells)


def is_in_text(signal: Signal, evidence: Sign) -> bool:
    """Does the text name the file, or an identifier that it and few others define?"""
    return signal == "named" or (signal == "defined" and evidence.strength > _PLAIN)


Proof = tuple[str, Signal, Sign]


def _keep(found: Found, path: str, signal: Signal, evidence: Sign) -> None:
    known = found[path].get(signal)
    if known is None or known.strength < evidence.strength:
        found[path][signal] = evidence


def find_named(text: str, tree: IndexedTree) -> Iterator[Proof]:
    """Find the files that a text names by path, by the end of a path, by file name, or as a module."""
    for word in words(text):
        if not _TELLING.search(word):
            continue
        if word in tree.paths:
            yield word, "named", Sign(1.0, "the task names it")
        else:
            yield from _by_name(word, sorted(tree.by_name.get(word.rpartition("/")[2], ())))
            yield from _by_module(word, tree)


def words(text: str) -> list[str]:
    """Return the words of a text that could be names, each once, in order."""
    names: dict[str, None] = {}
    for quoted, plain in _WORD.findall(text):
        for word in (quoted, *re.findall(r"[\w./@+-]{2,200}", quoted)) if quoted else (plain,):
            names.setdefault(word.strip().removeprefix("./").rstrip(".").rstrip("/"))
    return [word for word in names if word]


def _by_name(word: str, alike: Sequence[str]) -> Iterator[Proof]:
    if "/" in word:
        alike = [path for path in alike if path.endswith(f"/{word}")]
    if 0 < len(alike) <= _MOST_ALIKE:
        form = "the task names {}" if len(alike) == 1 else "the task names {}, as {} files are called"
        for path in alike:
            yield path, "named", Sign(0.9 if len(alike) == 1 else 0.6, form, (word, len(alike)))


def _by_module(word: str, tree: IndexedTree) -> Iterator[Proof]:
    """Read `pkg.part` and `pkg.part.name` as `pkg/part.py`, wherever the package lies."""
    if "." not in word or "/" in word:
        return
    for dotted in (word, word.rpartition(".")[0]):
        module = dotted.replace(".", "/")
        alike = tree.by_module.get(module.rpartition("/")[2], ()) if "/" in module else ()
        files = [path for path in alike if f"/{module_of(path)}".endswith(f"/{module}")]
        if len(files) == 1:
            yield files[0], "named", Sign(0.9, "the task names {}", (word,))
            return


def find_words(text: str, tree: IndexedTree) -> Iterator[Proof]:
    """Find the files whose names consist of words that the text has."""
    shared: dict[str, list[str]] = defaultdict(list)
    for word in telling_words(text):
        if len(alike := tree.by_word.get(word, ())) <= max(_MOST_ALIKE * 4, len(tree.paths) // 20):
            for path in alike:
                shared[path].append(word)
    for path, both in shared.items():
        all_words = [*dict.fromkeys(words_of_text(module_of(path).rpartition("/")[2]))]
        rare = sum(1 / len(tree.by_word[word]) for word in both) / len(both)
        share = sum(len(word) for word in both) / sum(len(word) for word in all_words)
        yield path, "word", Sign(share * (0.4 + 0.6 * math.sqrt(rare)), "the task says {}", (" ".join(both),))


def find_defined(text: str, tree: IndexedTree) -> Iterator[Proof]:
    """Find the files that define a name of the text; a name that is a plain word counts for less."""
    sure = set(identifiers(text))
    for name in dict.fromkeys((*sure, *_IDENTIFIER.findall(text)[: 4 * _MOST_NAMES])):
        places = [path for path in tree.defining.get(name, ()) if name in sure or not is_test(path)]
        if 0 < len(places) <= _MOST_PLACES and name.lower() not in _COMMON:
            for path in places:
                strength = (1.0 if name in sure else _PLAIN) / math.sqrt(len(places))
                yield path, "defined", Sign(strength, "defines {}", (name,))


def identifiers(text: str) -> tuple[str, ...]:
    """Return the first identifiers: names in backticks, and words in CamelCase or snake_case."""
    quoted = [name for part in re.findall(r"`([^`\n]{1,200})`", text) for name in _IDENTIFIER.findall(part)]
    mixed = [name for name in _IDENTIFIER.findall(text) if _MIXED.search(name)]
    return tuple(dict.fromkeys([*quoted, *mixed]))[:_MOST_NAMES]


def find_together(seed: str, past: Past) -> Iterator[Proof]:
    """Find the files that changed in the same commits as this one."""
    total, form = past.changed[seed], "changed together with {} in {} of {} commits"
    for path, times in past.together.get(seed, Counter[str]()).items():
        if path != seed and times * _RARE > total:
            yield path, "together", Sign(times / (total + 2), form, (seed, times, total))


def find_said(text: str, past: Past) -> Iterator[Proof]:
    """Find the files that changed in commits whose messages have a word of the text."""
    form = "changed in {} of {} commits that say {}"
    for word in telling_words(text):
        total = past.said[word]
        for path, times in past.said_with.get(word, Counter[str]()).items():
            if times > 1 and times * _RARE > total:
                yield path, "said", Sign(times / (total + 2), form, (times, total, word))


def find_often(past: Past) -> Iterator[Proof]:
    """Find the files that many commits change."""
    form = "changed in {} of the last {} commits"
    for path, times in past.changed.items():
        if times * _RARE > past.commits:
            yield path, "often", Sign(times / (past.commits + 2), form, (times, past.commits))


def find_linked(seed: str, tree: IndexedTree) -> Iterator[Proof]:
    """
    Find the files that import this one or that it imports, and its tests, or the files that it tests.

    A test is found by its name, else by its imports.
    """
    named, test = tree.partners(seed), is_test(seed)
    for others, verb in ((tree.importers(seed), "imports"), (tree.imports(seed), "is imported by")):
        alike = {other for other in others if is_test(other) == test}
        for path in alike:
            yield path, "imports", Sign(1 / math.sqrt(len(alike)), f"{verb} {{}}", (seed,))
        for path in others - alike - named:
            yield path, "tests", Sign(0.5 / len(others - alike), f"{verb} {{}}", (seed,))
    for path in named:
        verb = "is tested by" if test else "tests"
        yield path, "tests", Sign(1 / math.sqrt(len(named)), f"{verb} {{}}, by its name", (seed,))
