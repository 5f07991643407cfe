"""
The harness's git runs nothing from a checkout, whatever lies in it, and the next user of the slot finds none of it.
"""

import os
import subprocess
from pathlib import Path

import pytest
from repositories import Hub, git, is_intact

from forgepool.worktrees.checkouts.checkout import Checkout, Unusable, lease_checkout
from forgepool.worktrees.checkouts.slots import prune_checkouts
from forgepool.worktrees.commits.candidate import commit_candidate
from forgepool.worktrees.commits.changes import changes
from forgepool.worktrees.commits.compose import Composed, Entry, compose, tree_of
from forgepool.worktrees.hub.mirror import Mirror, open_mirror

HOOKS = (
    *("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "pre-push", "post-commit"),
    *("fsmonitor-watchman", "post-merge", "pre-auto-gc", "post-rewrite", "commit-msg", "prepare-commit-msg"),
)


def evil_repository(folder: Path, program: Path) -> None:
    """Make a repository in the folder that runs the program by every means git has."""
    git(folder, "init", "-q", ".")
    for key in (
        "core.fsmonitor",
        "core.sshCommand",
        "core.editor",
        "diff.external",
        "core.askPass",
        "core.pager",
    ):
        git(folder, "config", key, str(program))
    for kind in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv"):
        git(folder, "config", kind, str(program))
    for name in HOOKS:
        (folder / ".git/hooks").mkdir(exist_ok=True)
        (folder / ".git/hooks" / name).write_text(f"#!/bin/sh\n{program}\n")
        (folder / ".git/hooks" / name).chmod(0o755)


def whole_round(mirror: Mirror, checkout: Checkout) -> None:
    """Do everything the harness does with a checkout after an agent was in it."""
    base = checkout.commit
    tree = checkout.snapshot()
    made = commit_candidate(checkout.git, base=base, tree=tree, message="work", at=1)
    changes(checkout.git, base, made)
    assert isinstance(compose(mirror.git, base, [Entry(commit=made, name="t", message="m")]), Composed)


def test_a_repository_put_in_the_place_of_ours_is_not_looked_at(
    hub: Hub, mirror: Mirror, pool: Path, evil: tuple[Path, Path]
) -> None:
    program, trace = evil
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / ".git").unlink()
        evil_repository(checkout.path, program)
        (checkout.path / ".gitattributes").write_text("* filter=evil diff=evil\n")
        trace.unlink(missing_ok=True)
        assert not is_intact(checkout)
        whole_round(mirror, checkout)
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert is_intact(checkout)
    assert not trace.exists()


def test_configuration_an_agent_wrote_into_the_mirror_runs_nothing(
    hub: Hub, mirror: Mirror, pool: Path, evil: tuple[Path, Path]
) -> None:
    program, trace = evil
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        for key in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor", "merge.evil.driver"):
            git(checkout.path, "config", key, str(program))
        git(checkout.path, "config", "extensions.worktreeConfig", "true")
        git(checkout.path, "config", "--worktree", "core.fsmonitor", str(program))
        (checkout.path / ".gitattributes").write_text("* filter=evil merge=evil\n")
        (mirror.path / "info").mkdir()
        (mirror.path / "info/attributes").write_text("* filter=evil\n")
        (mirror.path / "info/exclude").write_text("*\n")
        (checkout.path / "new").write_text("x")
        trace.unlink(missing_ok=True)
        tree = checkout.snapshot()
        assert "new" in mirror.git.text("ls-tree", "--name-only", tree).splitlines()
        whole_round(mirror, checkout)
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        whole_round(mirror, checkout)
    assert not trace.exists()


def test_filters_named_in_the_tree_and_defined_by_the_user_are_not_run(
    hub: Hub, tmp_path: Path, pool: Path, evil: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, trace = evil
    (tmp_path / ".gitconfig").write_text(
        f'[filter "evil"]\nclean = {program}\nsmudge = {program}\nrequired = true\n'
        f"[core]\nfsmonitor = {program}\nhooksPath = {program.parent}\n"
    )
    commit = hub.commit({".gitattributes": "* filter=evil\n", "data": "x\n"})
    monkeypatch.setenv("HOME", str(tmp_path))
    mirror = open_mirror(str(hub.path), tmp_path / "cache")
    with lease_checkout(mirror, commit, pool) as checkout:
        (checkout.path / "data").write_text("y\n")
        whole_round(mirror, checkout)
    assert not trace.exists()


def test_a_repository_made_inside_is_unusable_and_runs_nothing(
    hub: Hub, mirror: Mirror, pool: Path, evil: tuple[Path, Path]
) -> None:
    program, trace = evil
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        nested = checkout.path / "sub"
        nested.mkdir()
        (nested / "file").write_text("x")
        evil_repository(nested, program)
        git(nested, "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "add", "-A")
        git(nested, "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "commit", "-qm", "x")
        trace.unlink(missing_ok=True)
        with pytest.raises(Unusable, match="'sub' in the worktree is a git repository of its own"):
            checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert not (checkout.path / "sub").exists()
    assert not trace.exists()


def test_an_empty_repository_made_inside_is_unusable(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / "sub").mkdir()
        git(checkout.path / "sub", "init", "-q")
        with pytest.raises(Unusable, match=r"remove its \.git"):
            checkout.snapshot()


def test_a_repository_in_the_place_of_a_tracked_folder_or_file_hides_nothing(
    hub: Hub, mirror: Mirror, pool: Path
) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / "README.md").unlink()
        (checkout.path / "README.md").mkdir()
        git(checkout.path / "README.md", "init", "-q")
        git(checkout.path / "README.md", "commit", "-q", "--allow-empty", "-m", "x")
        with pytest.raises(Unusable):
            checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        git(checkout.path / "src", "init", "-q")
        git(checkout.path / "src", "commit", "-q", "--allow-empty", "-m", "x")
        (checkout.path / "src/a.py").write_text("a = 9\n")
        made = commit_candidate(checkout.git, base=hub.tip(), tree=checkout.snapshot(), message="m", at=1)
        assert [change.path for change in changes(checkout.git, hub.tip(), made)] == ["src/a.py"]


def test_a_tracked_submodule_stays_as_it_is(hub: Hub, mirror: Mirror, pool: Path) -> None:
    git(hub.work, "update-index", "--add", "--cacheinfo", f"160000,{hub.tip()},vendor/lib")
    git(hub.work, "commit", "-qm", "submodule")
    git(hub.work, "push", "-q", "origin", "HEAD:main")
    mirror.ensure(hub.tip())
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert checkout.snapshot() == tree_of(mirror.git, hub.tip())
        git(checkout.path / "vendor/lib", "init", "-q")
        git(checkout.path / "vendor/lib", "commit", "-q", "--allow-empty", "-m", "x")
        with pytest.raises(Unusable, match="vendor/lib"):
            checkout.snapshot()


def test_flags_in_the_agents_index_hide_nothing(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        git(checkout.path, "update-index", "--assume-unchanged", "src/a.py")
        git(checkout.path, "update-index", "--skip-worktree", "src/b.py")
        (checkout.path / "src/a.py").write_text("a = 'hidden'\n")
        (checkout.path / "src/b.py").write_text("b = 'hidden'\n")
        made = commit_candidate(checkout.git, base=hub.tip(), tree=checkout.snapshot(), message="m", at=1)
        assert [change.path for change in changes(mirror.git, hub.tip(), made)] == ["src/a.py", "src/b.py"]
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert (checkout.path / "src/a.py").read_text() == "a = 1\n"
        (checkout.path / "src/a.py").write_text("a = 7\n")
        assert git(checkout.path, "status", "--porcelain") == "M src/a.py"


def test_what_an_agent_commits_by_itself_is_in_the_snapshot_and_not_in_the_next_lease(
    hub: Hub, mirror: Mirror, pool: Path
) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        git(checkout.path, "checkout", "-q", "-b", "mine")
        (checkout.path / "mine").write_text("x")
        git(checkout.path, "add", "-A")
        git(checkout.path, "commit", "-qm", "by myself")
        (checkout.path / "more").write_text("y")
        made = commit_candidate(checkout.git, base=hub.tip(), tree=checkout.snapshot(), message="m", at=1)
        assert [change.path for change in changes(mirror.git, hub.tip(), made)] == ["mine", "more"]
        assert mirror.git.text("rev-list", "--count", f"{hub.tip()}..{made}") == "1"
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert git(checkout.path, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
        assert not (checkout.path / "mine").exists()


def test_an_unfinished_merge_of_an_agent_does_not_reach_the_next(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.admin / "MERGE_HEAD").write_text(f"{hub.tip()}\n")
        (checkout.admin / "info").mkdir()
        (checkout.admin / "info/sparse-checkout").write_text("/README.md\n")
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        names = {path.name for path in checkout.admin.iterdir()}
        assert names == {"HEAD", "commondir", "gitdir", "locked", "index"}


@pytest.mark.parametrize("what", ["slot", "git file", "folder inside"])
def test_a_symlink_in_place_of_something_is_replaced_and_its_target_left_alone(
    hub: Hub, mirror: Mirror, pool: Path, tmp_path: Path, what: str
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "a.py").write_text("keep me")
    precious.chmod(0o555)
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        place = {
            "slot": checkout.path,
            "git file": checkout.path / ".git",
            "folder inside": checkout.path / "src",
        }[what]
        place.rename(tmp_path / "moved")
        place.symlink_to(precious)
        assert is_intact(checkout) is (what == "folder inside")
        if what == "slot":
            with pytest.raises(Unusable):
                checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert is_intact(checkout)
        assert checkout.snapshot() == tree_of(mirror.git, hub.tip())
    assert [path.name for path in precious.iterdir()] == ["a.py"]
    assert (precious / "a.py").read_text() == "keep me"
    assert precious.stat().st_mode & 0o777 == 0o555


def test_read_only_folders_are_cleaned_and_removed(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        deep = checkout.path / "deep/er"
        deep.mkdir(parents=True)
        (deep / "file").write_text("x")
        for folder in (deep, deep.parent, checkout.path / "src", checkout.path):
            folder.chmod(0o500)
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert not (checkout.path / "deep").exists()
        (checkout.path / "src/new.py").write_text("x")
        (checkout.path / "src").chmod(0o000)
    assert prune_checkouts(mirror.path, pool) == 1
    assert list((pool / mirror.path.stem).iterdir()) == []


def test_sockets_pipes_and_deep_folders_do_not_stop_the_next_lease(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        os.mkfifo(checkout.path / "pipe")
        subprocess.run(["mkdir", "-p", "/".join(["d" * 50] * 30)], cwd=checkout.path, check=True)
        (checkout.path / "self").symlink_to("self")
        checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert {path.name for path in checkout.path.iterdir()} == {".git", ".gitignore", "README.md", "src"}


def test_a_pipe_in_the_place_of_a_file_does_not_hang_the_harness(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / "README.md").unlink()
        os.mkfifo(checkout.path / "README.md")
        with pytest.raises(Unusable):
            checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert (checkout.path / "README.md").read_text() == "read me\n"


def test_attributes_of_a_checkout_do_not_change_what_compose_makes(hub: Hub, mirror: Mirror, pool: Path) -> None:
    left = hub.commit({"README.md": "left\n"}, branch="left")
    right = hub.commit({"README.md": "right\n"}, branch="right")
    mirror.fetch()
    entries = [Entry(commit=right, name="right", message="m")]
    with lease_checkout(mirror, left, pool) as checkout:
        (checkout.path / ".gitattributes").write_text("README.md merge=union\n")
        checkout.snapshot()
        assert compose(checkout.git, left, entries) == compose(mirror.git, left, entries)
