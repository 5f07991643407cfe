"""Puts the signals together, and keeps each repository's calibration, which takes seconds to make."""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import structlog
from pydantic import ValidationError

from forgepool.workers.agents.briefing.prediction.facts import read_facts
from forgepool.workers.agents.briefing.prediction.history import read_history
from forgepool.workers.agents.briefing.prediction.replay import WEIGH, Calibration, Mode, calibrate, rank
from forgepool.workers.agents.briefing.prediction.signals import Past, find_evidence, is_in_text
from forgepool.workers.agents.briefing.prediction.snapshot import IndexedTree
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.git.history import read_commit

log = structlog.get_logger()

_GIT_S = 5.0
_SUREST = 0.99
_MOST_KEPT = 20
"""Calibrations in the cache's folder."""
_VERSION = 1
"""Part of a kept calibration's name: another number where weights or signals change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A file that a task will change with some probability."""

    path: str
    probability: float
    why: str
    """One reason: the text's own words, else the strongest."""
    in_text: bool = False
    """Does the text name the file, or an identifier that it defines? It is worth reading then, changed or not."""
    calibrated: bool = False
    """Was the probability fitted to this repository's past? Else it is that of an average repository."""


def predict_files(
    git: Git, base: CommitId, text: str, given: Collection[str] = (), *, cache: Path | None = None
) -> list[Prediction]:
    """
    Return the files of the base that a task may change, the surest first, without those `given`; none where git fails.

    `given` are paths that the task will change for sure. The calibration is kept in the folder `cache`.
    """
    try:
        return open_predictor(git, base, cache).predict(text, given)
    except GitFailed as failed:
        log.info("prediction.none", why=str(failed))
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """A tree, its past, and what its scores mean."""

    tree: IndexedTree
    past: Past
    calibration: Calibration

    def predict(self, text: str, given: Collection[str] = ()) -> list[Prediction]:
        mode: Mode = "given" if given else "text"
        curve = self.calibration.given if given else self.calibration.text
        ranked = rank(find_evidence(text, given, self.tree, self.past, WEIGH["text"]), mode)
        predictions = []
        for score, path, signals in ranked:
            probability = min(round(curve.at(score), 2), _SUREST)
            if probability and path.isprintable():
                signal, evidence = WEIGH[mode].strongest(signals)
                predictions.append(
                    Prediction(
                        path=path,
                        probability=probability,
                        why=evidence.reason,
                        in_text=is_in_text(signal, evidence),
                        calibrated=self.calibration.commits > 0,
                    )
                )
        return predictions


@lru_cache(maxsize=2)
def open_predictor(git: Git, base: CommitId, cache: Path | None) -> Predictor:
    """
    Read tree and past, and fit or load the calibration. The last answers are kept.

    Raises:
        GitFailed: git was not done in time, or the commit cannot be read.
    """
    history = read_history(git, base, timeout_s=_GIT_S)
    files = dict(list_files(git, base))
    facts = read_facts(git, files.values(), timeout_s=_GIT_S)
    past = Past()
    for commit in history:
        past.learn(commit)
    kept = cache / f"{read_commit(git, base).tree}.{_VERSION}.json" if cache else None
    calibration = _load(kept) if kept else None
    if calibration is None:
        try:
            calibration = calibrate(git, history, files, facts)
        except GitFailed as failed:
            log.info("prediction.uncalibrated", why=str(failed))
            calibration, kept = Calibration(), None
        if kept:
            _keep(kept, calibration)
    return Predictor(tree=IndexedTree(files, facts), past=past, calibration=calibration)


def list_files(git: Git, base: CommitId) -> Iterator[tuple[str, str]]:
    """Return path and content's id of every file; a submodule has none."""
    for line in git.run("ls-tree", "-r", "-z", "--full-tree", base, timeout_s=_GIT_S).fields:
        facts, _, path = line.partition("\t")
        _, kind, content = facts.split(" ")
        if kind == "blob":
            yield path, content


def _load(kept: Path) -> Calibration | None:
    try:
        return Calibration.model_validate_json(kept.read_bytes())
    except (OSError, ValidationError):
        return None


def _keep(kept: Path, calibration: Calibration) -> None:
    """Write the file in one step, and remove the oldest of too many. Where that fails, the next one fits again."""
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        building = kept.with_suffix(f".{os.getpid()}")
        building.write_text(calibration.model_dump_json())
        building.replace(kept)
        newest = sorted(kept.parent.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in newest[_MOST_KEPT:]:
            old.unlink(missing_ok=True)
