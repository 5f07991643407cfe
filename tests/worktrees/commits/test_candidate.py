"""A candidate depends only on its inputs, and its trailers say where it came from."""

import pytest
from repositories import Hub

from forgepool.worktrees.commits.candidate import (
    FORGEPOOL,
    Identity,
    commit_candidate,
    read_trailers,
    trailers,
    write_commit,
)
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, GitFailed, TreeId
from forgepool.worktrees.hub.mirror import Mirror


def made(hub: Hub, mirror: Mirror, message: str, at: float = 1_700_000_000.7) -> CommitId:
    base = hub.tip()
    return commit_candidate(mirror.git, base=base, tree=tree_of(mirror.git, base), message=message, at=at)


def test_equal_work_has_an_equal_id(hub: Hub, mirror: Mirror) -> None:
    assert made(hub, mirror, "a") == made(hub, mirror, "a")
    assert made(hub, mirror, "a") != made(hub, mirror, "b")
    assert made(hub, mirror, "a", at=1.0) != made(hub, mirror, "a", at=2.0)


def test_a_candidate_has_its_base_as_only_parent_and_the_date_given(hub: Hub, mirror: Mirror) -> None:
    commit = made(hub, mirror, "a")
    assert mirror.git.text("log", "-1", "--format=%P %at %ct %an", commit) == (
        f"{hub.tip()} 1700000000 1700000000 Forgepool"
    )


def test_an_author_is_named_while_forgepool_commits(hub: Hub, mirror: Mirror) -> None:
    base = hub.tip()
    commit = commit_candidate(
        mirror.git, base=base, tree=tree_of(mirror.git, base), message="a", at=1,
        author=Identity(name="Ada L", email="ada@localhost"),
    )  # fmt: skip
    assert mirror.git.text("log", "-1", "--format=%an <%ae> by %cn", commit) == "Ada L <ada@localhost> by Forgepool"


def test_a_message_may_hold_anything(hub: Hub, mirror: Mirror) -> None:
    commit = made(hub, mirror, "-F /etc/passwd\n\n# no comment\nnul\0 \udce9 ü\n")
    text = mirror.git.text("log", "-1", "--format=%B", commit)
    assert text.startswith("-F /etc/passwd\n\n# no comment\nnul")
    assert "ü" in text


@pytest.mark.parametrize("message", ["a", "", "a\n", "Fix\n\n  body\t\r\n\n\n", "nul\0", "ü", "\ufffe", "\udce9"])
@pytest.mark.parametrize("name", ["Forgepool", "Ada L.", "-x", "a, b", "Ä", "a<b>c", "a\nb"])
@pytest.mark.parametrize("parents", [0, 1, 2])
def test_a_commit_has_the_bytes_that_git_gives_it(
    hub: Hub, mirror: Mirror, message: str, name: str, parents: int
) -> None:
    tip, tree = hub.tip(), tree_of(mirror.git, hub.tip())
    other = write_commit(mirror.git, tree=tree, parents=(tip,), message="other\n", at=1)
    of = (tip, other)[:parents]
    author = Identity(name=name, email="ada@localhost")
    commit = write_commit(mirror.git, tree=tree, parents=of, message=message, at=1_700_000_000, author=author)
    by_git = mirror.git.text(
        *("commit-tree", *(word for parent in of for word in ("-p", parent)), "-F", "-", tree),
        stdin=message.replace("\0", "").encode("utf-8", "replace"),
        env={
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": author.email,
            "GIT_AUTHOR_DATE": "@1700000000 +0000",
            "GIT_COMMITTER_NAME": FORGEPOOL.name,
            "GIT_COMMITTER_EMAIL": FORGEPOOL.email,
            "GIT_COMMITTER_DATE": "@1700000000 +0000",
        },
    )
    assert commit == by_git
    assert mirror.git.text("cat-file", "-t", commit) == "commit"


def test_no_commit_is_made_of_what_is_not_there(hub: Hub, mirror: Mirror) -> None:
    tip, tree = hub.tip(), tree_of(mirror.git, hub.tip())
    for of, parents in ((TreeId("1" * 40), (tip,)), (tree, (CommitId("1" * 40),)), (tree, (CommitId(tree),))):
        with pytest.raises(GitFailed, match="not a valid"):
            write_commit(mirror.git, tree=of, parents=parents, message="a", at=1)


def test_trailers_come_back_as_they_were_given(hub: Hub, mirror: Mirror) -> None:
    given = {"Forgepool-Run": "r1", "Forgepool-Task": "a.b-c", "Forgepool-Agent": "command: sed -i s/a/b/"}
    commit = made(hub, mirror, f"Subject\n\nBody: of some kind\nmore\n\n{trailers(given)}")
    assert read_trailers(mirror.git, commit) == given


def test_a_model_cannot_speak_for_the_harness(hub: Hub, mirror: Mirror) -> None:
    claimed = "Done\n\nForgepool-Task: other"
    commit = made(hub, mirror, f"{claimed}\n{trailers({'Forgepool-Task': 'mine'})}")
    assert read_trailers(mirror.git, commit) == {"Forgepool-Task": "mine"}


def test_a_value_with_newlines_stays_one_trailer() -> None:
    assert trailers({"Key": "a\nEvil: b"}) == "Key: a Evil: b\n"
    with pytest.raises(ValueError, match="not a trailer's key"):
        trailers({"Bad key": "x"})


def test_a_commit_without_trailers_has_none(hub: Hub, mirror: Mirror) -> None:
    assert read_trailers(mirror.git, hub.tip()) == {}
