"""Reading submissions from the hub, whatever names people choose and whatever they push."""

from pathlib import Path

import pytest

from forgepool.orchestrator.decisions.queue.submissions import read_submissions
from forgepool.workers.workspace.refs import submission_ref
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.hub.mirror import open_mirror

ME = {name: "t" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}


def hub_in(folder: Path) -> tuple[Git, CommitId]:
    hub = Git(git_dir=folder / "hub.git")
    hub.run("init", "--quiet", "--bare", str(hub.git_dir))
    tree = hub.text("mktree", stdin=b"")
    commit = CommitId(hub.text("commit-tree", "-m", "one", tree, env=ME))
    hub.run("update-ref", "refs/heads/main", commit)
    return hub, commit


def test_a_name_within_a_name_that_was_there_before_is_read(tmp_path: Path) -> None:
    """Git cannot keep `feature/x` beside `feature`, and a mirror may still hold a ref that the hub has deleted."""
    hub, commit = hub_in(tmp_path)
    mirror = open_mirror(str(hub.git_dir), tmp_path / "cache")
    for name in ("feature", "feature/x"):
        ref = submission_ref("main", name)
        hub.run("update-ref", ref, commit)
        (found,) = read_submissions(mirror, "main", {ref: commit})
        assert (found.commit, found.wrong) == (commit, "")
        hub.run("update-ref", "-d", ref)


def test_what_names_no_commit_is_refused_and_hinders_nobody(tmp_path: Path) -> None:
    hub, commit = hub_in(tmp_path)
    mirror = open_mirror(str(hub.git_dir), tmp_path / "cache")
    blob = CommitId(hub.text("hash-object", "-w", "--stdin", stdin=b"no commit\n"))
    at = {submission_ref("main", "blob"): blob, submission_ref("main", "good"): commit}
    for ref, one in at.items():
        hub.run("update-ref", ref, one)
    found = {one.name: one.wrong for one in read_submissions(mirror, "main", at)}
    assert found["good"] == "" and "push a commit" in found["blob"]


def test_of_what_a_tag_says_no_more_is_heard_than_makes_sense(tmp_path: Path) -> None:
    hub, commit = hub_in(tmp_path)
    mirror = open_mirror(str(hub.git_dir), tmp_path / "cache")
    many = "\n".join(["Needs: a", *(f"Needs: n{number}" for number in range(1000)), "Needs: a"])
    text = f"object {commit}\ntype commit\ntag x\ntagger t <> 1 +0000\n\nlet in\n\nClass: hotfix\n{many}\n"
    tag = CommitId(hub.text("mktag", stdin=text.encode()))
    ref = submission_ref("main", "x")
    hub.run("update-ref", ref, tag)
    (found,) = read_submissions(mirror, "main", {ref: tag})
    assert found.commit == commit and found.said["class"] == ("hotfix",)
    assert len(found.said["needs"]) == 20 and found.said["needs"][:2] == ("a", "n0")


def test_a_ref_to_what_the_hub_has_lost_is_refused_and_hinders_nobody(tmp_path: Path) -> None:
    hub, commit = hub_in(tmp_path)
    mirror = open_mirror(str(hub.git_dir), tmp_path / "cache")
    lost = CommitId(hub.text("commit-tree", "-m", "lost", f"{commit}^{{tree}}", env=ME))
    torn = CommitId(hub.text("commit-tree", "-m", "torn", "-p", lost, f"{commit}^{{tree}}", env=ME))
    at = {submission_ref("main", name): one for name, one in (("good", commit), ("lost", lost), ("torn", torn))}
    for ref, one in at.items():
        hub.run("update-ref", ref, one)
    (hub.git_dir / "objects" / lost[:2] / lost[2:]).unlink()
    found = {one.name: one.wrong for one in read_submissions(mirror, "main", at)}
    assert found["good"] == ""
    assert found["lost"] == found["torn"] == "the hub does not have all of it; push it again"


def test_a_hub_that_is_away_refuses_nobody(tmp_path: Path) -> None:
    hub, commit = hub_in(tmp_path)
    mirror = open_mirror(str(hub.git_dir), tmp_path / "cache")
    ref = submission_ref("main", "good")
    hub.run("update-ref", ref, commit)
    hub.git_dir.rename(tmp_path / "away")
    with pytest.raises(GitFailed):
        read_submissions(mirror, "main", {ref: commit})
