"""A lease gives exactly one commit's files to one holder, as long as that holder lives."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from repositories import Hub, git, is_intact

from forgepool.worktrees.checkouts.checkout import Unusable, lease_checkout
from forgepool.worktrees.commits.candidate import commit_candidate
from forgepool.worktrees.commits.changes import changes, tree_paths
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit


def files(folder: Path) -> set[str]:
    """Return every name below the folder except git's own."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} - {".git"}


PLAIN = {".gitignore", "README.md", "src", "src/a.py", "src/b.py"}


def test_a_lease_has_the_commits_files_and_its_snapshot_is_the_commits_tree(
    hub: Hub, mirror: Mirror, pool: Path
) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert files(checkout.path) == PLAIN
        assert is_intact(checkout)
        assert checkout.snapshot() == tree_of(mirror.git, hub.tip())


def test_the_agents_own_git_works_and_sees_a_clean_tree(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert git(checkout.path, "status", "--porcelain") == ""
        assert git(checkout.path, "rev-parse", "HEAD") == hub.tip()
        assert git(checkout.path, "log", "-1", "--format=%s") == "first"


def test_a_snapshot_has_what_was_added_changed_deleted_renamed_and_nothing_ignored(
    hub: Hub, mirror: Mirror, pool: Path
) -> None:
    base = hub.tip()
    with lease_checkout(mirror, base, pool) as checkout:
        (checkout.path / "src/a.py").write_text("a = 2\n")
        (checkout.path / "src/b.py").rename(checkout.path / "src/c.py")
        (checkout.path / "README.md").unlink()
        (checkout.path / "run").write_text("#!/bin/sh\n")
        (checkout.path / "run").chmod(0o755)
        (checkout.path / "link").symlink_to("/etc/passwd")
        (checkout.path / "junk.o").write_text("ignored")
        tree = checkout.snapshot()
        made = commit_candidate(checkout.git, base=base, tree=tree, message="work", at=1)
        found = {(change.status, change.path, change.mode) for change in changes(checkout.git, base, made)}
    assert found == {
        ("M", "src/a.py", "100644"),
        ("R", "src/c.py", "100644"),
        ("D", "README.md", "000000"),
        ("A", "run", "100755"),
        ("A", "link", "120000"),
    }


def test_an_earlier_snapshot_comes_back_without_the_loss_of_what_it_ignores(
    hub: Hub, mirror: Mirror, pool: Path
) -> None:
    """A later `.gitignore` can neither give ignored files up, nor save new ones; a file of the commit goes, too."""
    hub.commit({"kept.o": "ignored, and committed\n", ".gitignore": ""})
    mirror.ensure(hub.commit({".gitignore": "*.o\n"}))
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / "junk.o").write_text("1")
        (checkout.path / "src/junk.o").write_text("1")
        (checkout.path / "kept.o").unlink()
        before = checkout.snapshot()
        (checkout.path / "kept.o").write_text("1")
        (checkout.path / ".gitignore").write_text("new.txt\n")
        (checkout.path / "src/.gitignore").write_text("!junk.o\n")
        (checkout.path / "more").mkdir()
        (checkout.path / "more/.gitignore").write_text("*.txt\n")
        (checkout.path / "more/new.txt").write_text("1")
        (checkout.path / "README.md").unlink()
        (checkout.path / "README.md").mkdir()
        (checkout.path / "README.md/a").write_text("1")
        later = checkout.snapshot()
        assert "junk.o" in tree_paths(checkout.git, later), "the later snapshot knows it"
        checkout.take(before)
        assert files(checkout.path) == PLAIN | {"junk.o", "src/junk.o"}
        assert checkout.snapshot() == before


def test_snapshots_may_be_taken_again_and_again(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        trees = []
        for number in (1, 2, 1):
            (checkout.path / "src/a.py").write_text(f"a = {number * 100}\n")
            trees.append(checkout.snapshot())
    assert trees[0] == trees[2] != trees[1]


def test_a_slot_is_used_again_and_nothing_of_its_last_user_is_left(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        first = checkout.path
        (first / "src/a.py").write_text("a = 3\n")
        (first / "src/b.py").unlink()
        (first / "new/deep").mkdir(parents=True)
        (first / "new/deep/file").write_text("x")
        (first / "empty/folder").mkdir(parents=True)
        (first / "junk.o").write_text("ignored")
        checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert checkout.path == first
        assert files(first) == PLAIN
        assert (first / "src/a.py").read_text() == "a = 1\n"


def test_a_slot_goes_from_commit_to_commit(hub: Hub, mirror: Mirror, pool: Path) -> None:
    old = hub.tip()
    new = hub.commit({"src/a.py": None, "src/a.py/inner.py": "x\n", "README.md": "new\n"})
    mirror.ensure(new)
    for commit in (old, new, old, new):
        with lease_checkout(mirror, commit, pool) as checkout:
            assert checkout.snapshot() == tree_of(mirror.git, commit)
            assert {p for p in files(checkout.path) if (checkout.path / p).is_file()} == set(
                tree_paths(mirror.git, commit)
            )
            assert git(checkout.path, "status", "--porcelain") == ""


def test_two_leases_at_once_are_two_folders(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with (
        lease_checkout(mirror, hub.tip(), pool) as one,
        lease_checkout(mirror, hub.tip(), pool) as two,
    ):
        assert one.path != two.path


def test_the_slot_last_used_for_the_commit_is_preferred(hub: Hub, mirror: Mirror, pool: Path) -> None:
    old, new = hub.tip(), hub.commit({"n": "2\n"})
    mirror.ensure(new)
    with lease_checkout(mirror, old, pool) as one, lease_checkout(mirror, new, pool) as two:
        first, second = one.path, two.path
    with lease_checkout(mirror, new, pool) as again:
        assert again.path == second
    with lease_checkout(mirror, old, pool) as again:
        assert again.path == first


def test_a_commit_that_is_not_here_is_missing_and_costs_no_slot(mirror: Mirror, pool: Path) -> None:
    with pytest.raises(MissingCommit), lease_checkout(mirror, CommitId("1" * 40), pool):
        pass


HOLD = """
import sys; from pathlib import Path
from forgepool.worktrees.checkouts.checkout import lease_checkout; from forgepool.worktrees.hub.mirror import Mirror
mirror = Mirror(path=Path(sys.argv[1]), hub=sys.argv[2])
with lease_checkout(mirror, sys.argv[3], Path(sys.argv[4])) as checkout:
    (checkout.path / "half-done").write_text("x")
    print(checkout.path, flush=True)
    sys.stdin.read()
"""


def test_a_holder_that_is_killed_frees_its_slot_at_once(hub: Hub, mirror: Mirror, pool: Path) -> None:
    argv = [sys.executable, "-c", HOLD, str(mirror.path), mirror.hub, hub.tip(), str(pool)]
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdin is not None
    held = Path(holder.stdout.readline().strip())
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert checkout.path != held
    holder.send_signal(signal.SIGKILL)
    holder.communicate(timeout=30)
    with lease_checkout(mirror, hub.tip(), pool) as one, lease_checkout(mirror, hub.tip(), pool) as two:
        assert {one.path.name, two.path.name} == {"slot-1", "slot-2"}
        assert files(held) == PLAIN


def test_a_git_killed_in_the_middle_leaves_nothing_that_hinders(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        slot = checkout.path
        checkout.snapshot()
    for name in ("leased.lock", "work.lock"):
        (slot.with_name(slot.name + ".indexes") / name).write_text("half")
    (slot / "src/a.py").unlink()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert files(checkout.path) == PLAIN


@pytest.mark.parametrize("damage", [b"", b"DIRC rubbish", b"\0" * 4096])
def test_a_damaged_index_costs_one_new_checkout(hub: Hub, mirror: Mirror, pool: Path, damage: bytes) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        slot = checkout.path
    (slot.with_name(slot.name + ".indexes") / "leased").write_bytes(damage)
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert checkout.path == slot
        assert checkout.snapshot() == tree_of(mirror.git, hub.tip())


def test_modes_and_links_of_the_last_user_are_undone_even_within_the_same_second(
    hub: Hub, mirror: Mirror, pool: Path, tmp_path: Path
) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        fresh = {name: stat.S_IMODE((checkout.path / name).stat().st_mode) for name in PLAIN}
        (checkout.path / "src/a.py").chmod(0o444)
        (checkout.path / "README.md").chmod(0o4777)
        os.link(checkout.path / "src/b.py", tmp_path / "kept")
        (checkout.path / "src").chmod(0o500)
        checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (tmp_path / "kept").write_text("b = 'from outside'\n")
        now = {name: stat.S_IMODE((checkout.path / name).stat().st_mode) for name in PLAIN}
        assert now == fresh | {"src": 0o700}
        assert (checkout.path / "src/b.py").read_text() == "b = 1\n"


def test_the_lock_can_be_kept_by_a_child(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        first = checkout.path
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(checkout.lock_fd,))
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert checkout.path != first
    child.communicate()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert checkout.path == first


def test_a_deleted_folder_is_unusable_and_made_anew(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        subprocess.run(["rm", "-rf", str(checkout.path)], check=True)
        assert not is_intact(checkout)
        with pytest.raises(Unusable, match="is gone"):
            checkout.snapshot()
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert files(checkout.path) == PLAIN


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads folders whatever their mode")
def test_an_unreadable_folder_is_unusable_rather_than_deleted_files(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        (checkout.path / "src").chmod(0)
        with pytest.raises(Unusable, match="cannot be read whole"):
            checkout.snapshot()


def test_names_that_no_text_can_hold_survive(hub: Hub, mirror: Mirror, pool: Path) -> None:
    names = ["-rf", "new\nline", "tab\there", 'quo"te', os.fsdecode(b"caf\xe9"), ":(glob)**", " ", "ü"]
    base = hub.tip()
    with lease_checkout(mirror, base, pool) as checkout:
        for name in names:
            (checkout.path / name).write_text(name, errors="surrogateescape")
        made = commit_candidate(checkout.git, base=base, tree=checkout.snapshot(), message="names", at=1)
    assert sorted(change.path for change in changes(mirror.git, base, made)) == sorted(names)
    with lease_checkout(mirror, made, pool) as checkout:
        assert files(checkout.path) == PLAIN | set(names)
    with lease_checkout(mirror, base, pool) as checkout:
        assert files(checkout.path) == PLAIN


def test_a_lease_of_a_small_tree_takes_at_most_three_git_processes(
    hub: Hub, mirror: Mirror, pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = tmp_path / "count"
    real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f'#!/bin/sh\necho >> {count}\nexec {real} "$@"\n')
    (tmp_path / "bin/git").chmod(0o755)
    tip = hub.tip()
    with lease_checkout(mirror, tip, pool) as checkout:
        (checkout.path / "junk").write_text("x")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for most in (3, 2):
        count.write_text("")
        with lease_checkout(mirror, tip, pool):
            assert len(count.read_text()) <= most


def test_sub_second_edits_of_equal_size_are_seen(hub: Hub, mirror: Mirror, pool: Path) -> None:
    trees = set()
    for number in range(5):
        with lease_checkout(mirror, hub.tip(), pool) as checkout:
            before = checkout.path.joinpath("src/a.py").stat()
            with (checkout.path / "src/a.py").open("r+") as file:
                file.write(f"a = {number + 2}\n")
            os.utime(checkout.path / "src/a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
            trees.add(checkout.snapshot())
    assert len(trees) == 5


def test_what_was_changed_of_the_commit_is_told_and_what_was_added_is_not(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert checkout.list_altered() == ()
        (checkout.path / "new").write_text("x")
        (checkout.path / "junk.o").write_text("ignored")
        (checkout.path / "README.md").touch()
        assert checkout.list_altered() == ()
        (checkout.path / "src/b.py").unlink()
        git(checkout.path, "update-index", "--assume-unchanged", "src/a.py")
        (checkout.path / "src/a.py").write_text("a = 2\n")
        for _ in range(2):
            assert checkout.list_altered() == ("src/a.py", "src/b.py")
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        assert checkout.list_altered() == () and files(checkout.path) == PLAIN


def test_line_ends_that_git_would_commit_otherwise_are_nobodys_change(hub: Hub, mirror: Mirror, pool: Path) -> None:
    """
    The files were committed before the attributes. A real change to one of them is still reported, even one bit of its
    mode.
    """
    odd = ("as.txt", "is.txt", "too.txt")
    hub.commit({".gitattributes": "*.txt text eol=crlf\n"})
    (hub.work / "lines").write_bytes(b"1\r\n2\r\n")
    blob = git(hub.work, "hash-object", "-w", "--no-filters", "lines")
    for name in odd:
        git(hub.work, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    git(hub.work, "commit", "-q", "-m", "as they came")
    git(hub.work, "push", "-q", "origin", "HEAD:refs/heads/main")
    tip = hub.tip()
    mirror.fetch()
    with lease_checkout(mirror, tip, pool) as checkout:
        # As if all had been written in one moment, when git looks at what is in the files.
        for name in odd:
            os.utime(checkout.path / name)
        assert checkout.list_altered() == ()
        (checkout.path / "as.txt").write_bytes(b"1\n2\n")
        (checkout.path / "is.txt").chmod(0o755)
        (checkout.path / "too.txt").rename(checkout.path / "elsewhere")
        (checkout.path / "too.txt").symlink_to("elsewhere")
        assert checkout.list_altered() == ("as.txt", "is.txt", "too.txt")


def test_of_a_checkout_that_is_gone_all_is_changed(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        shutil.rmtree(checkout.path)
        assert checkout.list_altered() == (".",)
