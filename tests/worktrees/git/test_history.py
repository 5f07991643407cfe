"""Facts read of commits agree with git, whatever a commit looks like."""

import pytest
from repositories import Hub, git

from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.git.history import brings_one_commit, is_ancestor, read_commit


def _written(repository: Git, hub: Hub, committer: bytes, more: bytes = b"") -> CommitId:
    tree = git(hub.path, "rev-parse", "main^{tree}")
    head = f"tree {tree}\nparent {hub.tip()}\nauthor a <a@b> 5 +0000\n".encode()
    content = head + b"committer " + committer + b"\n" + more + b"\nwords\n\nparent of them\n"
    return CommitId(repository.text("hash-object", "-w", "--literally", "-t", "commit", "--stdin", stdin=content))


@pytest.mark.parametrize(
    "committer",
    [
        b"c <c@d> 1700000000 +0100",
        b"c <c@d> 0 +0000",
        b"c <c@d> -5 +0000",
        b"c <c@d>",
        b"c <c@d> soon",
        b"c <c@d> 12",
        b"c <c@d>  12  -0330",
        b"c> 7 +0000 <c@d> 8 +0000",
        b"\xff\xfe <c@d> 99999999999999 +0000",
    ],
)
def test_the_date_is_the_one_git_tells(hub: Hub, committer: bytes) -> None:
    repository = Git(git_dir=hub.path)
    commit = _written(repository, hub, committer)
    told = repository.text("log", "-1", "--format=%ct", commit)
    assert read_commit(repository, commit).at == (int(told) if told.isdigit() else 0)


def test_parents_and_message_are_told_apart_from_what_looks_like_them(hub: Hub) -> None:
    repository = Git(git_dir=hub.path)
    signed = b"gpgsig -----BEGIN-----\n parent 123\n -----END-----\n"
    commit = _written(repository, hub, b"c <c@d> 1 +0000", signed)
    facts = read_commit(repository, commit)
    assert facts.parents == (hub.tip(),)
    assert facts.message == b"words\n\nparent of them\n"
    assert facts.tree == git(hub.path, "rev-parse", "main^{tree}")
    odd = _written(repository, hub, b"c <c@d> 1 +0000", f"parent {hub.tip()}\nencoding IBM037\n".encode())
    assert read_commit(repository, odd).parents == (hub.tip(),)
    assert read_commit(repository, odd).encoding == "IBM037"


def test_what_is_no_commit_is_said(hub: Hub) -> None:
    repository = Git(git_dir=hub.path)
    with pytest.raises(GitFailed, match="is a tree and not a commit"):
        read_commit(repository, CommitId(git(hub.path, "rev-parse", "main^{tree}")))
    with pytest.raises(GitFailed):
        is_ancestor(repository, CommitId("1" * 40), hub.tip())
    assert not is_ancestor(repository, CommitId("1" * 40), hub.tip(), missing_is_no=True)


def test_ancestry_is_what_git_says(hub: Hub) -> None:
    repository = Git(git_dir=hub.path)
    first = hub.tip()
    side = hub.commit({"s": "1"}, branch="side")
    main = hub.commit({"m": "1"})
    git(hub.work, "checkout", "-q", "--detach", main)
    git(hub.work, "merge", "-q", "--no-ff", "-m", "both", side)
    git(hub.work, "push", "-q", "origin", "HEAD:main")
    merged = hub.tip()
    later = [hub.commit({"n": str(number)}) for number in range(3)]
    everybody = [first, side, main, merged, *later]
    for one in everybody:
        for other in everybody:
            told = repository.run("merge-base", "--is-ancestor", one, other, ok=(0, 1)).status == 0
            assert is_ancestor(repository, one, other) == told
    assert brings_one_commit(repository, side, later[-1])
    assert brings_one_commit(repository, later[-1], merged) is False
    assert brings_one_commit(repository, merged, main) is False
    assert brings_one_commit(repository, first, first) is False


def test_a_shallow_repository_names_the_parent_it_lacks(hub: Hub) -> None:
    first, second = hub.tip(), hub.commit({"n": "2"})
    third = hub.commit({"n": "3"})
    git(hub.path, "clone", "-q", "--bare", "--depth=2", f"file://{hub.path}", str(hub.path.with_name("shallow")))
    shallow = Git(git_dir=hub.path.with_name("shallow"))
    assert is_ancestor(shallow, second, third)
    assert is_ancestor(shallow, first, third)
    with pytest.raises(GitFailed):
        is_ancestor(shallow, CommitId("1" * 40), third)
