"""The run loop with a real Redis: questions get their replies whatever is lost, and late events are kept."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from plans import RUN, answered, begun, check_sent, course, follow, intended, landing, queued, sent, task, verdict
from servers import RedisServer

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.inbox import waiting
from forgepool.orchestrator.journal.store import Journal, Recorded, read
from forgepool.orchestrator.run.hub import find_done_refs
from forgepool.orchestrator.run.loop import Loop
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.run.transport import Link
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.queue import replies
from forgepool.workers.queue.broker import PROTOCOL, Redis, connect, use_broker
from forgepool.workers.queue.leases import HostFacts, Lease, Present, announce, claim
from forgepool.workers.queue.replies import MessageRefused, PathRequest, PathsAnswer, tell
from forgepool.workers.queue.run_presence import RunPresence, announce_run, list_runs, withdraw_run
from forgepool.workers.workspace.refs import candidate_ref
from forgepool.worktrees.git.git import Git
from forgepool.worktrees.hub.mirror import Mirror

OF = course(task("a", files=["x"]), task("b", files=["y"]), scope="extend")
STRICT = course(task("a", files=["x"]), task("b", files=["y"]), scope="strict")


_RUN = """
import sys
from pathlib import Path

from plans import course, task

from forgepool.orchestrator.run.hub import open_hub
from forgepool.orchestrator.journal.inbox import PersonRequest, leave
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.launch.session import start_run
from forgepool.workers.schema.settings import Settings

folder = Path(sys.argv[1])
settings = Settings(home=folder / "home", cache=folder / "cache", broker_url=None)

def ask_at_the_end(state, recorded):
    if any(one.event.kind == "run.ended" for one in recorded):
        for do, named in (("cancel", None), ("retry", "a"), ("answer", "a")):
            leave(settings.home / "runs" / state.run, PersonRequest(do=do, task=named))

plan = course(task("a")).plan.model_copy(update={"target": "forgepool/p"})
hub = open_hub(str(folder / "hub.git"), settings)
start_run(plan, folder / "plan.yaml", hub, settings, workers=1, wishes=Wishes(), listener=ask_at_the_end)
"""


def question(number: int, *paths: str) -> PathRequest:
    return PathRequest(order_id=f"{RUN}.a.1", token="t", number=number, paths=paths)


class Turning:
    """A run whose tasks are all being worked on. The test runs each turn, and the loop can die and come back."""

    def __init__(self, folder: Path, redis: Redis, *, strict: bool = False) -> None:
        self.folder, self.redis, self.of = folder, redis, STRICT if strict else OF
        self.commits: list[list[str]] = []
        self.state = begun(self.of)
        self.journal = Journal(folder)
        self.loop = self._begin()
        self.loop.record([sent("a"), sent("b")])
        self.leases = [claim(redis, f"{RUN}.{name}.1", token="t", host="h/o", ttl_s=60.0) for name in ("a", "b")]
        assert all(isinstance(lease, Lease) for lease in self.leases)

    def turn(self, *questions: PathRequest) -> None:
        for one in questions:
            tell(self.redis, RUN, one)
        self.loop._turn()

    def release(self) -> None:
        for lease in self.leases:
            assert isinstance(lease, Lease)
            lease.release()

    def reply(self, to: PathRequest) -> PathsAnswer | None:
        return replies._answer(self.redis, to)

    def lose_replies(self) -> None:
        self.redis.delete(*self.redis.keys("forgepool:paths:*"))

    def die_and_come_back(self) -> None:
        self.journal.close()
        self.state = begun(self.of)
        for one in read(self.folder):
            follow(self.state, one.event, at=one.at)
        self.journal = Journal(self.folder)
        self.loop = self._begin()

    def asked_for(self) -> list[str]:
        return [one.event.kind for one in read(self.folder) if one.event.kind.startswith("paths.")]

    def _begin(self) -> Loop:
        link = Link(self.redis, RUN, 60.0)
        link.begin()
        return Loop(
            course=self.of,
            state=self.state,
            journal=self.journal,
            folder=self.folder,
            # No hub is used here.
            mirror=Mirror(path=self.folder / "mirror", hub="/nowhere"),
            link=link,
            parts=None,
            wishes=Wishes(drain=True),
            listener=self._hear,
        )

    def _hear(self, state: RunState, recorded: Sequence[Recorded]) -> None:
        if recorded:
            self.commits.append([one.event.kind for one in recorded])


@pytest.fixture
def turning(tmp_path: Path, redis: Redis) -> Iterator[Turning]:
    made = Turning(tmp_path, redis)
    yield made
    made.journal.close()


def test_a_question_is_journaled_and_replied_to_within_the_turn(turning: Turning) -> None:
    free, held = question(1, "z"), question(2, "y")
    turning.turn(free, held)
    assert turning.reply(free) == PathsAnswer(verdict="granted")
    assert turning.reply(held) == PathsAnswer(verdict="queued", why="task 'b' is at work on y")
    assert turning.asked_for() == ["paths.asked", "paths.asked", "paths.granted", "paths.queued"]


def test_what_is_answered_in_a_turn_and_what_follows_from_it_are_one_commit(turning: Turning) -> None:
    # The first turn sees who holds the two orders.
    turning.turn()
    turning.commits.clear()
    turning.turn(question(1, "z"), question(2, "y"))
    assert turning.commits == [["paths.asked", "paths.asked", "paths.granted", "paths.queued"]]


def test_people_are_told_once_that_redis_is_gone_and_once_that_it_is_back(
    tmp_path: Path, start_redis: Callable[[], RedisServer]
) -> None:
    server = start_redis()
    use_broker(server.url)
    client = connect(server.url)
    made = Turning(tmp_path, client)
    server.kill()
    for _ in range(3):
        made.loop._turn()
    lost = ["Redis does not answer; the run waits for it, and workers go on with what they have"]
    assert made.loop.wishes.untold == lost
    server.start()
    for _ in range(2):
        made.loop._turn()
    assert made.loop.wishes.untold == [*lost, "Redis answers again"]
    made.journal.close()
    client.close()


def test_an_order_that_its_host_refuses_goes_to_another(turning: Turning, redis: Redis) -> None:
    turning.release()
    for host, can in (("bad", ("sandbox bubblewrap",)), ("good", ("sandbox bubblewrap", "label gpu"))):
        shown = Present(host=host, pid=1, queues=("orders",), concurrency=2, since=1.0, protocol=PROTOCOL)
        announce(redis, shown.model_copy(update={"facts": HostFacts(can=can)}))
    turning.state.tasks["a"].sent_to = "bad"
    turning.loop.watch.note_sent(f"{RUN}.a.1", "bad")
    tell(redis, RUN, MessageRefused(message_id=f"{RUN}.a.1", host="bad", why="it has another key"))
    (asked, _) = turning.state.outstanding().values()
    assert turning.loop._host_for(asked, resent=True) == "bad"
    turning.loop._receive()
    assert turning.loop._host_for(asked, resent=True) == "good" and turning.loop.watch.unsent == {asked.message_id}


def test_a_drained_host_is_none_that_listens(turning: Turning, redis: Redis) -> None:
    turning.release()
    turning.loop.watch._missed = {"orders": 0.0}
    drained = Present(host="h", pid=1, queues=("orders",), concurrency=2, since=1.0, protocol=PROTOCOL, drained=True)
    announce(redis, drained)
    turning.loop._miss_workers()
    assert [each for each in turning.commits if "workers.missing" in each]


def test_nothing_is_told_that_could_not_be_kept(turning: Turning) -> None:
    """Otherwise an attempt would write a file that the next orchestrator gives to another task."""
    turning.journal.close()
    with pytest.raises(sqlite3.ProgrammingError):
        turning.turn(question(1, "z"))
    assert turning.reply(question(1, "z")) is None


def test_what_is_refused_is_replied_to(tmp_path: Path, redis: Redis) -> None:
    strict = Turning(tmp_path, redis, strict=True)
    strict.turn(question(1, "z"))
    said = strict.reply(question(1, "z"))
    assert said is not None and said.verdict == "refused" and "scope: strict" in said.why
    strict.journal.close()


@pytest.mark.parametrize("paths", [("z",), ("y",), ("x",)])
def test_a_question_whose_reply_was_lost_is_replied_to_again_the_same(turning: Turning, paths: tuple[str, ...]) -> None:
    """This holds after another question. Paths that the task holds anyway are granted without an event."""
    asked = question(7, *paths)
    turning.turn(asked)
    first, journaled = turning.reply(asked), len(turning.asked_for())
    turning.turn(question(3, "w"))
    turning.lose_replies()
    turning.turn(asked)
    assert first is not None and turning.reply(asked) == first
    assert len(turning.asked_for()) == journaled + 2, "the other question and its answer"


def test_an_orchestrator_that_died_before_it_replied_replies_when_it_is_back(turning: Turning) -> None:
    asked = question(1, "z")
    turning.loop.record([e.PathsAsked(task="a", attempt=1, number=1, paths=("z",))])
    turning.loop.record([e.PathsGranted(task="a", attempt=1, number=1, paths=("z",))])
    turning.die_and_come_back()
    turning.turn(asked)
    assert turning.reply(asked) == PathsAnswer(verdict="granted")


def test_an_orchestrator_that_died_before_it_decided_decides_when_it_is_back(turning: Turning) -> None:
    turning.loop.record([e.PathsAsked(task="a", attempt=1, number=1, paths=("z",))])
    turning.die_and_come_back()
    turning.turn()
    assert turning.reply(question(1, "z")) == PathsAnswer(verdict="granted")


def test_who_has_answered_is_owed_no_reply(turning: Turning) -> None:
    turning.loop.record([answered("a", paths=["x"])])
    turning.turn(question(1, "z"))
    assert turning.reply(question(1, "z")) is None


def test_a_candidate_that_a_check_under_way_may_compose_stays_in_the_hub(tmp_path: Path) -> None:
    """A task that landed after a check was sent may be in what the check composes."""
    made = [event for name in ("a", "b") for event in (sent(name), answered(name), queued(name), check_sent(name))]
    state = begun(OF, *made)
    landed = [e.CheckAnswered(task="a", result=verdict("a")), intended("a")]
    follow(state, *landed, e.LandingAnswered(task="a", result=landing("a")), at=101.0)
    mirror = Mirror(path=tmp_path / "mirror.git", hub=str(tmp_path / "hub"))
    assert find_done_refs(OF, state, mirror, tmp_path) == []
    follow(state, e.CheckAnswered(task="b", result=verdict("b")))
    assert candidate_ref(RUN, "a", 1) in find_done_refs(OF, state, mirror, tmp_path)


def test_what_is_asked_as_a_run_ends_is_kept_but_for_what_would_undo_it(tmp_path: Path, redis_program: str) -> None:
    hub = Git(git_dir=tmp_path / "hub.git")
    hub.run("init", "--quiet", "--bare", str(hub.git_dir))
    me = {name: "t" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}
    hub.run(
        "update-ref", "refs/heads/main", hub.text("commit-tree", "-m", "one", hub.text("mktree", stdin=b""), env=me)
    )
    hub.run("symbolic-ref", "HEAD", "refs/heads/main")
    (tmp_path / "plan.yaml").touch()
    # A separate process, because a run ends all processes it leaves behind, including this one's Redis.
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "kits")}
    subprocess.run([sys.executable, "-c", _RUN, tmp_path], env=env, check=True)
    (run,) = (tmp_path / "home" / "runs").iterdir()
    assert [one.event.kind for one in read(run)][-1] == "run.ended"
    assert sorted(wish.do for _, wish in waiting(run)) == ["answer", "retry"]


def test_a_run_tells_the_others_how_it_stands_and_uses_its_share_beside_them(
    tmp_path: Path, redis: Redis, redis_url: str
) -> None:
    use_broker(redis_url)
    of = course(*(task(f"t{at}", files=[f"f{at}"]) for at in range(9)))
    shown = Present(host="h", pid=1, queues=("orders", "checks", "reviews", "landings"), concurrency=4, since=1.0)
    announce(redis, shown.model_copy(update={"protocol": PROTOCOL}))
    other = RunPresence(run="other", hub="/elsewhere", target="t", waiting=4)
    announce_run(redis, other)
    journal, state = Journal(tmp_path), begun(of)
    loop = Loop(
        course=of,
        state=state,
        journal=journal,
        folder=tmp_path,
        mirror=Mirror(path=tmp_path / "mirror", hub="/nowhere"),
        link=Link(redis, RUN, 60.0),
        parts=None,
        wishes=Wishes(),
        listener=lambda *_: None,
        weight=3,
    )
    loop._decide()
    assert [one.id for one in state.in_phase("running")] == ["t0", "t1", "t2"]
    (told,) = (one for one in list_runs(redis) if one.run == RUN)
    assert (told.weight, told.running, told.waiting, told.paths) == (3, 3, 1, ("f0", "f1", "f2"))
    assert (told.hub, told.target) == ("/hub", "t")
    withdraw_run(redis, "other")
    loop.link._runs_asked = 0.0
    loop._decide()
    assert state.count("running") == 4, "it has all slots when nobody else wants them"
    loop.wishes.stop = True
    assert loop.step() == "interrupted" and list_runs(redis) == ()
    journal.close()
