"""The target moves by compare-and-swap, for a certified tree, at most once, and the result is reported truthfully."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.commits.compose import Composed, Entry, compose, tree_of
from forgepool.worktrees.git.git import CommitId, GitFailed, TreeId
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, open_mirror
from forgepool.worktrees.hub.push import RefUpdate
from forgepool.worktrees.hub.target import (
    CertificateMismatch,
    Moved,
    NotMoved,
    TargetElsewhere,
    TargetRefused,
    create_target,
    is_contained,
    move_target,
)

MARKER = "refs/forgepool/r1/landed/t"


def landing(hub: Hub, mirror: Mirror, name: str = "topic") -> Composed:
    """Compose a change on the tip of main."""
    work = hub.commit({name: "x\n"}, branch=name)
    mirror.fetch()
    made = compose(mirror.git, hub.tip(), [Entry(commit=work, name=name, message=name)])
    assert isinstance(made, Composed)
    return made


def move(
    mirror: Mirror, made: Composed, tip: CommitId | None, marker: str = MARKER
) -> Moved | TargetElsewhere | NotMoved:
    return move_target(
        mirror,
        target="main",
        commit=made.commit,
        expected_tip=tip,
        certified_tree=made.tree,
        markers={marker: made.commit},
    )


def test_the_target_and_its_marker_move_together(hub: Hub, mirror: Mirror) -> None:
    made = landing(hub, mirror)
    assert move(mirror, made, hub.tip()) == Moved(made.commit)
    assert mirror.hub_refs("refs/heads/main", MARKER) == {"refs/heads/main": made.commit, MARKER: made.commit}


DONE, CANDIDATE = "refs/forgepool/r1/landed/before", "refs/forgepool/r1/orders/before/1"


def point(hub: Hub, refs: dict[str, CommitId]) -> None:
    for ref, at in refs.items():
        git(hub.path, "update-ref", ref, at)


def move_and_remove(mirror: Mirror, made: Composed, tip: CommitId, obsolete: dict[str, CommitId]) -> object:
    return move_target(
        mirror,
        target="main",
        commit=made.commit,
        expected_tip=tip,
        certified_tree=made.tree,
        markers={MARKER: made.commit},
        obsolete=obsolete,
    )


def test_refs_of_landed_work_go_with_the_push_that_moves_the_target(hub: Hub, mirror: Mirror) -> None:
    tip, made = hub.tip(), landing(hub, mirror)
    point(hub, {DONE: tip, CANDIDATE: tip})
    assert move_and_remove(mirror, made, tip, {DONE: tip, CANDIDATE: tip}) == Moved(made.commit)
    assert mirror.hub_refs("refs/forgepool/*") == {MARKER: made.commit}


def test_a_ref_that_may_not_be_removed_keeps_no_target_from_moving(hub: Hub, mirror: Mirror) -> None:
    tip, made = hub.tip(), landing(hub, mirror)
    point(hub, {DONE: tip, CANDIDATE: hub.tip("topic")})
    assert move_and_remove(mirror, made, tip, {DONE: tip, CANDIDATE: tip}) == Moved(made.commit)
    assert set(mirror.hub_refs("refs/forgepool/*")) == {MARKER, DONE, CANDIDATE}, "one has moved: all stay"
    again = landing(hub, mirror, "second")
    git(hub.path, "update-ref", "-d", MARKER)
    hook = hub.path / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncase $3 in 000*) exit 1;; esac\n")
    hook.chmod(0o755)
    assert move_and_remove(mirror, again, made.commit, {DONE: tip}) == Moved(again.commit)
    assert DONE in mirror.hub_refs("refs/forgepool/*")


def test_packed_refs_that_somebody_locks_keep_no_target_from_moving(hub: Hub, mirror: Mirror) -> None:
    tip, made = hub.tip(), landing(hub, mirror)
    point(hub, {DONE: tip})
    (hub.path / "packed-refs.lock").touch()
    assert move_and_remove(mirror, made, tip, {DONE: tip}) == Moved(made.commit)
    assert mirror.hub_refs("refs/forgepool/*") == {DONE: tip, MARKER: made.commit}


def test_moving_again_after_a_lost_answer_is_moved(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    made = landing(hub, mirror)
    assert move(mirror, made, tip) == move(mirror, made, tip) == Moved(made.commit)
    hub.commit({"later": "x\n"})
    assert move(mirror, made, tip) == Moved(made.commit)


def test_a_target_somebody_else_moved_is_elsewhere_and_left_alone(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    made = landing(hub, mirror)
    new = hub.commit({"by": "somebody else\n"})
    assert move(mirror, made, tip) == TargetElsewhere(new)
    assert mirror.hub_refs("refs/heads/main", MARKER) == {"refs/heads/main": new}


def test_a_target_that_was_deleted_is_elsewhere(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    made = landing(hub, mirror)
    git(hub.path, "update-ref", "-d", "refs/heads/main")
    assert move(mirror, made, tip) == TargetElsewhere(None)


def test_a_marker_that_is_taken_moves_nothing(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    made = landing(hub, mirror)
    git(hub.path, "update-ref", MARKER, tip)
    assert isinstance(move(mirror, made, tip), NotMoved)
    assert hub.tip() == tip


def test_a_hub_that_says_no_moves_nothing(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    made = landing(hub, mirror)
    hook = hub.path / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho frozen >&2\nexit 1\n")
    hook.chmod(0o755)
    answer = move(mirror, made, tip)
    assert isinstance(answer, NotMoved)
    assert "frozen" in answer.reason
    assert hub.tip() == tip


def test_a_target_checked_out_somewhere_is_not_moved(hub: Hub, tmp_path: Path) -> None:
    mirror = open_mirror(str(hub.work / ".git"), tmp_path / "cache2")
    git(hub.work, "checkout", "-q", "-b", "topic")
    git(hub.work, "commit", "-q", "--allow-empty", "-m", "work")
    git(hub.work, "checkout", "-q", "main")
    mirror.fetch()
    tip, work = CommitId(git(hub.work, "rev-parse", "main")), CommitId(git(hub.work, "rev-parse", "topic"))
    made = compose(mirror.git, tip, [Entry(commit=work, name="t", message="m")])
    assert isinstance(made, Composed)
    answer = move(mirror, made, tip)
    assert isinstance(answer, NotMoved)
    assert "checked out" in answer.reason


def test_another_tree_than_the_certified_one_is_refused(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    made = landing(hub, mirror)
    forged = Composed(commit=made.commit, tree=TreeId(tree_of(mirror.git, tip)))
    with pytest.raises(CertificateMismatch, match="certificate is for"):
        move(mirror, forged, tip)
    assert hub.tip() == tip


def test_a_commit_that_would_drop_others_is_refused(hub: Hub, mirror: Mirror) -> None:
    made = landing(hub, mirror)
    new = hub.commit({"by": "somebody else\n"})
    mirror.fetch()
    with pytest.raises(CertificateMismatch, match="not built on"):
        move(mirror, made, new)
    assert hub.tip() == new


def test_of_two_at_once_exactly_one_moves_the_target(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    both = [landing(hub, mirror, name) for name in ("one", "two")]

    def attempt(made: Composed) -> object:
        try:
            return move(mirror, made, tip, f"{MARKER}-{made.commit}")
        except GitFailed as failed:  # the other push held the ref's lock at that moment
            return failed

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(attempt, both))
    moved = [answer for answer in answers if isinstance(answer, Moved)]
    assert moved == [Moved(hub.tip())]


def test_a_marker_whose_target_was_not_moved_is_no_landing(hub: Hub, mirror: Mirror) -> None:
    """A hub that is killed during a push may leave a marker alone. Another person has pushed since."""
    tip, made = hub.tip(), landing(hub, mirror)
    mirror.push((RefUpdate(ref=MARKER, new=made.commit, expected=None),))
    hub.commit({"others": "x\n"})
    assert not is_contained(mirror, "main", made.commit)
    assert not isinstance(move(mirror, made, tip), Moved)


def test_landed_is_told_by_the_history_of_the_target(hub: Hub, mirror: Mirror, tmp_path: Path) -> None:
    tip = hub.tip()
    made = landing(hub, mirror)
    assert not is_contained(mirror, "main", made.commit)
    move(mirror, made, tip)
    hub.commit({"later": "x\n"})
    other = open_mirror(str(hub.path), tmp_path / "other")
    for asked in (mirror, other):
        assert is_contained(asked, "main", made.commit)
        assert not is_contained(asked, "gone", made.commit)
        assert not is_contained(asked, "main", CommitId("1" * 40))


def test_a_hub_that_is_away_answers_neither_way(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    hub.path.rename(hub.path.with_name("away"))
    with pytest.raises(GitFailed):
        is_contained(mirror, "main", tip)


def test_a_target_is_created_once_and_then_stays(hub: Hub, mirror: Mirror) -> None:
    base = hub.tip()
    assert create_target(mirror, "forgepool/plan", base) == base
    new = hub.commit({"n": "2\n"}, branch="forgepool/plan")
    assert create_target(mirror, "forgepool/plan", base) == new


def test_a_target_that_may_not_be_created_is_one_sentence(hub: Hub, mirror: Mirror) -> None:
    hook = hub.path / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(TargetRefused, match="branch x cannot be created: the hub refused"):
        create_target(mirror, "x", hub.tip())
    with pytest.raises(MissingCommit):
        create_target(mirror, "y", CommitId("1" * 40))


def test_a_name_that_is_no_branch_is_refused(hub: Hub, mirror: Mirror) -> None:
    with pytest.raises(ValueError, match="not a full ref name"):
        create_target(mirror, "a:refs/heads/main", hub.tip())
