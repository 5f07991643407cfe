"""A queue that cannot be served is refused in one sentence, before anything is started."""

import subprocess
from pathlib import Path

import pytest

from forgepool.orchestrator.cli.queue.serve import serve
from forgepool.orchestrator.decisions.plan_index import gate_plan
from forgepool.orchestrator.merge_queue.serve.serve import gate_name, posts
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import RunOptions, keep
from forgepool.workers.schema.settings import Settings

_WHO = ("-c", "user.name=a", "-c", "user.email=a@b")


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A hub with `main`, `release-2`, and `bare`, which has no gate file."""
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
    left = dict[str, Exception]()
    with pytest.raises(CannotRun, match=said):
        posts(str(hub), targets, settings, left.__setitem__)
    good = posts(str(hub), ("main", "release-2"), settings, left.__setitem__)
    assert [one.target for one in good] == ["main", "release-2"]
    assert left == {}
    assert not (tmp_path / "home" / "runs").exists()


def _keep(settings: Settings, hub: Path, *targets: str) -> None:
    """Write the run folders of a home that has served these queues."""
    for one in targets:
        name = gate_name(str(hub / ".git"), one)
        told = {"run": name, "hub": str(hub), "target": one, "workers": 0, "plan_file": "", "plan_file_digest": ""}
        keep(settings, RunOptions.model_validate({**told, "gate": True}), gate_plan(name, one))


def _broken(hub: Path, branch: str) -> None:
    """Break the branch's gate file."""
    where = hub.parent / "work"
    for argv in (("clone", "-q", "-b", branch, str(hub), str(where)),):
        subprocess.run(["git", *argv], check=True)
    (where / "forgepool.yaml").write_text("version: 1\nchecks: [\n")
    for argv in ((*_WHO, "commit", "-q", "-a", "-m", "broken"), ("push", "-q", "origin", branch)):
        subprocess.run(["git", "-C", str(where), *argv], check=True)


def test_a_gate_that_was_kept_and_cannot_be_opened_leaves_the_others_open(hub: Path, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    _keep(settings, hub, "gone", "release-2")
    _broken(hub, "release-2")
    left = dict[str, Exception]()
    opened = posts(str(hub), ("gone", "main", "release-2"), settings, left.__setitem__)
    assert [one.target for one in opened] == ["main"]
    assert [*left] == ["gone", "release-2"]
    assert "has no branch 'gone'" in str(left["gone"])
    assert str(left["release-2"]).startswith("release-2:forgepool.yaml:")


def test_where_no_gate_can_be_opened_or_one_was_never_kept_all_are_refused(hub: Path, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    _keep(settings, hub, "gone", "main")
    left = dict[str, Exception]()
    for targets, said in ((("gone",), "no branch 'gone'"), (("main", "gone", "nope"), "no branch 'nope'")):
        with pytest.raises(CannotRun, match=said):
            posts(str(hub), targets, settings, left.__setitem__)
    assert left == {}


def test_what_serves_one_target_is_refused_for_two() -> None:
    with pytest.raises(CannotRun, match="--http works with one target, but 2 are given"):
        serve(target=["main", "release-2"], http="127.0.0.1:0")
    with pytest.raises(CannotRun, match="--forge works with one target, but 2 are given"):
        serve(target=["main", "release-2"], forge="github:a/b")
