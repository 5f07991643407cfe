"""
Predicts the files of past commits in real repositories. Counts how many predictions are right.

    python benchmarks/planning/files.py ../shared/data/repositories

The folder has git bundles. Each commit is asked twice, as `replay` says: with its message alone, and with its message
and half of its files. Only earlier commits are known, and probabilities are fitted to the answers for them, anew every
25 commits. The weights of the signals come from three of the repositories. The baseline is the rule that stood before,
with its constant confidences.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import say
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.orchestrator.plan.validation.paths import LIKELY
from forgepool.workers.agents.briefing.prediction.calibration import AS_IT_IS, calibration_error
from forgepool.workers.agents.briefing.prediction.facts import read_facts
from forgepool.workers.agents.briefing.prediction.history import read_history
from forgepool.workers.agents.briefing.prediction.predict import list_files, open_predictor, predict_files
from forgepool.workers.agents.briefing.prediction.replay import (
    FEWEST,
    MODES,
    QUERIES,
    SHOWN,
    WEIGH,
    Mode,
    PastTask,
    fit_recent,
    rank,
    replay,
)
from forgepool.workers.agents.briefing.prediction.signals import SIGNALS, Found, find_evidence, identifiers
from forgepool.worktrees.git.git import CommitId, Git

TUNED = ("boltons", "humanize", "python-slugify")
_DEPTHS = (1, 3, 5, 10)
_REFIT = 25
_GIT_S = 60.0
_THRESHOLDS = (0.3, 0.5, 0.7)
_METHODS = ("all together", "uncalibrated", "before")

Answer = list[tuple[float, bool]]
"""Predictions for one commit, the surest first: probability or strength, and was it right."""


@dataclass(slots=True)
class Measured:
    """The answers of one method in one mode, with the number of files that were to be found."""

    answers: list[Answer] = field(default_factory=list)
    wanted: int = 0

    def add(self, answer: Answer, wanted: int) -> None:
        self.answers.append(answer)
        self.wanted += wanted

    def at(self, depth: int) -> str:
        """Precision and recall of the first ones."""
        shown = [right for answer in self.answers for _, right in answer[:depth]]
        return f"{_share(sum(shown), len(shown))} / {_share(sum(shown), self.wanted)}"

    def row(self) -> tuple[str, ...]:
        answered = sum(1 for answer in self.answers if answer)
        return (_share(answered, len(self.answers)), *(self.at(depth) for depth in _DEPTHS))

    @property
    def shown(self) -> Answer:
        return [each for answer in self.answers for each in answer[:SHOWN]]


def _share(part: float, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


Table = dict[tuple[str, str, Mode], Measured]
"""By repository, method and mode."""


def files(
    folder: Annotated[Path, typer.Argument(help="A folder of git bundles.")],
    tuned: Annotated[str, typer.Option(metavar="NAMES", help="Shown apart from the others.")] = ",".join(TUNED),
) -> None:
    """Predict the files of past commits, by each signal, by all together, and by the rule that stood before."""
    begun, bundles = time.monotonic(), sorted(folder.glob("*.bundle"))
    if not bundles:
        raise typer.BadParameter(f"{folder} has no git bundles; give a folder that has some, as NAME.bundle")
    found: Table = defaultdict(Measured)
    times = []
    with tempfile.TemporaryDirectory() as place:
        for bundle in bundles:
            git = Git(git_dir=Path(place) / bundle.stem)
            git.run("clone", "-q", "--bare", str(bundle.resolve()), str(git.git_dir))
            queries, took = _measure(bundle.stem, git, found)
            times.append((bundle.stem, str(queries), f"{took:.1f}", *_timed(git, Path(place) / "cache")))
    known = [bundle.stem for bundle in bundles if bundle.stem in tuned.split(",")]
    shown = [bundle.stem for bundle in bundles if bundle.stem not in known]
    for names in (known, shown):
        _tell(found, names)
    say("\ncalibration error of ten predictions for each commit; from a threshold on: mean probability, share right")
    _tell_calibration(found, [*known, *shown])
    say("\ncommits whose files `check --thorough` would doubt: with half of them given, and wrongly with all of them")
    _tell_warnings(found, [*known, *shown])
    say("\nseconds of `predict_files` at the newest commit: with the fit, with a kept fit, in the same process again")
    print_table(("repository", "commits", "replay ms", "first", "kept", "again"), times)
    say(f"\n{time.monotonic() - begun:.0f} s in all")


def _measure(name: str, git: Git, found: Table) -> tuple[int, float]:
    """Ask for each commit; return their number, and milliseconds for a question."""
    base = CommitId(git.text("rev-parse", "HEAD"))
    tree = dict(list_files(git, base))
    history = read_history(git, base, timeout_s=_GIT_S)
    past: dict[Mode, list[Answer]] = {mode: [] for mode in MODES}
    curves = dict.fromkeys(MODES, AS_IT_IS)
    asked, spent = 0, 0.0
    facts = read_facts(git, tree.values(), timeout_s=_GIT_S)
    for query in replay(git, history, tree, facts, most=len(history)):
        if query.past.commits < FEWEST:
            continue
        for mode in MODES:
            begun = time.monotonic()
            evidence = query.find(mode)
            spent += time.monotonic() - begun
            scored = [(score, path in query.truth) for score, path, _ in rank(evidence, mode)]
            if len(past[mode]) >= FEWEST:
                if len(past[mode]) % _REFIT == 0:
                    curves[mode] = fit_recent(past[mode][-QUERIES:])
                asked += 1
                _add(found, name, mode, query, evidence, [(curves[mode].at(score), hit) for score, hit in scored])
                found[name, "uncalibrated", mode].add(scored, 0)
            past[mode].append(scored[:SHOWN])
        if len(past["given"]) > FEWEST:
            complete = find_evidence(query.commit.text, query.truth, query.tree, query.past, WEIGH["text"])
            doubts = [(curves["given"].at(score), False) for score, *_ in rank(complete, "given")]
            found[name, "complete", "given"].add(doubts, 0)
    return asked, 1000 * spent / max(1, asked)


def _add(found: Table, name: str, mode: Mode, query: PastTask, evidence: Found, combined: Answer) -> None:
    wanted = len(query.truth) - len(query.choose_given(mode))
    found[name, "all together", mode].add(combined, wanted)
    found[name, "before", mode].add(list(_before(query, mode, evidence)), wanted)
    for signal in SIGNALS:
        ranked = sorted(
            ((signals[signal].strength, path) for path, signals in evidence.items() if signal in signals), reverse=True
        )
        found[name, signal, mode].add([(strength, path in query.truth) for strength, path in ranked], wanted)


def _before(query: PastTask, mode: Mode, evidence: Found) -> Iterator[tuple[float, bool]]:
    """Return what the rule that stood before named, with its constant confidences."""
    confidences = {1.0: 0.95, 0.9: 0.85, 0.6: 0.75}
    sure: dict[str, float] = {}
    for path, signals in evidence.items():
        if "named" in signals:
            sure[path] = confidences[signals["named"].strength]
    for name in identifiers(query.commit.text)[:20]:
        places = query.tree.defining.get(name, set())
        for path in places if len(places) <= 4 else ():
            sure[path] = max(sure.get(path, 0), 0.8)
    given = query.choose_given(mode)
    for seed in [*(path for path, confidence in sure.items() if confidence >= 0.8), *given]:
        total = query.past.changed[seed]
        for path, times in query.past.together.get(seed, {}).items():
            if times >= 3 and times / total >= 0.5 and path != seed:
                sure[path] = max(sure.get(path, 0), 0.7 + 0.4 * (times / total - 0.5))
    best = sorted(((sure[path], path) for path in sure if path in query.tree.paths), reverse=True)
    yield from ((confidence, path in query.truth) for confidence, path in best if path not in given)


def _timed(git: Git, cache: Path) -> tuple[str, ...]:
    """Return seconds of the real call: with the fit; in a new process, with the kept fit; once more there."""
    base = CommitId(git.text("rev-parse", "HEAD"))
    took = []
    for again in (False, False, True):
        if not again:
            open_predictor.cache_clear()
        begun = time.monotonic()
        predict_files(git, base, "Fix the parser", cache=cache)
        took.append(f"{time.monotonic() - begun:.3f}")
    return tuple(took)


def _pooled(found: Table, names: Iterable[str], method: str, mode: Mode) -> Measured:
    parts = [found[name, method, mode] for name in names]
    return Measured([answer for part in parts for answer in part.answers], sum(part.wanted for part in parts))


def _tell(found: Table, names: Sequence[str]) -> None:
    for mode in MODES:
        given = "message alone" if mode == "text" else "message and half of the files"
        say(f"\n{', '.join(names)}: {given}; precision / recall")
        rows = [(method, *_pooled(found, names, method, mode).row()) for method in (*SIGNALS, "before", "all together")]
        print_table(("by", "answered", *(f"first {depth}" for depth in _DEPTHS)), rows)


def _tell_calibration(found: Table, names: Sequence[str]) -> None:
    rows = []
    for mode in MODES:
        for name in names:
            ours = found[name, "all together", mode].shown
            errors = (f"{calibration_error(found[name, method, mode].shown):.3f}" for method in _METHODS)
            count = len(found[name, "all together", mode].answers)
            rows.append((name, mode, str(count), *errors, *(_from(ours, threshold) for threshold in _THRESHOLDS)))
    columns = ("repository", "known", "commits", "fitted", "not fitted", "before")
    print_table((*columns, *(f"from {threshold}" for threshold in _THRESHOLDS)), rows)


def _tell_warnings(found: Table, names: Sequence[str]) -> None:
    rows = []
    for name in names:
        half, whole = (_doubted(found[name, method, "given"]) for method in ("all together", "complete"))
        right = sum(any(right for _, right in answer) for answer in half)
        rows.append(
            (name, f"{len(half)}, {right} rightly", str(len(whole)), str(len(found[name, "complete", "given"].answers)))
        )
    print_table(("repository", "half given", "all given", "commits"), rows)


def _doubted(measured: Measured) -> list[Answer]:
    """Return the answers that have a warning, without what is too improbable for one."""
    sure = ([one for one in answer if one[0] >= LIKELY] for answer in measured.answers)
    return [answer for answer in sure if answer]


def _from(shown: Answer, threshold: float) -> str:
    sure = [(probability, right) for probability, right in shown if probability >= threshold]
    said = _share(sum(probability for probability, _ in sure), len(sure))
    return f"{said}, {_share(sum(right for _, right in sure), len(sure))} of {len(sure)}"


if __name__ == "__main__":
    typer.run(files)
