"""A repository that cannot be used is refused in one sentence, and any other is left as it was."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from premises import Premises, await_file

SIMPLE = {"one": "echo 1 > one.txt"}
TARGET = "forgepool/p"


def _missing(premises: Premises) -> Path:
    return premises.folder / "nowhere"


def _no_repository(premises: Premises) -> Path:
    (premises.folder / "plain").mkdir()
    return premises.folder / "plain"


def _a_file(premises: Premises) -> Path:
    return premises.repo / "README"


def _no_commit(premises: Premises) -> Path:
    premises.git("init", "-q", premises.folder / "fresh", folder=premises.folder)
    return premises.folder / "fresh"


def _shallow(premises: Premises) -> Path:
    premises.commit({"more": "more\n"})
    url = premises.repo.as_uri()
    premises.git("clone", "-q", "--depth", "1", url, premises.folder / "shallow", folder=premises.folder)
    return premises.folder / "shallow"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_missing, ("there is no such folder", "give the path or URL")),
        (_no_repository, ("not a git repository", "git init")),
        (_a_file, ("README", "git repository")),
        (_no_commit, ("has no commit", "git commit")),
        (_shallow, ("shallow", "git fetch --unshallow")),
    ],
)
def test_run_refuses_a_repository_it_cannot_work_with(
    premises: Premises, make: Callable[[Premises], Path], words: tuple[str, ...]
) -> None:
    where = make(premises)
    said = premises.forgepool("run", premises.plan(SIMPLE), "--repo", where)
    said.is_refusal(2, str(where), *words)
    assert not (premises.home / "runs").exists()


def test_run_refuses_a_url_behind_which_nothing_is(premises: Premises) -> None:
    url = (premises.folder / "nowhere.git").as_uri()
    premises.forgepool("run", premises.plan(SIMPLE), "--repo", url).is_refusal(2, "nowhere.git", "give the")


def test_run_refuses_a_hub_that_takes_no_branches(premises: Premises) -> None:
    hook = premises.repo / ".git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nwhile read old new ref; do\n"
        "case $ref in refs/heads/*) echo 'branches are closed, ask Ann' >&2; exit 1;; esac\ndone\n"
    )
    hook.chmod(0o755)
    said = premises.run(premises.plan(SIMPLE))
    said.is_refusal(3, TARGET, "branches are closed, ask Ann", "get permission")
    assert premises.git("for-each-ref", "refs/forgepool") == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_run_refuses_a_hub_that_cannot_be_written(premises: Premises) -> None:
    folders = [premises.repo / ".git", *(path for path in premises.repo.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        premises.run(premises.plan(SIMPLE)).is_refusal(3, "permission")
    finally:
        for folder in folders:
            folder.chmod(stat.S_IRWXU)


def test_what_a_killed_run_left_of_its_first_look_at_the_hub_goes_with_the_next(premises: Premises) -> None:
    premises.git("update-ref", "refs/forgepool/killed-1126-120000-abcd/probe", "HEAD")
    assert premises.run(premises.plan(SIMPLE)).status == 0
    assert premises.git("for-each-ref", "refs/forgepool") == ""


def test_a_dirty_checkout_stays_as_dirty_as_it_was(premises: Premises) -> None:
    (premises.repo / "README").write_text("half a thought\n")
    (premises.repo / "staged").write_text("staged\n")
    (premises.repo / "untracked").write_text("untracked\n")
    premises.git("add", "staged")
    before = premises.git("status", "--porcelain"), (premises.repo / ".git" / "index").read_bytes()
    said = premises.run(premises.plan(SIMPLE))
    assert said.status == 0, said
    after = premises.git("status", "--porcelain"), (premises.repo / ".git" / "index").read_bytes()
    assert after == before
    assert premises.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert premises.files() == ["README", "one.txt"]


def test_run_refuses_a_target_that_is_checked_out(premises: Premises) -> None:
    premises.git("checkout", "-q", "-b", TARGET)
    said = premises.run(premises.plan(SIMPLE))
    said.is_refusal(2, f"branch {TARGET} is checked out in {premises.repo}", "switch that folder")


def test_run_refuses_a_target_that_is_checked_out_in_a_linked_worktree(premises: Premises) -> None:
    linked = premises.folder / "linked"
    premises.git("worktree", "add", "-q", "-b", TARGET, linked)
    said = premises.run(premises.plan(SIMPLE))
    said.is_refusal(2, f"branch {TARGET} is checked out in {linked}", "switch that folder")


def test_a_target_that_is_checked_out_during_the_run_is_not_moved(premises: Premises) -> None:
    """This holds even where the repository lets a push update the checked-out files."""
    premises.git("config", "receive.denyCurrentBranch", "updateInstead")
    premises = premises.unconfined()
    go_on = premises.folder / "go-on"
    plan = premises.plan({"one": f"{await_file(go_on)}; echo 1 > one.txt"})
    with premises.going("run", plan, "--repo", premises.repo) as going:
        going.await_words("one: attempt 1 begins")
        premises.git("checkout", "-q", TARGET)
        go_on.touch()
        said = going.ended()
    assert said.status == 3, said
    assert "landing is paused" in said.out
    assert "checked out" in said.out
    assert "forgepool resume" in said.out
    said.has_no_traceback()
    assert premises.git("status", "--porcelain") == ""
    refused = premises.forgepool("resume", premises.run_name())
    refused.is_refusal(2, "is checked out", "then resume")
    premises.git("checkout", "-q", "main")
    assert premises.forgepool("resume", premises.run_name()).status == 0
    assert premises.landed() == ["one"]


def test_a_repository_that_went_away_is_named_on_resume(premises: Premises) -> None:
    plan = premises.plan({"one": "exit 1", "two": "echo 2 > two.txt"})
    with premises.going("run", plan, "--repo", premises.repo) as going:
        going.await_words("begins on")
        going.process.terminate()
        assert going.ended().status == 130
    shutil.move(premises.repo, premises.folder / "moved")
    said = premises.forgepool("resume", premises.run_name())
    said.is_refusal(3, str(premises.repo), "there is no such folder", "when it is back, resume again")
    shutil.move(premises.folder / "moved", premises.repo)
    assert premises.forgepool("resume", premises.run_name()).status == 1
    assert premises.landed() == ["two"]
