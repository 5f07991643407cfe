"""Diffs of hostile journals and of large changes: no option of git's, no more memory than is shown, one sentence."""

import tracemalloc
from pathlib import Path

import pytest
from kit import Repository, make_repository

from forgepool.orchestrator.interfaces.web.diff import diff_of
from forgepool.workers.schema.settings import Settings

MISSING = "ab" * 20


@pytest.fixture
def hub(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "hub", {"README.md": "hello\n"})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache=tmp_path / "cache")


def committed(hub: Repository, content: str) -> str:
    (hub.path / "new.txt").write_text(content)
    hub.git("add", "-A")
    hub.git("commit", "-q", "-m", "Add it")
    return hub.git("rev-parse", "HEAD").strip()


@pytest.mark.parametrize("base", ["--output={}", "HEAD", "", "-h"])
def test_a_base_that_is_no_commit_id_never_reaches_git(
    hub: Repository, settings: Settings, tmp_path: Path, base: str
) -> None:
    written = tmp_path / "written"
    commit = committed(hub, "x\n")
    assert "no full ids" in diff_of(settings, str(hub.path), base.format(written), commit, "").trouble
    assert "no full ids" in diff_of(settings, str(hub.path), commit, base.format(written) or "x", "").trouble
    assert not list(tmp_path.glob("written*"))


def test_the_diff_of_two_commits_has_its_stat_and_lines(hub: Repository, settings: Settings) -> None:
    base = hub.git("rev-parse", "HEAD").strip()
    shown = diff_of(settings, str(hub.path), base, committed(hub, "x\n"), "")
    assert (shown.trouble, shown.is_cut, shown.lines[-1]) == ("", False, ("added", "+x"))
    assert " new.txt | 1 +" in [line for _, line in shown.lines]


def test_a_large_diff_is_cut_and_not_held(hub: Repository, settings: Settings) -> None:
    base, commit = hub.git("rev-parse", "HEAD").strip(), committed(hub, "a long line of it\n" * 2_000_000)
    tracemalloc.start()
    shown = diff_of(settings, str(hub.path), base, commit, "")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (shown.trouble, shown.is_cut) == ("", True)
    assert most < 20_000_000, "the diff has 38 MB"


def test_a_repository_that_cannot_be_used_is_told_in_one_sentence(hub: Repository, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    shown = diff_of(Settings(cache=tmp_path / "cache"), str(hub.path), MISSING, MISSING, "")
    assert shown.trouble.startswith("The repository cannot show it now: ") and "\n" not in shown.trouble
    shown = diff_of(Settings(cache=tmp_path / "other"), str(hub.path), MISSING, MISSING, "")
    assert f"commit {MISSING} is not in the hub" in shown.trouble
