"""A push moves all refs or none, and a failed one reports correctly whether a ref moved or the hub refused."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.push import Pushed, PushRefused, RefUpdate, Stale

ONE = "refs/forgepool/r1/one"
TWO = "refs/forgepool/r1/two"


def install(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_ref_is_made_moved_and_deleted(hub: Hub, mirror: Mirror) -> None:
    first, second = hub.tip(), hub.commit({"n": "2\n"})
    mirror.ensure(second)
    assert mirror.push([RefUpdate(ref=ONE, new=first, expected=None)]) == Pushed()
    assert mirror.push([RefUpdate(ref=ONE, new=second, expected=first)]) == Pushed()
    assert mirror.hub_refs(ONE) == {ONE: second}
    assert mirror.push([RefUpdate(ref=ONE, new=None, expected=second)]) == Pushed()
    assert mirror.hub_refs(ONE) == {}


def test_a_push_done_twice_is_pushed_twice(hub: Hub, mirror: Mirror) -> None:
    made = RefUpdate(ref=ONE, new=hub.tip(), expected=None)
    gone = RefUpdate(ref=ONE, new=None, expected=hub.tip())
    for update in (made, made, gone, gone):
        assert mirror.push([update]) == Pushed()


def test_one_stale_ref_keeps_the_others_where_they_are(hub: Hub, mirror: Mirror) -> None:
    first, second = hub.tip(), hub.commit({"n": "2\n"})
    mirror.ensure(second)
    git(hub.path, "update-ref", TWO, first)
    updates = [RefUpdate(ref=ONE, new=second, expected=None), RefUpdate(ref=TWO, new=second, expected=None)]
    assert mirror.push(updates) == Stale(TWO, first)
    assert mirror.hub_refs("refs/forgepool/r1/*") == {TWO: first}


def test_a_ref_that_went_away_is_stale(hub: Hub, mirror: Mirror) -> None:
    assert mirror.push([RefUpdate(ref=ONE, new=hub.tip(), expected=hub.tip())]) in (Stale(ONE, None),)


@pytest.mark.parametrize("name", ["pre-receive", "update"])
def test_a_hook_of_the_hub_that_declines_is_a_refusal_with_its_words(hub: Hub, mirror: Mirror, name: str) -> None:
    install(hub.path / "hooks" / name, "echo 'not on a Friday' >&2; exit 1")
    answer = mirror.push([RefUpdate(ref=ONE, new=hub.tip(), expected=None)])
    assert isinstance(answer, PushRefused)
    assert "declined" in answer.reason
    assert "not on a Friday" in answer.reason
    assert "\n" not in answer.reason


def test_a_branch_that_somebody_works_on_is_a_refusal(hub: Hub, tmp_path: Path) -> None:
    mirror = open_mirror(str(hub.work / ".git"), tmp_path / "cache2")
    old = CommitId(git(hub.work, "rev-parse", "HEAD"))
    tree = git(hub.work, "rev-parse", "HEAD^{tree}")
    new = CommitId(mirror.git.text("commit-tree", "-p", old, "-m", "n", tree, env=_PERSON))
    answer = mirror.push([RefUpdate(ref="refs/heads/main", new=new, expected=old)])
    assert isinstance(answer, PushRefused)
    assert "checked out" in answer.reason


def test_a_refusal_of_one_ref_moves_none(hub: Hub, mirror: Mirror) -> None:
    install(hub.path / "hooks" / "update", f'test "$1" != {TWO}')
    tip = hub.tip()
    answer = mirror.push([RefUpdate(ref=ref, new=tip, expected=None) for ref in (ONE, TWO)])
    assert isinstance(answer, PushRefused)
    assert TWO in answer.reason
    assert mirror.hub_refs("refs/forgepool/*") == {}


def test_a_hub_that_is_away_is_neither(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    hub.path.rename(hub.path.with_name("away"))
    with pytest.raises(GitFailed):
        mirror.push([RefUpdate(ref=ONE, new=tip, expected=None)])


def test_a_ref_somebody_holds_locked_is_worth_another_try(hub: Hub, mirror: Mirror) -> None:
    lock = hub.path / f"{ONE}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    update = RefUpdate(ref=ONE, new=hub.tip(), expected=None)
    with pytest.raises(GitFailed):
        mirror.push([update])
    lock.unlink()
    assert mirror.push([update]) == Pushed()


_PUSH_AS_A_USER = f"""
import os, sys
from pathlib import Path
from forgepool.worktrees.git.git import git_version
from forgepool.worktrees.hub.mirror import open_mirror
from forgepool.worktrees.hub.push import RefUpdate

git_version()
if os.geteuid() == 0:  # to root every folder is writable
    os.setgid(65534)
    os.setuid(65534)
mirror = open_mirror(sys.argv[1], Path(sys.argv[2]))
print(mirror.push([RefUpdate(ref={ONE!r}, new=sys.argv[3], expected=None)]))
"""


def test_a_hub_whose_folder_is_not_writable_is_a_refusal(hub: Hub) -> None:
    # Not in tmp_path, which only its owner may enter. The pushing user must own it, or git would not read it.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        copy, cache = Path(place, "hub.git"), Path(place, "cache")
        shutil.copytree(hub.path, copy)
        cache.mkdir()
        for path in (Path(place), cache, copy, *copy.rglob("*")):
            path.chmod(0o555 if copy in (path, *path.parents) else 0o755)
            if os.geteuid() == 0:
                os.chown(path, 65534, 65534)
        argv = [sys.executable, "-c", _PUSH_AS_A_USER, str(copy), str(cache), hub.tip()]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755)
    assert ran.stdout.startswith("PushRefused("), ran.stdout + ran.stderr


def test_what_is_no_ref_or_commit_is_not_pushed() -> None:
    with pytest.raises(ValueError, match="not a full ref name"):
        RefUpdate(ref="main", new=None, expected=None)
    with pytest.raises(ValueError, match="not a full commit id"):
        RefUpdate(ref=ONE, new=CommitId("main"), expected=None)


_PERSON = {
    "GIT_AUTHOR_NAME": "p",
    "GIT_AUTHOR_EMAIL": "p@localhost",
    "GIT_COMMITTER_NAME": "p",
    "GIT_COMMITTER_EMAIL": "p@localhost",
}
