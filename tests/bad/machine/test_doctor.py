"""`forgepool doctor` names each problem on a line of its own with its solution, and its exit status reports it."""

from pathlib import Path

from premises import Premises, Said

SIMPLE = {"one": "echo 1 > one.txt"}


def _bad(said: Said) -> dict[str, str]:
    """Return each problem's name and the line that reports it."""
    assert said.err == "", said
    assert said.status == 3, said
    lines = [line.split(maxsplit=1) for line in said.out.splitlines()]
    return {line[1].split("  ")[0]: line[1] for line in lines if line[0] == "bad"}


def test_git_that_is_missing_is_named(premises: Premises, tmp_path: Path) -> None:
    """The doctor reports it on its lines, and a run in one sentence."""
    without = {"PATH": str(tmp_path)}
    bad = _bad(premises.forgepool("doctor", "--repo", premises.repo, env=without))
    assert "there is no git on PATH" in bad["git"]
    assert "install git 2.38 or later" in bad["git"]
    assert "there is no git on PATH" in bad["hub"]
    premises.run(premises.plan(SIMPLE), env=without).is_refusal(3, "there is no git on PATH", "is needed")


def test_a_redis_server_that_is_missing_is_named(premises: Premises) -> None:
    bad = _bad(premises.forgepool("doctor", env={"FORGEPOOL_REDIS_SERVER": "/nonexistent"}))
    assert "FORGEPOOL_REDIS_SERVER names /nonexistent" in bad["redis-server"]
    assert "install redis" in bad["redis-server"]
    assert "/nonexistent" in bad["private Redis"]


def test_a_home_that_cannot_be_written_is_named(premises: Premises) -> None:
    """The home is below a file, where not even root can make a folder."""
    file = premises.repo / "README"
    below = {"FORGEPOOL_HOME": str(file / "home"), "FORGEPOOL_CACHE": str(premises.cache)}
    bad = _bad(premises.forgepool("doctor", env=below))
    assert set(bad) == {"disk for runs"}
    assert str(file) in bad["disk for runs"]
    assert "FORGEPOOL_HOME" in bad["disk for runs"]
    premises.run(premises.plan(SIMPLE), env=below).is_refusal(3, str(file), "FORGEPOOL_HOME")


def test_a_repository_that_cannot_be_used_is_named(premises: Premises) -> None:
    bad = _bad(premises.forgepool("doctor", "--repo", premises.folder))
    assert "not a git repository" in bad["hub"]
