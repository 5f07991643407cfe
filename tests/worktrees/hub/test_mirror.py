"""A host has one complete mirror of a hub, however many processes open it and whenever they are killed."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.commits.candidate import commit_candidate
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, open_mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate

ABSENT = CommitId("1" * 40)


def test_a_mirror_holds_the_hubs_branches_apart_from_its_own(hub: Hub, mirror: Mirror) -> None:
    assert mirror.has(hub.tip())
    assert mirror.git.text("for-each-ref", "--format=%(refname)") == "refs/hub/heads/main"


def test_eight_processes_at_once_make_one_mirror(hub: Hub, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from forgepool.worktrees.hub.mirror import open_mirror\n"
        "m = open_mirror(sys.argv[1], Path(sys.argv[2])); print(m.path, m.has(sys.argv[3]))"
    )
    argv = [sys.executable, "-c", program, str(hub.path), str(tmp_path / "cache"), hub.tip()]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    said = {process.communicate(timeout=60)[0] for process in running}
    path = open_mirror(str(hub.path), tmp_path / "cache").path
    assert said == {f"{path} True\n"}
    assert {found.name for found in path.parent.iterdir()} == {path.name, path.with_suffix(".lock").name}


def test_a_mirror_that_is_there_is_not_made_again(hub: Hub, mirror: Mirror, tmp_path: Path) -> None:
    made = mirror.path.stat().st_ino
    assert open_mirror(str(hub.path), tmp_path / "cache").path.stat().st_ino == made


@pytest.mark.parametrize("lost", ["HEAD", "forgepool"])
def test_a_broken_mirror_is_made_again(hub: Hub, mirror: Mirror, tmp_path: Path, lost: str) -> None:
    (mirror.path / lost).unlink()
    (mirror.path.parent / f"{mirror.path.stem}.tmp-half").mkdir()
    again = open_mirror(str(hub.path), tmp_path / "cache")
    assert again == mirror
    assert again.has(hub.tip())
    assert {found.suffix for found in mirror.path.parent.iterdir()} == {".git", ".lock"}


@pytest.mark.parametrize("said", ["the changelog entry is empty", "fatal: bad object"])
def test_words_of_a_hubs_hook_raise_no_doubt_of_the_mirror(hub: Hub, mirror: Mirror, said: str) -> None:
    hook = hub.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    hook.chmod(0o755)
    assert mirror.push([RefUpdate(ref="refs/forgepool/r1/x", new=hub.tip(), expected=None)]) == Pushed()
    assert not (mirror.path / "doubted").exists()


def test_words_of_git_about_a_damaged_object_do(hub: Hub, mirror: Mirror) -> None:
    blob = mirror.git.text("hash-object", "-w", "--stdin", stdin=b"x")
    file = mirror.path / "objects" / blob[:2] / blob[2:]
    file.unlink()
    file.touch()
    with pytest.raises(GitFailed, match="looked through"):
        mirror.git.run("cat-file", "-p", blob)
    assert (mirror.path / "doubted").exists()


def test_a_hub_that_cannot_be_read_leaves_no_mirror(tmp_path: Path) -> None:
    with pytest.raises(GitFailed):
        open_mirror(str(tmp_path / "none"), tmp_path / "cache")
    assert not list((tmp_path / "cache" / "mirrors").glob("*.git"))


def test_the_mirrors_name_has_no_password_and_tells_hubs_apart(hub: Hub, tmp_path: Path) -> None:
    mirror = open_mirror(hub.path.as_uri(), tmp_path / "cache")
    assert mirror.path.name.startswith("hub-")
    assert mirror.path != open_mirror(str(hub.path), tmp_path / "cache").path


def test_a_configuration_written_by_an_agent_is_undone(
    hub: Hub, mirror: Mirror, tmp_path: Path, evil: tuple[Path, Path]
) -> None:
    before = (mirror.path / "config").read_bytes()
    git(mirror.path, "config", "filter.evil.clean", str(evil[0]))
    open_mirror(str(hub.path), tmp_path / "cache")
    assert (mirror.path / "config").read_bytes() == before


def test_a_new_commit_is_fetched_only_when_it_is_absent(hub: Hub, mirror: Mirror) -> None:
    new = hub.commit({"src/a.py": "a = 2\n"})
    assert not mirror.has(new)
    mirror.ensure(new)
    assert mirror.has(new)
    hub.path.rename(hub.path.with_name("away"))
    mirror.ensure(new)


def test_a_candidate_is_fetched_by_its_ref(hub: Hub, mirror: Mirror, tmp_path: Path) -> None:
    base, other = hub.tip(), open_mirror(str(hub.path), tmp_path / "other")
    made = commit_candidate(mirror.git, base=base, tree=tree_of(mirror.git, base), message="work", at=1)
    ref = "refs/forgepool/r1/orders/t/1"
    assert mirror.push([RefUpdate(ref=ref, new=made, expected=None)]) == Pushed()
    with pytest.raises(MissingCommit, match="is not in the hub"):
        other.ensure(made)
    other.ensure(made, refs=(ref,))
    assert other.has(made)


def test_a_commit_on_no_ref_is_missing_also_when_the_named_ref_is_absent(mirror: Mirror) -> None:
    with pytest.raises(MissingCommit):
        mirror.ensure(ABSENT, refs=("refs/forgepool/r1/orders/none/1",))
    with pytest.raises(MissingCommit):
        mirror.ensure(CommitId("--upload-pack=touch it"))


def test_a_hub_that_is_away_is_a_failure_and_not_a_missing_commit(hub: Hub, mirror: Mirror) -> None:
    hub.path.rename(hub.path.with_name("away"))
    with pytest.raises(GitFailed):
        mirror.ensure(ABSENT)


def test_many_fetches_at_once_all_succeed(hub: Hub, mirror: Mirror) -> None:
    commits = [hub.commit({"n": f"{number}\n"}, branch=f"b{number}") for number in range(6)]
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(mirror.ensure, commits))
    assert all(mirror.has(commit) for commit in commits)


def test_a_branch_that_becomes_a_folder_of_branches_is_followed(hub: Hub, mirror: Mirror) -> None:
    hub.commit({"n": "1\n"}, branch="topic")
    mirror.fetch()
    git(hub.path, "update-ref", "-d", "refs/heads/topic")
    new = hub.commit({"n": "2\n"}, branch="topic/one")
    mirror.ensure(new)
    assert mirror.has(new)


def test_many_packs_are_joined_and_nothing_is_lost(hub: Hub, mirror: Mirror) -> None:
    base = hub.tip()
    loose = commit_candidate(mirror.git, base=base, tree=tree_of(mirror.git, base), message="loose", at=1)
    tips = []
    for number in range(45):
        parent, tree = hub.tip(), git(hub.path, "rev-parse", "main^{tree}")
        tips.append(CommitId(git(hub.path, "commit-tree", "-p", parent, "-m", f"{number}", tree)))
        git(hub.path, "update-ref", "refs/heads/main", tips[-1])
        mirror.fetch("+refs/heads/main:refs/hub/heads/main")
    assert len(list((mirror.path / "objects" / "pack").glob("*.pack"))) < 20
    assert all(mirror.has(commit) for commit in (loose, base, *tips))


def test_hub_refs_are_the_named_ones_and_no_others(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    for ref in (
        "refs/forgepool/r1/a",
        "refs/forgepool/r1/b/c",
        "refs/forgepool/r2/a",
        "refs/x/refs/heads/main",
    ):
        git(hub.path, "update-ref", ref, tip)
    assert set(mirror.hub_refs("refs/heads/main")) == {"refs/heads/main"}
    assert set(mirror.hub_refs("refs/forgepool/r1/*")) == {"refs/forgepool/r1/a", "refs/forgepool/r1/b/c"}
    assert mirror.hub_refs("refs/heads/none") == {}


def test_a_hub_with_long_ids_gets_a_mirror_with_long_ids(tmp_path: Path) -> None:
    work = tmp_path / "long"
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", str(work))
    git(work, "commit", "-q", "--allow-empty", "-m", "first")
    mirror = open_mirror(str(work / ".git"), tmp_path / "cache")
    assert mirror.has(CommitId(git(work, "rev-parse", "HEAD")))


def test_a_repository_that_is_gone_has_nothing(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    assert mirror.has(tip)
    shutil.rmtree(mirror.path)
    assert not mirror.has(tip)
