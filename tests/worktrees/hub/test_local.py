"""Commits reach a local hub without a push only where the result is the same as with one."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.commits.candidate import files_of, tree_with, write_commit
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.git.objects import find_object, write_object
from forgepool.worktrees.hub.local import _MOST_LOOKED_AT, _Lacking, move_refs
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate, Stale

ONE, MAIN = "refs/forgepool/r1/one", "refs/heads/main"


def _new_commit(hub: Hub, mirror: Mirror) -> CommitId:
    tip = hub.tip()
    mirror.ensure(tip)
    blob = mirror.git.text("hash-object", "-w", "--stdin", stdin=b"new")
    tree = tree_with(mirror.git, {"a/b": f"100644 {blob}"})
    return write_commit(mirror.git, tree=tree, parents=(tip,), message="new\n", at=0)


def _object(folder: Path, commit: CommitId) -> Path:
    return folder / "objects" / commit[:2] / commit[2:]


def _moves(hub: Hub, mirror: Mirror, *updates: RefUpdate) -> bool:
    """Return whether the refs are moved without a push. They are moved in either case."""
    moved = move_refs(hub.path, mirror.git, updates)
    assert mirror.push(updates) == Pushed()
    return moved


def test_a_hub_of_our_own_gets_files_of_its_own_and_stands_alone(hub: Hub, mirror: Mirror) -> None:
    tip, new = hub.tip(), _new_commit(hub, mirror)
    assert _moves(hub, mirror, RefUpdate(ref=MAIN, new=new, expected=tip), RefUpdate(ref=ONE, new=new, expected=None))
    assert _object(hub.path, new).stat().st_nlink == 1
    assert _object(hub.path, new).stat().st_mode & 0o777 == 0o444
    shutil.rmtree(mirror.path)
    git(hub.path, "fsck", "--strict")
    assert git(hub.path, "show", "main:a/b") == "new"
    assert git(hub.path, "rev-parse", ONE) == new
    assert not list(hub.path.rglob("tmp_obj_*"))


def _hook(hub: Hub) -> None:
    hook = hub.path / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {hub.path}/ran\n")
    hook.chmod(0o755)


def _settings(*words: str) -> Callable[[Hub], None]:
    return lambda hub: git(hub.path, "config", *words) and None


def _config(more: str) -> Callable[[Hub], None]:
    return lambda hub: _append(hub.path / "config", more)


def _append(file: Path, more: str) -> None:
    file.write_text(file.read_text() + more)


def _link(hub: Hub) -> None:
    git(hub.path, "symbolic-ref", ONE, "refs/heads/other")


@pytest.mark.parametrize(
    "special",
    [
        _hook,
        _settings("receive.fsckObjects", "true"),
        _settings("core.sharedRepository", "group"),
        _settings("core.hooksPath", "elsewhere"),
        _settings("include.path", "more"),
        _config("[core][receive]\n\tfsckObjects = true\n"),
        _config("[core] [include]\n\tpath = more\n"),
        _settings("transfer.hideRefs", "refs/none"),
        _settings("extensions.preciousObjects", "true"),
        _link,
    ],
)
def test_a_hub_with_ways_of_its_own_is_pushed_to(hub: Hub, mirror: Mirror, special: Callable[[Hub], None]) -> None:
    new = _new_commit(hub, mirror)
    special(hub)
    assert not _moves(hub, mirror, RefUpdate(ref=ONE, new=new, expected=None))
    assert (hub.path / "ran").exists() == (special is _hook)


def test_what_the_mirror_has_packed_is_pushed(hub: Hub, mirror: Mirror) -> None:
    new = _new_commit(hub, mirror)
    mirror.git.run("update-ref", "refs/keep", new)
    mirror.git.run("repack", "-a", "-d", "-q")
    assert not _moves(hub, mirror, RefUpdate(ref=ONE, new=new, expected=None))


def test_a_commit_whose_files_are_gone_gets_into_no_hub(hub: Hub, mirror: Mirror) -> None:
    new = _new_commit(hub, mirror)
    _object(mirror.path, CommitId(mirror.git.text("rev-parse", f"{new}:a/b"))).unlink()
    with pytest.raises(GitFailed):
        mirror.push([RefUpdate(ref=ONE, new=new, expected=None)])
    assert mirror.hub_refs(ONE) == {}


@pytest.mark.parametrize("left", [None, b""])
def test_a_hub_that_has_lost_its_tip_is_not_built_upon(hub: Hub, mirror: Mirror, left: bytes | None) -> None:
    tip, new = hub.tip(), _new_commit(hub, mirror)
    lost = _object(hub.path, tip)
    lost.unlink()
    if left is not None:
        lost.write_bytes(left)
    assert not move_refs(hub.path, mirror.git, [RefUpdate(ref=MAIN, new=new, expected=tip)])
    assert (hub.path / MAIN).read_text().strip() == tip


def test_a_hub_whose_tip_is_in_a_pack_is_moved(hub: Hub, mirror: Mirror) -> None:
    tip, new = hub.tip(), _new_commit(hub, mirror)
    git(hub.path, "repack", "-a", "-d", "-q")
    assert _moves(hub, mirror, RefUpdate(ref=MAIN, new=new, expected=tip))


@pytest.mark.parametrize("seed", range(4))
def test_all_that_git_finds_lacking_is_found_without_it(hub: Hub, mirror: Mirror, seed: int) -> None:
    """Each behind all that it needs, so that a hub killed meanwhile has no commit without its files."""
    chance, made = random.Random(seed), [hub.commit({"dir/deep/file": "x\n", "dir/other": "y\n"})]
    mirror.ensure(made[0])
    for number in range(8):
        parents = tuple(dict.fromkeys(chance.choices(made[-3:], k=chance.randrange(1, 3))))
        files = files_of(mirror.git, parents[0])
        place = chance.choice(("dir/deep/file", f"dir/new{number}", "dir/deep/more", f"{number}/a"))
        files[place] = f"100644 {write_object(mirror.git, 'blob', b'%d' % number, like=parents[0])}"
        files.pop(chance.choice([*files]))
        tree = tree_with(mirror.git, files)
        made.append(write_commit(mirror.git, tree=tree, parents=parents, message=f"{number}\n", at=number))
    found = _Lacking(mirror.git, {made[0]}).of([made[-1]])
    wanted = mirror.git.text("rev-list", "--objects", "--no-object-names", made[-1], f"^{made[0]}").split()
    assert found is not None
    assert {*wanted} <= {*found}
    assert _moves(hub, mirror, RefUpdate(ref=ONE, new=made[-1], expected=None))
    for at, each in enumerate(found):
        needed = mirror.git.text("cat-file", "-p", each) if find_object(mirror.git, each).kind != "blob" else ""
        assert not {*needed.split()} & {*found[at + 1 :]}
    shutil.rmtree(mirror.path)
    git(hub.path, "fsck", "--strict")


def test_what_the_hub_has_and_what_is_a_submodules_is_not_brought(hub: Hub, mirror: Mirror) -> None:
    """A submodule's commit is in another repository: git would have to be asked about it."""
    base = hub.commit({"same": "x\n", "dir/same": "y\n", "dir/other": "z\n"})
    mirror.ensure(base)
    blob = write_object(mirror.git, "blob", b"new", like=base)
    files = files_of(mirror.git, base) | {"dir/other": f"100644 {blob}", "module": f"160000 {'1' * 40}"}
    new = write_commit(mirror.git, tree=tree_with(mirror.git, files), parents=(base,), message="new\n", at=0)
    found = _Lacking(mirror.git, {base}).of([new])
    wanted = mirror.git.text("rev-list", "--objects", "--no-object-names", new, f"^{base}").split()
    assert found is not None and sorted(found) == sorted(wanted)


def test_what_was_brought_is_on_the_disk(hub: Hub, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ref that follows is, as well: after a loss of power it would name what is not there."""
    new, sync, synced = _new_commit(hub, mirror), os.fsync, set[int]()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.add(os.fstat(fd).st_ino) or sync(fd))
    assert move_refs(hub.path, mirror.git, [RefUpdate(ref=ONE, new=new, expected=None)])
    blob = CommitId(mirror.git.text("rev-parse", f"{new}:a/b"))
    assert {_object(hub.path, each).stat().st_ino for each in (new, blob)} <= synced


def test_a_tag_brings_its_commit_with_all_that_it_needs(hub: Hub, mirror: Mirror) -> None:
    new = _new_commit(hub, mirror)
    text = f"object {new}\ntype commit\ntag one\ntagger t <t@t> 0 +0000\n\nsaid\n"
    tag = CommitId(write_object(mirror.git, "tag", text.encode(), like=new))
    assert _Lacking(mirror.git, {hub.tip()}).of([tag]) is not None, "no git process has to look"
    assert move_refs(hub.path, mirror.git, [RefUpdate(ref=ONE, new=tag, expected=None)])
    shutil.rmtree(mirror.path)
    git(hub.path, "fsck", "--strict")
    assert git(hub.path, "show", f"{ONE}:a/b") == "new"
    assert git(hub.path, "cat-file", "-t", ONE) == "tag"


def test_a_commit_without_a_parent_that_the_hub_has_is_looked_through_by_git(hub: Hub, mirror: Mirror) -> None:
    new = _new_commit(hub, mirror)
    for number in range(_MOST_LOOKED_AT):
        new = write_commit(mirror.git, tree=tree_of(mirror.git, new), parents=(new,), message=f"{number}\n", at=0)
    assert _Lacking(mirror.git, set()).of([new]) is None
    assert _moves(hub, mirror, RefUpdate(ref=ONE, new=new, expected=None))


def test_one_ref_elsewhere_keeps_all_where_they_are(hub: Hub, mirror: Mirror) -> None:
    tip, new = hub.tip(), _new_commit(hub, mirror)
    git(hub.path, "update-ref", ONE, tip)
    updates = [RefUpdate(ref=MAIN, new=new, expected=tip), RefUpdate(ref=ONE, new=new, expected=None)]
    assert mirror.push(updates) == Stale(ONE, tip)
    assert hub.tip() == tip


@pytest.mark.parametrize("damage", [b"", b"x", b"behind it", None])
def test_a_damaged_object_is_not_copied(hub: Hub, mirror: Mirror, damage: bytes | None) -> None:
    new = _new_commit(hub, mirror)
    other = CommitId(mirror.git.text("hash-object", "-w", "--stdin", stdin=b"other"))
    blob = _object(mirror.path, CommitId(mirror.git.text("rev-parse", f"{new}:a/b")))
    blob.chmod(0o644)
    whole = blob.read_bytes() if damage == b"behind it" else b""
    blob.write_bytes(_object(mirror.path, other).read_bytes() if damage is None else whole + damage)
    assert not move_refs(hub.path, mirror.git, [RefUpdate(ref=ONE, new=new, expected=None)])
    assert mirror.hub_refs(ONE) == {}
    assert not _object(hub.path, new).exists(), "nor anything that needs it"


def test_what_the_hub_has_long_had_is_as_young_as_what_needs_it(hub: Hub, mirror: Mirror) -> None:
    """Otherwise a `git prune` that began earlier would delete it."""
    new = _new_commit(hub, mirror)
    old = _object(hub.path, CommitId(mirror.git.text("rev-parse", f"{new}:a/b")))
    old.parent.mkdir(exist_ok=True)
    shutil.copyfile(mirror.path / "objects" / old.parent.name / old.name, old)
    os.utime(old, (1, 1))
    assert _moves(hub, mirror, RefUpdate(ref=ONE, new=new, expected=None))
    assert old.stat().st_mtime > 1


def _head(text: str) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        (place / "HEAD").write_text(text)

    return write


def _symlink(place: Path) -> None:
    (place / "HEAD").unlink()
    (place / "HEAD").symlink_to("refs/heads/main")


def _alias(place: Path) -> None:
    (place / "refs/heads/trunk").write_text("ref: refs/heads/main\n")
    (place / "HEAD").write_text("ref: refs/heads/trunk\n")


_NO_BRANCH = _head(f"{'1' * 40}\n")


@pytest.mark.parametrize(
    "head", [_head("ref:refs/heads/main\n"), _head("ref: refs/heads/main\n"), _symlink, _alias, _NO_BRANCH]
)
def test_a_branch_that_a_person_may_be_on_is_for_a_push_to_judge(
    hub: Hub, mirror: Mirror, head: Callable[[Path], None]
) -> None:
    tip, new = hub.tip(), _new_commit(hub, mirror)
    git(hub.path, "config", "core.bare", "false")
    head(hub.path)
    assert not move_refs(hub.path, mirror.git, [RefUpdate(ref=MAIN, new=new, expected=tip)])
    assert hub.tip() == tip


def test_a_branch_beside_the_one_a_person_is_on_is_moved(hub: Hub, mirror: Mirror) -> None:
    tip, new = hub.tip(), _new_commit(hub, mirror)
    git(hub.path, "config", "core.bare", "false")
    git(hub.path, "branch", "theirs", tip)
    git(hub.path, "symbolic-ref", "HEAD", "refs/heads/theirs")
    assert _moves(hub, mirror, RefUpdate(ref=MAIN, new=new, expected=tip))


def test_a_hub_that_says_twice_whether_it_is_bare_is_not_believed(hub: Hub, mirror: Mirror) -> None:
    new = _new_commit(hub, mirror)
    _append(hub.path / "config", "[core]\n\tbare = false\n")
    assert not move_refs(hub.path, mirror.git, [RefUpdate(ref=MAIN, new=new, expected=hub.tip())])


def test_a_url_with_an_escape_leads_to_the_folder_it_names(hub: Hub, tmp_path: Path) -> None:
    plain, escaped = tmp_path / "a b", tmp_path / "a%20b"
    shutil.copytree(hub.path, plain)
    shutil.copytree(hub.path, escaped)
    mirror = open_mirror(f"file://{tmp_path}/a%20b", tmp_path / "cache3")
    new = _new_commit(hub, mirror)
    assert mirror.push([RefUpdate(ref=ONE, new=new, expected=None)]) == Pushed()
    assert git(plain, "rev-parse", ONE) == new
    assert git(escaped, "for-each-ref", ONE) == ""


def test_a_ref_of_bytes_that_are_no_text_is_moved_and_listed(hub: Hub, mirror: Mirror) -> None:
    for name in (os.fsdecode(b"refs/forgepool/r1/\xff"), "refs/forgepool/r1/\u2028"):
        assert _moves(hub, mirror, RefUpdate(ref=name, new=hub.tip(), expected=None))
        assert mirror.hub_refs("refs/forgepool/r1/*")[name] == hub.tip()
