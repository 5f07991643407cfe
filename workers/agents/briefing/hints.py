"""
Names, before PLAN, the files that a task is probably about: this saves an agent the turns of finding them.

They come from three places: `prediction`, which gives each file a probability; the tasks before this one, which changed
files; and a model, where there is a route for one (`model_hints`). The files that the task may write are on its card.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import structlog

from forgepool.workers.agents.briefing.prediction.predict import predict_files
from forgepool.workers.schema.orders import HintSettings, WorkOrder
from forgepool.workers.schema.reports import Prior
from forgepool.worktrees.commits.changes import tree_paths
from forgepool.worktrees.git.git import CommitId, Git, GitFailed

log = structlog.get_logger()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    path: str
    confidence: float | None
    """The probability that the task changes the file, or a model's own word. None where no number is known."""
    reason: str
    source: str
    """The hint's origin, as the section's first line names it."""
    always: bool = False
    """Is it shown below the threshold, too?"""


def best(hints: Iterable[Hint], tree: Collection[str], wanted: HintSettings) -> tuple[Hint, ...]:
    """
    Return the surest hints, each path once, whose files exist and whose names can be quoted.

    Those without a number come last.
    """
    by_path: dict[str, Hint] = {}
    for hint in sorted(hints, key=lambda hint: (-(hint.confidence or 0), hint.path)):
        shown = hint.always or (hint.confidence or 0) >= wanted.threshold
        if shown and hint.path in tree and _plain(hint.path) == hint.path:
            by_path.setdefault(hint.path, hint)
    return tuple(by_path.values())[: wanted.most]


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
            *(f"- `{hint.path}`{_number(hint)} — {_plain(hint.reason)}" for hint in hints),
        ]
    )


def _number(hint: Hint) -> str:
    return "" if hint.confidence is None else f" (confidence: {hint.confidence:.2f})"


def hints_by_rule(
    order: WorkOrder, git: Git, base: CommitId, wanted: HintSettings, *, cache: Path | None = None
) -> tuple[Hint, ...]:
    """Return the best hints without a model; none where git fails. The calibration is kept in the folder `cache`."""
    tree = frozenset(hintable_paths(git, base))
    declared = tuple(path for glob in order.files if (path := glob.removeprefix("./")) in tree)
    guesses = _predicted(words_of(order), declared, git, base, cache)
    return best((*guesses, *_by_needs(order.priors, declared)), tree, wanted)


def _predicted(text: str, declared: Collection[str], git: Git, base: CommitId, cache: Path | None) -> Iterator[Hint]:
    for guess in predict_files(git, base, text, declared, cache=cache):
        source = f"the task's words and the repository's past{'' if guess.calibrated else ', uncalibrated'}"
        yield Hint(
            path=guess.path,
            confidence=guess.probability,
            reason=guess.why,
            source=source,
            # Worth reading, changed or not.
            always=guess.in_text,
        )


def words_of(order: WorkOrder) -> str:
    """Return the task's own text, its commands, and the reasons why attempts came back."""
    reasons = [part for reason in order.reasons for part in (reason.summary, *reason.paths)]
    return "\n".join([order.title, order.description, *order.acceptance, *reasons])


def hintable_paths(git: Git, base: CommitId) -> tuple[str, ...]:
    """Return every file of the commit whose name a message can carry; none where git fails."""
    return tuple(path for path in _asked("tree", lambda: tree_paths(git, base)) if path.isprintable())


def _by_needs(priors: Sequence[Prior], declared: Collection[str]) -> Iterator[Hint]:
    for prior in priors:
        for path in prior.paths:
            if path not in declared:
                reason = f"task {prior.task}, which this one needs, changed it"
                source = "what the tasks before it changed"
                yield Hint(path=path, confidence=None, reason=reason, source=source, always=True)


def _asked(what: str, ask: Callable[[], Iterable[T]]) -> list[T]:
    """Return the answer, or nothing where git failed: hints are never worth a failure."""
    try:
        return list(ask())
    except GitFailed as failed:
        log.info("hints.none", of=what, why=str(failed))
        return []
