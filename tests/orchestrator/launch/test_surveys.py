"""Kept surveys are data: what is damaged, or cites what is not there, is named and not used."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from plans import course, task

from forgepool.orchestrator.journal.surveys import (
    KeptSurvey,
    describe_with_earlier,
    find_change_time,
    find_survey,
    keep_survey,
    list_surveys,
)
from forgepool.orchestrator.plan.document import Plan
from forgepool.workers.schema.orders import BuiltinAgent
from forgepool.workers.schema.reports import Evidence, Report
from forgepool.worktrees.git.git import CommitId, Git

REPORT = Report(summary="s", evidence=(Evidence(path="a.py", lines=(1, 1)), Evidence(path="b.py")))
HUB = "https://ann:secret@example.org/r.git"


def surveyed(about: str = "all") -> Plan:
    return course(task("survey", answers=True, surveys=True, description=about, agent=BuiltinAgent())).plan


class Tree:
    """A repository whose files change from commit to commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.do("init", "-q", "-b", "main")
        self.git = Git(git_dir=folder / ".git")

    def do(self, *argv: str) -> str:
        who = ("-c", "user.name=P", "-c", "user.email=p@example.org")
        said = subprocess.run(["git", *who, *argv], cwd=self.folder, check=True, capture_output=True, text=True)
        return said.stdout.strip()

    def commit(self, **files: str | None) -> CommitId:
        for name, text in files.items():
            path = self.folder / f"{name}.py"
            path.unlink() if text is None else path.write_text(text)
        self.do("add", "-A")
        self.do("commit", "-q", "--allow-empty", "-m", "x")
        return CommitId(self.do("rev-parse", "HEAD"))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "r")


def unheard(sentence: str) -> None:
    raise AssertionError(sentence)


def test_a_survey_is_found_by_repository_question_and_tree(tmp_path: Path, tree: Tree) -> None:
    """An equal tree of another commit is the same tree; a password is no part of the repository's name."""
    first = tree.commit(a="1\n", b="2\n")
    keep_survey(tmp_path, HUB, surveyed(), tree.git, first, "r-1", REPORT)
    tree.commit(a="3\n")
    same = tree.commit(a="1\n")
    (found,) = find_survey(tmp_path, HUB.replace("secret", "other"), surveyed(), tree.git, same, unheard)
    assert (found.stands, found.commit, found.by_run, found.report) == (True, same, "r-1", REPORT)
    for hub, plan in ((f"{HUB}/x", surveyed()), (HUB, surveyed("dates")), (HUB, course(task("a")).plan)):
        assert find_survey(tmp_path, hub, plan, tree.git, same, unheard) == []
    assert "secret" not in "".join(map(str, tmp_path.rglob("*")))


def test_the_survey_of_another_tree_is_corrected_without_what_it_cites_wrongly_now(tmp_path: Path, tree: Tree) -> None:
    first = tree.commit(a="1\n", b="2\n")
    keep_survey(tmp_path, HUB, surveyed(), tree.git, first, "r-1", REPORT)
    later = tree.commit(b=None, **{f"new{n:03}": "x\n" for n in range(250)})
    (found,) = find_survey(tmp_path, HUB, surveyed(), tree.git, later, unheard)
    assert not found.stands and (len(found.changed), found.changed_count) == (200, 251)
    assert found.report.evidence == REPORT.evidence[:1]
    text, (prior,) = describe_with_earlier(found, surveyed().tasks[0])
    assert text.startswith("all\n\nAn earlier run has surveyed commit") and text.endswith("- and 51 more")
    assert prior.report == found.report and prior.full and not prior.surveyed
    assert describe_with_earlier(found, task("a", description="d")) == ("d", ())
    assert describe_with_earlier(None, surveyed().tasks[0]) == ("all", ())


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        (lambda text: "", "is damaged and not used"),
        (lambda text: text[:40], "is damaged and not used"),
        (lambda text: "[" * 100_000, "is damaged and not used"),
        (lambda text: text.replace('"commit":"', '"commit":"--output=/tmp/x', 1), "is damaged and not used"),
        (lambda text: text.replace("b.py", "../b.py"), "cites what does not exist and is not used"),
    ],
)
def test_a_damaged_survey_is_named_and_not_used(damage: object, wrong: str, tmp_path: Path, tree: Tree) -> None:
    first = tree.commit(a="1\n", b="2\n")
    keep_survey(tmp_path, HUB, surveyed(), tree.git, first, "r-1", REPORT)
    (path,) = tmp_path.glob("surveys/*/*.json")
    assert callable(damage)
    path.write_text(damage(path.read_text()))
    heard: list[str] = []
    assert find_survey(tmp_path, HUB, surveyed(), tree.git, first, heard.append) == []
    assert len(heard) == 1 and wrong in heard[0] and str(path) in heard[0]


def test_a_survey_of_a_commit_that_is_gone_is_not_corrected(tmp_path: Path, tree: Tree) -> None:
    first = tree.commit(a="1\n", b="2\n")
    keep_survey(tmp_path, HUB, surveyed(), tree.git, first, "r-1", REPORT)
    (path,) = tmp_path.glob("surveys/*/*.json")
    kept = KeptSurvey.model_validate_json(path.read_text()).model_copy(update={"commit": "0" * 40, "tree": "1" * 40})
    path.rename(path.with_name(f"{'1' * 40}.json")).write_text(kept.encode())
    heard: list[str] = []
    assert find_survey(tmp_path, HUB, surveyed(), tree.git, first, heard.append) == []
    assert len(heard) == 1 and f"is of commit {'0' * 40}, which is not there" in heard[0]


def test_what_is_no_regular_file_is_no_kept_survey(tmp_path: Path, tree: Tree) -> None:
    """A link that leads nowhere, and a pipe, which a read would never leave."""
    first = tree.commit(a="1\n", b="2\n")
    keep_survey(tmp_path, HUB, surveyed(), tree.git, first, "r-1", REPORT)
    (path,) = tmp_path.glob("surveys/*/*.json")
    path.with_name(f"{'1' * 40}.json").symlink_to(tmp_path / "absent")
    os.mkfifo(path.with_name(f"{'2' * 40}.json"))
    assert list_surveys(tmp_path, before=time.time() + 60) == [path] and find_change_time(tmp_path / "absent") == 0.0
    (found,) = find_survey(tmp_path, HUB, surveyed(), tree.git, first, unheard)
    assert found.stands
    path.unlink()
    assert find_survey(tmp_path, HUB, surveyed(), tree.git, first, unheard) == []


def test_a_home_that_takes_no_file_costs_the_run_nothing(tmp_path: Path, tree: Tree) -> None:
    (tmp_path / "surveys").write_text("a file in the folder's place")
    keep_survey(tmp_path, HUB, surveyed(), tree.git, tree.commit(a="1\n"), "r-1", REPORT)
    assert (tmp_path / "surveys").read_text()
