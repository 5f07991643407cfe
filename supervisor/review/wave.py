"""
A review of what has landed, as a whole: the target's own commits in place of a composed one, and what is told of them.

Nothing of it is composed: the tree under review is the target's, and the difference is that to the commit before the
first of the landings. What others have put on the target between these is in it, too.
"""

from collections.abc import Iterator

from forgepool.supervisor.messages.requests import EntryRef, LandedTask, ReviewRequest, WaveOf
from forgepool.supervisor.review.quoting import Quotation, clip_text, one_line
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.scanning import subject_of
from forgepool.workers.workspace.scans.shape import scan_shape
from forgepool.worktrees.commits.compose import Composed, ComposedStep, tree_of
from forgepool.worktrees.git.git import CommitId, Git
from forgepool.worktrees.hub.mirror import Mirror

TASKS_CHARACTERS = 48_000
"""The most characters of all that the tasks' authors were asked to do."""
_LEAST_CHARACTERS = 400
_MOST_NAMED = 200
_SHRINKAGE = "shrinkage"


def compose_landed(mirror: Mirror, request: ReviewRequest, wave: WaveOf) -> Composed:
    """
    The tip as it is, taken for one step from the base.

    Raises:
        MissingCommit: the target has lost one of the two commits.
    """
    tip = CommitId(wave.tip)
    for commit in mirror.missing(CommitId(request.base), tip):
        mirror.ensure(commit, refs=(f"refs/heads/{request.target}",))
    step = ComposedStep(commit=tip, tree=tree_of(mirror.git, tip))
    return Composed(commit=step.commit, tree=step.tree, steps=(step,))


def shrinkage(git: Git, base: CommitId, tip: Composed, wave: WaveOf) -> tuple[ScanFinding, ...]:
    """That so much is gone, though no task alone took away so much; for the reviewer to look at."""
    entry = EntryRef(task="", attempt=1, commit=tip.commit, ref="", message="", grants=wave.grants)
    subject = subject_of(git, base, tip.tree, entry)
    found = () if _SHRINKAGE in wave.waive else scan_shape(subject)
    return tuple(one.model_copy(update={"weight": "attention"}) for one in found if one.rule == _SHRINKAGE)


def wave_card(wave: WaveOf, quotation: Quotation) -> Iterator[str]:
    count = len(wave.tasks) + len(wave.more)
    yield (
        f"# Review of a wave of {count} task{'' if count == 1 else 's'}\n\n"
        "They have landed, one after the other. Earlier reviewers saw one change each. You see "
        "all of it together, and look for what cannot be seen in one of them: two that contradict each other or do "
        "the same thing twice, a caller that was left behind, a change that is carried through in one place and not "
        "in another, what one relies on and another has taken away, a task that is not done although it has landed. "
        "A finding is about the target as it is now; nothing is taken back for it, and a person is told. The tree "
        "that you can read is the target's."
    )
    room = max(_LEAST_CHARACTERS, TASKS_CHARACTERS // max(1, len(wave.tasks)))
    for one in wave.tasks:
        yield quotation.quote(f"what the author of task {one_line(one.task)} was asked to do", _asked(one, room))
    if wave.more:
        yield quotation.quote_list("further tasks that landed in it", wave.more[:_MOST_NAMED])


def _asked(one: LandedTask, room: int) -> str:
    parts = [one.title or one.task, clip_text(one.description, room)]
    if one.acceptance:
        parts.append("It must pass: " + "; ".join(map(one_line, one.acceptance)))
    parts.append(f"It landed as {one.commit[:12]}.")
    return "\n\n".join(filter(None, parts))
