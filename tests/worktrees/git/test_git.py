"""The module that runs git passes nothing unsafe in and loses no output."""

import os
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.git.git import Git, GitFailed, git_version, is_object_id, is_ref, without_password


def test_git_is_new_enough_to_be_worth_testing() -> None:
    assert git_version() >= (2, 38)


def test_a_missing_git_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    git_version()
    (tmp_path / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitFailed, match="there is no git on PATH"):
        git_version()


def test_an_unexpected_status_is_one_sentence_with_gits_own_reason(hub: Hub) -> None:
    with pytest.raises(GitFailed) as caught:
        Git(git_dir=hub.path).run("rev-parse", "--verify", "nothing")
    assert str(caught.value) == "git rev-parse ended with status 128: fatal: Needed a single revision"
    assert caught.value.argv[0] == "rev-parse"
    assert "\n" not in str(caught.value)


def test_an_expected_status_is_an_answer(hub: Hub) -> None:
    assert Git(git_dir=hub.path).run("rev-parse", "--verify", "-q", "nothing", ok=(0, 1)).status == 1


def test_a_call_that_does_not_end_is_ended(hub: Hub, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(GitFailed, match="did not end within"):
        Git(git_dir=hub.path).run("hash-object", "--stdin-paths", stdin=f"{fifo}\n".encode(), timeout_s=0.3)


def test_a_git_that_ended_with_its_output_still_held_is_no_answer(hub: Hub) -> None:
    """A helper keeps the pipe open after git has ended, so the output may be incomplete."""
    with pytest.raises(GitFailed, match="did not end within"):
        Git(git_dir=hub.path).run("-c", "alias.held=!echo half; setsid sleep 2 & exit 0", "held", timeout_s=0.5)


def test_passwords_in_urls_are_not_told() -> None:
    failed = GitFailed(("fetch", "https://me:secret@host/x"), 128, "fatal: https://me:secret@host/x is away")
    assert "secret" not in f"{failed} {failed.argv} {failed.stderr} {failed!r}"
    assert without_password("ssh://u:p@h/x") == "ssh://h/x"


def test_nothing_of_this_process_reaches_git(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/elsewhere")
    shown = Git(git_dir=hub.path).text("-c", "alias.shown=!env", "shown")
    assert "s3cret" not in shown
    assert f"GIT_DIR={hub.path}" in shown.splitlines()
    assert "GIT_INDEX_FILE" not in shown


def test_the_users_configuration_is_not_read(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[alias]\n\tevil = rev-parse HEAD\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(GitFailed) as caught:
        Git(git_dir=hub.path).run("evil")
    assert "'evil' is not a git command" in caught.value.stderr


def test_replaced_objects_are_not_looked_at(hub: Hub) -> None:
    first = hub.tip()
    second = hub.commit({"README.md": "other\n"})
    git(hub.path, "replace", second, first)
    assert git(hub.path, "show", f"{second}:README.md") == "read me"
    assert Git(git_dir=hub.path).text("show", f"{second}:README.md") == "other"


@pytest.mark.parametrize("name", ["refs/heads/a", "refs/forgepool/r1/orders/t.1/2", "refs/heads/ü"])
def test_good_ref_names_are_taken(name: str) -> None:
    assert is_ref(name)


@pytest.mark.parametrize(
    "name",
    ["main", "refs/a:refs/b", "refs/heads/*", "refs/heads/..", "refs/heads/a.lock", "refs/a/",
     "refs/heads/.a", "refs/heads/a b", "refs/heads/a\n", "refs/heads/a@{1}", "refs/heads//a", "+refs/heads/a"],
)  # fmt: skip
def test_names_that_could_change_a_refspec_are_not_refs(name: str) -> None:
    assert not is_ref(name)


def test_an_object_id_is_nothing_else() -> None:
    assert is_object_id("a" * 40)
    assert is_object_id("0" * 64)
    assert not is_object_id("--output=x")
    assert not is_object_id("a" * 40 + "\n")
