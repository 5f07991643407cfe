import os
import subprocess
from pathlib import Path

import pytest

from forgepool.workers.sandbox.sandbox_profile import command_environment

BASE = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "CI": "true"}


def test_a_command_has_a_home_of_its_own(tmp_path: Path) -> None:
    """Home, tmp and every XDG folder are the command's, and none of the user's is named."""
    env = command_environment(BASE, {}, tmp_path / "home", tmp_path / "tmp")
    assert env["HOME"] == str(tmp_path / "home")
    assert env["TMPDIR"] == str(tmp_path / "tmp")
    assert all(env[name].startswith(str(tmp_path)) for name in env if name.startswith("XDG_"))
    assert str(Path.home()) not in {value for name, value in env.items() if name != "PATH"}


def test_continuous_integration_is_not_mentioned(tmp_path: Path) -> None:
    """Tools behave the same in and outside CI, unless the task sets `CI`."""
    assert "CI" not in command_environment(BASE, {}, tmp_path, tmp_path)
    assert command_environment(BASE, {"CI": "1"}, tmp_path, tmp_path)["CI"] == "1"


def test_a_complete_environment_stays_as_it_is(tmp_path: Path) -> None:
    once = command_environment(BASE, {}, tmp_path, tmp_path)
    assert command_environment(once, {}, tmp_path, tmp_path) == once


def test_a_task_cannot_set_what_is_forgepools(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="FORGEPOOL_TASK is Forgepool's own"):
        command_environment(BASE, {"FORGEPOOL_TASK": "x"}, tmp_path, tmp_path)


def test_git_commits_without_anybodys_configuration(tmp_path: Path) -> None:
    """An agent's git can commit, and reads no user's or system's settings."""
    (tmp_path / ".gitconfig").write_text("[core]\n\tpager = false\n[user]\n\tname = Somebody Else\n")
    env = command_environment(BASE, {}, tmp_path, tmp_path)
    made = "git init -q . && git commit -q --allow-empty -m x"
    script = f"{made} && git log --format=%an && git config -l --show-scope"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Forgepool agent\n")
    assert "global" not in done.stdout
    assert "system" not in done.stdout


def _git_in(env: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


OWN_SETTINGS = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "x"}


@pytest.mark.parametrize("own", [{}, OWN_SETTINGS], ids=["", "own settings"])
def test_git_runs_nothing_that_a_repository_it_finds_names(tmp_path: Path, own: dict[str, str]) -> None:
    """A watcher of files is not started, and a bare repository not entered; one that is named is read as ever."""
    env = command_environment(BASE, own, tmp_path, tmp_path)
    worktree, bare = tmp_path / "worktree", tmp_path / "bare"
    assert _git_in(env, tmp_path, "init", "-q", str(worktree)).returncode == 0
    assert _git_in(env, tmp_path, "init", "-q", "--bare", str(bare)).returncode == 0
    watcher = tmp_path / "watcher"
    watcher.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    watcher.chmod(0o755)
    _git_in(env, worktree, "config", "core.fsmonitor", str(watcher))
    assert _git_in(env, worktree, "status").returncode == 0
    assert not (tmp_path / "ran").exists()
    found = _git_in(env, bare, "rev-parse", "--is-bare-repository")
    assert found.returncode != 0 and "safe.bareRepository" in found.stderr
    assert _git_in(env, bare, "--git-dir", ".", "rev-parse", "--is-bare-repository").stdout == "true\n"


def test_a_task_may_let_git_enter_bare_repositories(tmp_path: Path) -> None:
    env = command_environment(BASE, {"GIT_CONFIG_PARAMETERS": ""}, tmp_path, tmp_path)
    assert _git_in(env, tmp_path, "init", "-q", "--bare", "bare").returncode == 0
    assert _git_in(env, tmp_path / "bare", "rev-parse", "--is-bare-repository").stdout == "true\n"
