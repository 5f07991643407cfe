"""A landing in doubt is asked after at the hub before its task is given up, and is not called back."""

from pathlib import Path

import pytest
from plans import answered, begun, check_sent, course, follow, intended, queued, sent, task, verdict

from orchestrator.course import Course
from orchestrator.decisions import decide
from orchestrator.events import CheckAnswered, Event, LandingAnswered, MessageLost, TaskFailed, TaskReturned
from orchestrator.inbox import Request
from orchestrator.recovery import unless_landed
from orchestrator.requests import granted
from orchestrator.state import State
from workers.refs import marker_ref
from worktrees.git import Git
from worktrees.mirror import Mirror, open_mirror


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    """Of a hub with one commit."""
    hub = Git(git_dir=tmp_path / "hub.git")
    hub.run("init", "--quiet", "--bare", str(hub.git_dir))
    tree = hub.text("mktree", stdin=b"")
    me = {name: "t" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}
    commit = hub.text("commit-tree", "-m", "one", tree, env=me)
    hub.run("update-ref", "refs/heads/main", commit)
    return open_mirror(str(hub.git_dir), tmp_path / "cache")


def in_doubt(of: Course) -> State:
    """A landing was sent and its lander vanished; the entry was then found red on what it was composed on anew."""
    lost = MessageLost(message_id=intended("a").message_id, why="gone")
    state = begun(of, sent("a"), answered("a"), queued("a"), check_sent("a"))
    return follow(state, CheckAnswered(task="a", result=verdict("a")), intended("a"), lost)


def given_up(of: Course, state: State) -> list[Event]:
    follow(state, check_sent("a", 2), CheckAnswered(task="a", result=verdict("a", "red", 2)))
    return decide(of, state, now=200.0, order_slots=0, draining=False)


def test_a_task_that_has_landed_after_all_is_not_given_up(mirror: Mirror) -> None:
    of = course(task("a", attempts=1))
    state = in_doubt(of)
    events = given_up(of, state)
    assert [type(event) for event in events] == [TaskFailed]
    tip = mirror.hub_refs("refs/heads/main")["refs/heads/main"]
    Git(git_dir=Path(mirror.hub)).run("update-ref", marker_ref(state.run, "a"), tip)
    (instead,) = unless_landed(state, mirror, events)
    assert isinstance(instead, LandingAnswered) and instead.result.commit == tip
    assert follow(state, instead).tasks["a"].phase == "landed"


def test_a_task_that_has_not_landed_is_given_up_as_decided(mirror: Mirror) -> None:
    of = course(task("a", attempts=2))
    state = in_doubt(of)
    events = given_up(of, state)
    assert [type(event) for event in events] == [TaskReturned]
    assert unless_landed(state, mirror, events) == events


def test_a_landing_in_doubt_cannot_be_cancelled() -> None:
    of = course(task("a"))
    assert granted(of, in_doubt(of), Request(do="cancel", task="a")) == []
