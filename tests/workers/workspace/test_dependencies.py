"""An order's worktree has the folders that the repository's set-ups fill, and no candidate contains them."""

from pathlib import Path

import pytest
from host_kit import Host
from repositories import git

from forgepool.workers.sandbox.layers import why_level_fails
from forgepool.workers.schema.orders import CachedFolder, CommandAgent, Setup, WorkResult

in_bubblewrap = pytest.mark.skipif(
    why_level_fails("bubblewrap") is not None, reason="folders are mounted by bubblewrap"
)

GATE = """\
version: 1
checks:
  lint: "true"
  test:
    run: cmp lock deps/of
    setup: {setup}
    cache: [{{folder: {folder}, key: lock{more}}}]
"""
FILL = "mkdir -p {folder} && cp lock {folder}/of"


def host(tmp_path: Path, *, setup: str = FILL, folder: str = "deps", more: str = "", ignored: str = "deps/") -> Host:
    gate = GATE.format(setup=setup.format(folder=folder), folder=folder, more=more)
    return Host(tmp_path, {"a": "1\n", "lock": "1\n", "forgepool.yaml": gate, ".gitignore": f"{ignored}\n"})


def work(host: Host, run: str, *, attempt: int = 1, acceptance: tuple[str, ...] = (), **said: object) -> WorkResult:
    return host.carry_out(agent=CommandAgent(run=run), attempt=attempt, acceptance=acceptance, **said)


def set_ups(host: Host) -> int:
    return len(list(host.settings.home.rglob("*.setup.log")))


@pytest.mark.parametrize("sandbox", [pytest.param("require", marks=in_bubblewrap), "off"])
@pytest.mark.parametrize("ignored", ["deps/", "# nothing"])
def test_the_folders_are_there_and_in_no_candidate(tmp_path: Path, sandbox: str, ignored: str) -> None:
    """Without a sandbox the folder is a copy. A copy that git does not ignore is left out of the worktree."""
    here = host(tmp_path, ignored=ignored)
    here.settings = here.settings.model_copy(update={"sandbox": sandbox})
    there = "deps/of" if sandbox == "require" or ignored == "deps/" else "/dev/null"
    for attempt in (1, 2):
        done = work(here, f"cat {there} > a; echo x{attempt} >> a", attempt=attempt, acceptance=(f"test -e {there}",))
        assert (done.outcome, done.paths) == ("candidate", ("a",)), done
        assert here.content(done.commit, "a") == (f"1\nx{attempt}" if there == "deps/of" else f"x{attempt}")
    assert set_ups(here) == 1


@in_bubblewrap
def test_an_agent_leaves_nothing_in_them_for_the_next(tmp_path: Path) -> None:
    here = host(tmp_path)
    tried = "touch deps/junk || echo no > deps/of || rm -rf deps/of || rmdir deps || mv deps away || ln -sfn /etc deps"
    assert work(here, f"! ({tried}) && echo 2 > a").outcome == "candidate"
    assert work(here, "cmp lock deps/of && test ! -e deps/junk && echo 3 > a", attempt=2).outcome == "candidate"


@pytest.mark.parametrize(
    ("folder", "more", "ignored"), [("deps", ", writable: true", "deps/"), ("web/deps", "", "web/deps/")]
)
def test_a_copy_is_the_orders_own(tmp_path: Path, folder: str, more: str, ignored: str) -> None:
    here = host(tmp_path, folder=folder, more=more, ignored=ignored)
    for attempt in (1, 2):
        dirty = f"cmp lock {folder}/of && test ! -e {folder}/junk && touch {folder}/junk && echo {attempt}x > a"
        done = work(here, dirty, attempt=attempt)
        assert (done.outcome, done.paths) == ("candidate", ("a",)), done
    assert set_ups(here) == 1


def test_a_set_up_that_fails_hinders_nobody(tmp_path: Path) -> None:
    here = host(tmp_path, setup="touch left && mkdir {folder} && exit 3")
    done = work(here, "test ! -e deps/of && test ! -e left && echo 2 > a")
    assert (done.outcome, done.paths) == ("candidate", ("a",)), done


def test_the_plans_own_set_ups_are_run_too_and_another_lock_file_has_another_folder(tmp_path: Path) -> None:
    here = host(tmp_path)
    cache = (CachedFolder(folder="more", key="lock", writable=True),)
    planned = Setup(name="planned", run="mkdir more && cp lock more/of", cache=cache)
    (tmp_path / "person/lock").write_text("2\n")
    (tmp_path / "person/.gitignore").write_text("deps/\nmore/\n")
    git(tmp_path / "person", "commit", "-qam", "second")
    git(tmp_path / "person", "push", "-q", str(here.hub), "main")
    second = git(here.hub, "rev-parse", "main")
    assert work(here, "grep -q 1 deps/of && echo 2 > a").outcome == "candidate"
    done = work(here, "cat deps/of more/of > a", attempt=2, base=second, setups=(planned,))
    assert (done.paths, here.content(done.commit, "a")) == (("a",), "2\n2")
    assert set_ups(here) == 3
