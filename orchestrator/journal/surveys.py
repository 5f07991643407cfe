"""
The surveys of repositories that runs have made, kept in the home for later runs: by repository and question, one for
each tree.

A survey is an agent's text. It is read as data alone, and what it cites is looked up again before it is used.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import structlog
from pydantic import Field

from forgepool.orchestrator.journal.events import SurveyFound
from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.reports import Prior, Report
from forgepool.workers.workspace.citations import find_wrong_citations
from forgepool.worktrees.commits.changes import changes, list_touched_paths
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, without_password
from forgepool.worktrees.git.objects import find_object

log = structlog.get_logger()
_MOST_CHANGED = 200


class KeptSurvey(Message):
    """A survey as its file has it."""

    run: str
    commit: str = Field(pattern="^[0-9a-f]{40,64}$")
    tree: str
    report: Report


def list_surveys(home: Path, *, before: float) -> list[Path]:
    """List the kept surveys that were last used before that Unix time."""
    return [path for path in _files(home / "surveys", "*/*.json") if find_change_time(path) < before]


def find_change_time(path: Path) -> float:
    """Return the Unix time of a path's last change; 0.0 for one that has gone meanwhile."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def keep_survey(home: Path, hub: str, plan: Plan, git: Git, commit: CommitId, run: str, report: Report) -> None:
    """Keep the report of a run's survey. A full disk costs later runs the survey, and this run nothing."""
    survey = _survey_of(plan)
    if survey is None:
        return
    try:
        kept = KeptSurvey(run=run, commit=commit, tree=tree_of(git, commit), report=report)
        path = _folder(home, hub, survey) / f"{kept.tree}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{run}")
        draft.write_text(kept.encode(), encoding="utf-8")
        draft.replace(path)
    except (OSError, GitFailed) as trouble:
        log.warning("survey.not_kept", run=run, why=str(trouble))


def find_survey(
    home: Path, hub: str, plan: Plan, git: Git, tip: CommitId, warn: Callable[[str], None]
) -> list[SurveyFound]:
    """
    Find a survey by an earlier run: of the tip's tree, else the one used last. Empty where there is none, or none that
    can be used, and where the plan wants none. `warn` receives a sentence for each that is damaged.
    """
    survey = _survey_of(plan)
    if survey is None:
        return []
    tree = tree_of(git, tip)
    for path in _latest_first(_folder(home, hub, survey), tree):
        try:
            kept = KeptSurvey.model_validate_json(path.read_bytes())
        except (OSError, ValueError):
            warn(f"the survey kept in {path} is damaged and not used; remove the file")
            continue
        wrong = {one: find_wrong_citations(git, tip, [one], (survey.id,)) for one in kept.report.evidence}
        found = {"task": survey.id, "by_run": kept.run}
        if kept.tree == tree and path.stem == tree:
            if any(wrong.values()):
                warn(f"the survey kept in {path} cites what does not exist and is not used; remove the file")
                continue
            with suppress(OSError):
                os.utime(path)
            return [SurveyFound(**found, commit=tip, report=kept.report, stands=True)]
        if find_object(git, f"{kept.commit}^{{commit}}") is None:
            warn(f"the survey kept in {path} is of commit {kept.commit}, which is not there; it is not used")
            continue
        with suppress(OSError):
            os.utime(path)
        changed = list_touched_paths(changes(git, CommitId(kept.commit), tip))
        holds = kept.report.model_copy(update={"evidence": tuple(one for one, why in wrong.items() if not why)})
        # A name that is not UTF-8 could not be journaled.
        few = tuple(path.encode(errors="replace").decode() for path in changed[:_MOST_CHANGED])
        of = {**found, "commit": kept.commit, "changed_count": len(changed)}
        return [SurveyFound(**of, report=holds, stands=False, changed=few)]
    return []


def describe_with_earlier(found: SurveyFound | None, task: Task) -> tuple[str, tuple[Prior, ...]]:
    """
    Return a task's description, and nothing. For a survey with an earlier one to correct: a description that says so
    and names the files that differ, and the earlier one.
    """
    if found is None or not task.surveys:
        return task.description, ()
    more = found.changed_count - len(found.changed)
    names = [*(" ".join(path.split()) for path in found.changed), *([f"and {more:,} more"] if more else [])]
    words = (
        f"An earlier run has surveyed commit {found.commit}; its report is below. Correct it, and do not begin "
        "from nothing: look at what has changed since, keep what still holds, and report the whole survey. Files that "
        "differ:"
    )
    title = f"an earlier survey, of commit {found.commit}"
    earlier = Prior(task=task.id, full=True, title=title, summary=found.report.summary, report=found.report)
    return "\n".join([f"{task.description}\n\n{words}", *(f"- {name}" for name in names)]), (earlier,)


def _survey_of(plan: Plan) -> Task | None:
    return next((task for task in plan.tasks if task.surveys), None)


def _folder(home: Path, hub: str, survey: Task) -> Path:
    asked = hashlib.sha256(f"{without_password(hub)}\0{survey.description}".encode()).hexdigest()
    return home / "surveys" / asked[:16]


def _latest_first(folder: Path, tree: str) -> Sequence[Path]:
    """Return the surveys of a folder, that of the tree before all others."""
    return sorted(_files(folder, "*.json"), key=lambda path: (path.stem != tree, -find_change_time(path)))


def _files(folder: Path, pattern: str) -> list[Path]:
    """List the regular files: a pipe would be read forever, and a link leads elsewhere."""
    return [path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink()]
