"""A hub that cannot be used is refused at once, in one sentence that says what would be right."""

import os
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.hub.hub import HubUnusable, inspect_hub


def refusal(where: str) -> str:
    with pytest.raises(HubUnusable) as caught:
        inspect_hub(where)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_bare_hub_is_known_by_path_and_by_file_url(hub: Hub) -> None:
    by_path, by_url = inspect_hub(str(hub.path)), inspect_hub(hub.path.as_uri())
    assert (by_path.url, by_path.local, by_path.bare) == (str(hub.path), hub.path, True)
    assert (by_url.url, by_url.local) == (hub.path.as_uri(), hub.path)
    assert by_path.default_branch == by_url.default_branch == "main"
    assert by_path.checked_out == {}


def test_a_path_inside_a_work_tree_leads_to_its_repository(hub: Hub) -> None:
    facts = inspect_hub(str(hub.work / "src"))
    assert (facts.url, facts.bare) == (str(hub.work / ".git"), False)
    assert facts.checked_out == {"main": hub.work}


def test_every_checkout_of_a_branch_is_seen(hub: Hub, tmp_path: Path) -> None:
    other = tmp_path / "other\nplace"
    git(hub.work, "worktree", "add", "-q", "-b", "feature/x", str(other))
    assert inspect_hub(str(hub.work)).checked_out == {"main": hub.work, "feature/x": other}
    assert inspect_hub(str(other)).local == hub.work / ".git"


def test_a_relative_path_becomes_absolute(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hub.path.parent)
    assert inspect_hub("hub.git").url == str(hub.path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "there is no such folder" in refusal(str(tmp_path / "none"))


def test_a_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    assert "not a git repository" in refusal(str(tmp_path))


def test_a_hub_without_a_commit_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    assert "has no commit" in refusal(str(tmp_path / "empty"))


def test_a_shallow_clone_is_refused_with_the_mend(hub: Hub, tmp_path: Path) -> None:
    hub.commit({"README.md": "again\n"})
    git(tmp_path, "clone", "-q", "--depth=1", hub.path.as_uri(), "shallow")
    assert "git fetch --unshallow" in refusal(str(tmp_path / "shallow"))


def test_a_protocol_that_runs_commands_is_refused_and_runs_none(evil: tuple[Path, Path]) -> None:
    program, trace = evil
    assert "not safe" in refusal(f"ext::{program}")
    assert "not safe" in refusal("ftp://host/x")
    assert not trace.exists()


def test_a_hub_that_does_not_answer_is_refused_without_telling_the_password() -> None:
    told = refusal("https://me:secret@127.0.0.1:1/x.git")
    assert "does not answer" in told
    assert "secret" not in told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
@pytest.mark.parametrize("which", ["hub.git", "person"])
def test_a_hub_of_somebody_else_is_refused_with_the_mend(hub: Hub, which: str) -> None:
    folder = hub.path.parent / which
    for found, _, files in os.walk(folder):
        for name in (".", *files):
            os.lchown(Path(found, name), 12345, 12345)
    assert "owned by another user (id 12345)" in refusal(str(folder))


def test_a_detached_or_missing_default_branch_is_none(hub: Hub) -> None:
    git(hub.path, "symbolic-ref", "HEAD", "refs/heads/gone")
    assert inspect_hub(str(hub.path)).default_branch is None
    git(hub.work, "checkout", "-q", "--detach")
    assert inspect_hub(str(hub.work)).default_branch is None
