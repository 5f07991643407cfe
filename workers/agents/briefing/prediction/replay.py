"""Replays a repository's last commits as if each had been a task, and fits to them what a score means."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from forgepool.workers.agents.briefing.prediction.calibration import AS_IT_IS, Curve, fit
from forgepool.workers.agents.briefing.prediction.facts import FileFacts, read_facts
from forgepool.workers.agents.briefing.prediction.history import LARGE, PastCommit, first_tree
from forgepool.workers.agents.briefing.prediction.signals import Found, Past, Signals, Weigh, find_evidence
from forgepool.workers.agents.briefing.prediction.snapshot import IndexedTree
from forgepool.workers.schema.orders import Message
from forgepool.worktrees.git.git import Git

Mode = Literal["text", "given"]
"""Is only the task's text known, or some of its files, too?"""
MODES: tuple[Mode, ...] = ("text", "given")
WEIGH: Mapping[Mode, Weigh] = {
    "text": Weigh(-3.7, named=2.0, word=1.6, defined=2.9, together=1.5, said=3.7, often=3.2, imports=0.5, tests=1.2),
    "given": Weigh(-5.0, named=1.0, word=1.2, defined=1.2, together=5.0, said=1.9, often=0.5, imports=1.1, tests=1.4),
}
"""Weights of a logistic regression on the histories of boltons, humanize and python-slugify."""

QUERIES = 500
"""The last commits, which are replayed as if each had been a task."""
FEWEST = 50
"""With fewer commits before it, or fewer to replay, nothing is fitted."""
SHOWN = 10
"""The best of each replayed commit, which the curve is fitted to."""
_HALF_LIFE = 200
"""A commit so many commits ago counts half."""
_OLD_S = 10.0
_REPLAY_S = 2.0
"""Seconds of this thread's own work, so that a busy host fits the same."""


def rank(found: Found, mode: Mode) -> list[tuple[float, str, Signals]]:
    """Return score, path and evidence of what was found, the best first."""
    scored = ((WEIGH[mode](signals), path, signals) for path, signals in found.items())
    return sorted(scored, key=lambda each: (-each[0], each[1]))


class Calibration(Message):
    """The curves of one repository at one tree."""

    text: Curve = AS_IT_IS
    given: Curve = AS_IT_IS
    commits: int = 0
    """The replayed commits; 0 where there are too few, so that the curves are those shipped."""


def calibrate(
    git: Git, history: Sequence[PastCommit], files: Mapping[str, str], facts: Mapping[str, FileFacts]
) -> Calibration:
    """
    Fit both curves to the last commits. Each is replayed with its message as text, twice: once with no file given, and
    once with half of its files, rounded up, where the others are asked for. So of a commit of one file none is right.

    Raises:
        GitFailed: git was not done in time, or an old content is missing.
    """
    seen: dict[Mode, list[list[tuple[float, bool]]]] = {mode: [] for mode in MODES}
    begun = 0.0
    for count, query in enumerate(replay(git, history, files, facts)):
        begun = begun or time.thread_time()
        # A slow host skips commits evenly, so that the newest are never those left out.
        if query.past.commits >= FEWEST and time.thread_time() - begun <= _REPLAY_S * count / QUERIES + 0.1:
            for mode in MODES:
                seen[mode].append([(score, right) for score, right, _ in query.ask(mode)[:SHOWN]])
    if len(seen["text"]) < FEWEST:
        return Calibration()
    return Calibration(text=fit_recent(seen["text"]), given=fit_recent(seen["given"]), commits=len(seen["text"]))


def fit_recent(answers: Sequence[Sequence[tuple[float, bool]]]) -> Curve:
    """Fit a curve to the answers of replayed commits, the oldest first."""
    last = len(answers) - 1
    return fit(
        (score, right, 0.5 ** ((last - number) / _HALF_LIFE))
        for number, answer in enumerate(answers)
        for score, right in answer
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTask:
    """A past commit as a task, with the tree and the past that it found; both change with the next one."""

    commit: PastCommit
    tree: IndexedTree
    past: Past
    number: int

    @property
    def truth(self) -> tuple[str, ...]:
        """The files that were there before, and that it changed."""
        return tuple(sorted(path for path in self.commit.paths if path in self.tree.paths))

    def choose_given(self, mode: Mode) -> tuple[str, ...]:
        """Every second file, from the first or the second; the only one."""
        return () if mode == "text" else self.truth[self.number % 2 :: 2] or self.truth[:1]

    def ask(self, mode: Mode) -> list[tuple[float, bool, str]]:
        """Return score, rightness and path of what is predicted, the best first."""
        truth = frozenset(self.truth)
        return [(score, path in truth, path) for score, path, _ in rank(self.find(mode), mode)]

    def find(self, mode: Mode) -> Found:
        return find_evidence(self.commit.text, self.choose_given(mode), self.tree, self.past, WEIGH["text"])


def replay(
    git: Git,
    history: Sequence[PastCommit],
    files: Mapping[str, str],
    facts: Mapping[str, FileFacts],
    *,
    most: int = QUERIES,
) -> Iterator[PastTask]:
    """
    Go through the last commits, the oldest first, and yield those that are like tasks.

    Raises:
        GitFailed: git was not done in time, or an old content is missing.
    """
    before, commits = history[:-most], history[-most:]
    past = Past()
    for commit in before:
        past.learn(commit)
    start = first_tree(files, commits)
    ids = {content for commit in commits for change in commit.changes for content in (change.id, change.old_id)}
    old = read_facts(git, sorted(ids.union(start.values()) - facts.keys()), timeout_s=_OLD_S)
    tree = IndexedTree(start, {**facts, **old})
    for number, commit in enumerate(commits):
        query = PastTask(commit=commit, tree=tree, past=past, number=number)
        if len(commit.paths) <= LARGE and commit.text.strip() and query.truth:
            yield query
        past.learn(commit)
        for change in commit.changes:
            if change.status == "D":
                tree.drop(change.path)
            else:
                tree.put(change.path, change.id)
