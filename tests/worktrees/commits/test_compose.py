"""Composing is a function: the same base, entries and style give the same commit, or the same conflict."""

from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.commits.candidate import commit_candidate, read_trailers, trailers
from forgepool.worktrees.commits.compose import (
    Composed,
    Conflict,
    Entry,
    LandingStyle,
    compose,
    conflicting_commits,
    tree_of,
)
from forgepool.worktrees.git.git import CommitId, GitFailed, TreeId
from forgepool.worktrees.hub.mirror import Mirror, open_mirror


def entry(commit: CommitId, name: str = "t") -> Entry:
    return Entry(commit=commit, name=name, message=f"Land {name}\n\n{trailers({'Forgepool-Task': name})}")


def composed(answer: Composed | Conflict) -> Composed:
    assert isinstance(answer, Composed), answer
    return answer


@pytest.mark.parametrize("style", ["merge", "squash"])
def test_entries_are_put_on_top_one_after_the_other(hub: Hub, mirror: Mirror, style: LandingStyle) -> None:
    base = hub.tip()
    left = hub.commit({"left": "l\n"}, branch="left")
    right = hub.commit({"right": "r\n"}, branch="right")
    tip = hub.commit({"src/a.py": "a = 2\n"})
    mirror.fetch()
    made = composed(compose(mirror.git, tip, [entry(left, "l"), entry(right, "r")], style))
    assert made.tree == tree_of(mirror.git, made.commit)
    names = mirror.git.text("ls-tree", "-r", "--name-only", made.commit).splitlines()
    assert {"left", "right"} <= set(names)
    assert mirror.git.text("show", f"{made.commit}:src/a.py") == "a = 2"
    first_parents = mirror.git.text("rev-list", "--first-parent", made.commit).splitlines()
    assert first_parents[2:] == [tip, base]
    parents = mirror.git.text("log", "-1", "--format=%P", made.commit).split()
    assert parents == ([first_parents[1], right] if style == "merge" else [first_parents[1]])
    assert read_trailers(mirror.git, made.commit) == {"Forgepool-Task": "r"}


@pytest.mark.parametrize("style", ["merge", "squash"])
def test_two_hosts_make_the_same_commit(hub: Hub, mirror: Mirror, tmp_path: Path, style: LandingStyle) -> None:
    base = hub.tip()
    entries = [entry(hub.commit({f"n{n}": "x\n"}, branch=f"b{n}"), f"t{n}") for n in range(3)]
    other = open_mirror(str(hub.path), tmp_path / "other")
    mirror.fetch()
    here = composed(compose(mirror.git, base, entries, style))
    assert here == compose(other.git, base, entries, style) == compose(mirror.git, base, entries, style)
    assert here != compose(mirror.git, base, entries[::-1], style)


def test_a_rebased_branch_is_its_own_commits_on_top_of_the_target(hub: Hub, mirror: Mirror) -> None:
    """
    The commits keep their authors and messages, and the last one has the trailers. The first-parent history is linear.
    """
    first = hub.commit({"a": "1\n"}, branch="work")
    second = hub.commit({"a": "1\n2\n", "b": "b\n"}, branch="work")
    tip = hub.commit({"c": "c\n"})
    mirror.fetch()
    one = Entry(commit=second, name="t", message="Land t\n\nForgepool-Task: t\n", style="rebase")
    made = composed(compose(mirror.git, tip, [one]))
    assert made == composed(compose(mirror.git, tip, [one]))
    subjects = mirror.git.text("log", "--reverse", "--format=%s|%an", f"{tip}..{made.commit}").splitlines()
    assert subjects == [mirror.git.text("log", "-1", "--format=%s|%an", each) for each in (first, second)]
    assert mirror.git.text("rev-parse", f"{made.commit}~2") == tip
    assert read_trailers(mirror.git, made.commit) == {"Forgepool-Task": "t"}
    merged = composed(compose(mirror.git, tip, [entry(second)]))
    assert made.tree == merged.tree, "the same files as by a merge"


def test_a_rebased_branch_that_conflicts_is_a_conflict(hub: Hub, mirror: Mirror) -> None:
    first = hub.commit({"a": "mine\n"}, branch="work")
    tip = hub.commit({"a": "theirs\n"})
    mirror.fetch()
    one = Entry(commit=first, name="t", message="m\n", style="rebase")
    assert compose(mirror.git, tip, [one]) == Conflict(entry="t", paths=("a",))


def test_a_composed_commit_is_by_forgepool_at_the_date_of_its_entry(hub: Hub, mirror: Mirror) -> None:
    base = hub.tip()
    work = commit_candidate(mirror.git, base=base, tree=tree_of(mirror.git, base), message="w", at=1234567.9)
    made = composed(compose(mirror.git, base, [entry(work)]))
    shown = mirror.git.text("log", "-1", "--format=%an <%ae> %at|%cn <%ce> %ct", made.commit)
    assert shown == "|".join(["Forgepool <forgepool@localhost> 1234567"] * 2)


def test_no_entries_are_the_base_itself(hub: Hub, mirror: Mirror) -> None:
    base = hub.tip()
    assert compose(mirror.git, base, []) == Composed(commit=base, tree=tree_of(mirror.git, base))


def test_a_conflict_names_the_entry_and_every_path(hub: Hub, mirror: Mirror) -> None:
    both = {"src/a.py": "a = 'l'\n", "src/b.py": "b = 'l'\n", "fine": "x\n"}
    left = hub.commit(both, branch="left")
    right = hub.commit({"src/a.py": "a = 'r'\n", "src/b.py": None, "other": "y\n"}, branch="right")
    mirror.fetch()
    answer = compose(mirror.git, hub.tip(), [entry(left, "left"), entry(right, "right")])
    assert answer == Conflict(entry="right", paths=("src/a.py", "src/b.py"))


def test_conflicting_names_with_newlines_and_bytes_are_whole(hub: Hub, mirror: Mirror) -> None:
    name = "new\nline \udce9"
    left = hub.commit({name: "l\n"}, branch="left")
    right = hub.commit({name: "r\n"}, branch="right")
    mirror.fetch()
    answer = compose(mirror.git, hub.tip(), [entry(left, "left"), entry(right, "right")])
    assert answer == Conflict(entry="right", paths=(name,))


def test_a_stale_branch_that_only_clashed_with_what_was_undone_is_no_conflict(hub: Hub, mirror: Mirror) -> None:
    old = hub.commit({"src/a.py": "a = 2\n"}, branch="topic")
    hub.commit({"src/a.py": "a = 3\n"})
    tip = hub.commit({"src/a.py": "a = 1\n"})
    mirror.fetch()
    made = composed(compose(mirror.git, tip, [entry(old)]))
    assert mirror.git.text("show", f"{made.commit}:src/a.py") == "a = 2"


def test_a_rename_is_followed_into_the_changed_file(hub: Hub, mirror: Mirror) -> None:
    hub.commit({"long.txt": "".join(f"line {n}\n" for n in range(50))})
    work = hub.commit({"long.txt": "".join(f"line {n}\n" for n in range(50)) + "more\n"}, branch="topic")
    tip = hub.commit({"long.txt": None, "renamed.txt": "".join(f"line {n}\n" for n in range(50))})
    mirror.fetch()
    made = composed(compose(mirror.git, tip, [entry(work)]))
    assert mirror.git.text("show", f"{made.commit}:renamed.txt").endswith("more")


@pytest.mark.parametrize("style", ["merge", "squash"])
def test_an_entry_already_contained_still_gives_one_commit(hub: Hub, mirror: Mirror, style: LandingStyle) -> None:
    first, tip = hub.tip(), hub.commit({"n": "2\n"})
    mirror.fetch()
    made = composed(compose(mirror.git, tip, [entry(first)], style))
    assert made.tree == tree_of(mirror.git, tip)
    assert made.commit != tip
    assert made == compose(mirror.git, tip, [entry(first)], style)


def test_what_git_cannot_answer_is_a_failure_and_never_clean(hub: Hub, mirror: Mirror) -> None:
    with pytest.raises(GitFailed):
        compose(mirror.git, hub.tip(), [entry(CommitId("1" * 40))])
    with pytest.raises(GitFailed):
        compose(mirror.git, CommitId("1" * 40), [entry(hub.tip())])
    orphan = CommitId(git(hub.path, "commit-tree", "-m", "x", git(hub.path, "rev-parse", "main^{tree}")))
    git(hub.path, "update-ref", "refs/heads/orphan", orphan)
    mirror.fetch()
    with pytest.raises(GitFailed, match="unrelated histories"):
        compose(mirror.git, hub.tip(), [entry(orphan)])


def test_an_object_that_is_lost_is_a_failure_and_never_clean(hub: Hub, mirror: Mirror) -> None:
    work = commit_candidate(mirror.git, base=hub.tip(), tree=TreeId(_tree(mirror, "x")), message="w", at=1)
    tree = tree_of(mirror.git, work)
    (mirror.path / "objects" / tree[:2] / tree[2:]).unlink()
    tip = hub.commit({"n": "2\n"})
    mirror.ensure(tip)
    with pytest.raises(GitFailed):
        compose(mirror.git, tip, [entry(work)])


def test_the_commits_it_conflicts_with_are_named_newest_first(hub: Hub, mirror: Mirror) -> None:
    work = hub.commit({"src/a.py": "a = 'work'\n"}, branch="topic")
    one = hub.commit({"src/a.py": "a = 2\n"})
    hub.commit({"unrelated": "x\n"})
    other = hub.commit({"src/a.py": "a = 3\n"}, branch="other", start="main")
    mirror.fetch()
    two = composed(compose(mirror.git, hub.tip(), [entry(other, "other")])).commit
    assert compose(mirror.git, two, [entry(work)]) == Conflict(entry="t", paths=("src/a.py",))
    assert conflicting_commits(mirror.git, two, work, ["src/a.py"]) == (two, one)
    assert conflicting_commits(mirror.git, two, work, ["*.py"]) == ()
    assert conflicting_commits(mirror.git, two, work, []) == ()


def test_a_merge_right_after_the_fork_is_named_too(hub: Hub, mirror: Mirror) -> None:
    start = hub.tip()
    work = hub.commit({"src/a.py": "a = 'work'\n"}, branch="topic", start="main")
    other = hub.commit({"src/a.py": "a = 3\n"}, branch="other", start="main")
    behind = hub.commit({"unrelated": "x\n"}, branch="behind", start="main")
    mirror.fetch()
    merged = composed(compose(mirror.git, start, [entry(other, "other")])).commit
    tip = composed(compose(mirror.git, merged, [entry(behind, "behind")])).commit
    assert conflicting_commits(mirror.git, tip, work, ["src/a.py"]) == (merged,)


def _tree(mirror: Mirror, content: str) -> str:
    blob = mirror.git.text("hash-object", "-w", "--stdin", stdin=content.encode())
    return mirror.git.text("mktree", stdin=f"100644 blob {blob}\tfile\n".encode())
