"""
Hints without a model: every rule asked, none of them waited for.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import structlog

from forgepool.workers.agents.briefing.hints.definitions import find_definitions
from forgepool.workers.agents.briefing.hints.hint import Hint, best
from forgepool.workers.agents.briefing.hints.history import companions
from forgepool.workers.agents.briefing.hints.named import find_named_files
from forgepool.workers.schema.orders import Prior, WorkOrder
from forgepool.worktrees.commits.changes import tree_paths
from forgepool.worktrees.git.git import CommitId, Git, GitFailed

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
