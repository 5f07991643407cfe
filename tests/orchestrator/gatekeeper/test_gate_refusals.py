"""What cannot be kept is told in one sentence, before anything is started."""

import subprocess
from pathlib import Path

import pytest

from orchestrator.cli.gatekeeping import serve
from orchestrator.gatekeeper.serving import posts
from orchestrator.hub import CannotRun
from workers.settings import Settings

_WHO = ("-c", "user.name=a", "-c", "user.email=a@b")


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """With `main`, `release-2`, and `bare`, which says of no check."""
    made = tmp_path / "hub"
    for argv in (
        ("init", "-q", "-b", "bare", str(made)),
        ("-C", str(made), *_WHO, "commit", "-q", "--allow-empty", "-m", "one"),
    ):
        subprocess.run(["git", *argv], check=True)
    (made / "forgepool.yaml").write_text("version: 1\nchecks:\n  t: 'true'\n")
    for argv in (("add", "-A"), (*_WHO, "commit", "-q", "-m", "two"), ("branch", "main"), ("branch", "release-2")):
        subprocess.run(["git", "-C", str(made), *argv], check=True)
    subprocess.run(["git", "-C", str(made), *_WHO, "checkout", "-q", "--detach", "HEAD~1"], check=True)
    subprocess.run(["git", "-C", str(made), "branch", "-q", "-f", "bare"], check=True)
    return made


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (("main", "main"), "--target main is given twice; give each branch once"),
        (("main", "nope"), "has no branch 'nope'; name one with --target: bare, main, release-2"),
        (("main", "bare"), "bare:forgepool.yaml does not exist"),
    ],
)
def test_one_wrong_target_refuses_all(hub: Path, tmp_path: Path, targets: tuple[str, ...], said: str) -> None:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    with pytest.raises(CannotRun, match=said):
        posts(str(hub), targets, settings)
    good = posts(str(hub), ("main", "release-2"), settings)
    assert [one.target for one in good] == ["main", "release-2"]
    assert not (tmp_path / "home" / "runs").exists()


def test_what_serves_one_target_is_refused_for_two() -> None:
    with pytest.raises(CannotRun, match="--http serves one target, and 2 are given"):
        serve(target=["main", "release-2"], http="127.0.0.1:0")
    with pytest.raises(CannotRun, match="--forge serves one target, and 2 are given"):
        serve(target=["main", "release-2"], forge="github:a/b")
