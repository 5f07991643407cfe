"""The hub is asked about a landing in doubt before its task is given up, and the landing is not withdrawn."""

import resource
from pathlib import Path

import pytest
from plans import RUN, answered, begun, check_sent, course, follow, intended, queued, result, sent, task, verdict

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    LandingAnswered,
    MessageLost,
    OrderAnswered,
    OrderSent,
    TaskFailed,
    TaskReturned,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import Journal, read
from forgepool.orchestrator.plan.budget import SeenUse
from forgepool.orchestrator.run.hub import bring_home
from forgepool.orchestrator.run.loop import Loop
from forgepool.orchestrator.run.recovery import (
    find_seen_use,
    recover_events,
    recover_landing,
    sum_seen_use,
    unless_landed,
)
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.run.transport import Link
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.answers import Landing
from forgepool.workers.context.transcript.entries import ConversationStarted, Entry, Resumed, TurnSaid
from forgepool.workers.llm.messages import Text, Turn, Usage
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.leases import Lease, claim
from forgepool.workers.queue.replies import answer
from forgepool.workers.schema.orders import BuiltinAgent, Outcome, ReasonPack, Spent
from forgepool.workers.workspace.refs import candidate_ref, marker_ref, progress_ref
from forgepool.worktrees.git.git import Git
from forgepool.worktrees.hub.mirror import Mirror, open_mirror


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    """Return the mirror of a hub with one commit."""
    hub = Git(git_dir=tmp_path / "hub.git")
    hub.run("init", "--quiet", "--bare", str(hub.git_dir))
    tree = hub.text("mktree", stdin=b"")
    me = {name: "t" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}
    commit = hub.text("commit-tree", "-m", "one", tree, env=me)
    hub.run("update-ref", "refs/heads/main", commit)
    return open_mirror(str(hub.git_dir), tmp_path / "cache")


def in_doubt(of: PlanIndex) -> RunState:
    """Return a state whose lander vanished, and whose entry was red when it was composed again."""
    lost = MessageLost(message_id=intended("a").message_id, why="gone")
    state = begun(of, sent("a"), answered("a"), queued("a"), check_sent("a"))
    return follow(state, CheckAnswered(task="a", result=verdict("a")), intended("a"), lost)


def test_a_run_taken_over_on_the_same_redis_adopts_what_was_answered_to_the_former_orchestrator(
    tmp_path: Path, redis: Redis, mirror: Mirror
) -> None:
    """The former had sent the first attempts; its machine died before the hub's copy of the journal had them."""
    of, hub = course(task("a"), task("b")), Git(git_dir=Path(mirror.hub))
    outcomes: dict[str, Outcome] = {"a": "candidate", "b": "agent_failed"}
    for name, outcome in outcomes.items():
        lease = claim(redis, f"{RUN}.{name}.1", token="former", host="h", ttl_s=60.0)
        assert isinstance(lease, Lease)
        given = result(name, 1, outcome, token="former")
        if outcome == "candidate":
            hub.run(
                "update-ref",
                candidate_ref(RUN, name, 1),
                hub.text("hash-object", "-w", "--stdin", stdin=given.encode().encode()),
            )
        answer(redis, RUN, f"{RUN}.{name}.1", given)
        lease.release()
    link, journal = Link(redis, RUN, 60.0), Journal(tmp_path)
    link.begin()
    loop = Loop(
        course=of,
        state=begun(of),
        journal=journal,
        folder=tmp_path,
        mirror=mirror,
        link=link,
        parts=None,
        wishes=Wishes(drain=True),
        listener=lambda state, recorded: None,
    )
    loop.record([sent("a"), sent("b")])
    for _ in range(3):
        loop.watch._looked = 0.0
        loop._turn()
    journal.close()
    told = [one.event for one in read(tmp_path)]
    assert [one.result.commit for one in told if isinstance(one, OrderAnswered)] == ["c-a-1"]
    assert [one.message_id for one in told if isinstance(one, MessageLost)] == [f"{RUN}.b.1"]
    assert loop.state.tasks["b"].phase == "pending" and loop.state.tasks["a"].message is None


def given_up(of: PlanIndex, state: RunState) -> list[Event]:
    follow(state, check_sent("a", 2), CheckAnswered(task="a", result=verdict("a", "red", 2)))
    return decide(of, state, now=200.0, order_slots=0, draining=False)


def test_a_task_that_has_landed_after_all_is_not_given_up(mirror: Mirror) -> None:
    of = course(task("a", attempts=1))
    state = in_doubt(of)
    events = given_up(of, state)
    assert [type(event) for event in events] == [TaskFailed]
    tip = mirror.hub_refs("refs/heads/main")["refs/heads/main"]
    for ref in (f"refs/heads/{state.target}", marker_ref(state.run, "a")):
        Git(git_dir=Path(mirror.hub)).run("update-ref", ref, tip)
    (instead,) = unless_landed(state, mirror, events)
    assert isinstance(instead, LandingAnswered) and instead.result.commit == tip
    assert follow(state, instead).tasks["a"].phase == "landed"


def test_a_target_that_moved_without_its_marker_tells_what_landed(mirror: Mirror) -> None:
    """The hub was killed during the push, and later commits follow. The landing is found at once and after a resume."""
    hub = Git(git_dir=Path(mirror.hub))
    me = {name: "t" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}
    landing = hub.text("commit-tree", "-m", "a", "-p", "main", "main^{tree}", env=me)
    later = hub.text("commit-tree", "-m", "later", "-p", landing, "main^{tree}", env=me)
    of = course(task("a"))
    tested = verdict("a").model_copy(update={"commit": landing})
    state = begun(of, sent("a"), answered("a"), queued("a"), check_sent("a"), CheckAnswered(task="a", result=tested))
    follow(state, intended("a").model_copy(update={"commit": landing}))
    assert recover_events(state, mirror) == recover_landing(state, mirror, state.tasks["a"]) == []
    hub.run("update-ref", f"refs/heads/{state.target}", later)
    (under_way,) = recover_events(state, mirror)
    follow(state, MessageLost(message_id=intended("a").message_id, why="gone"))
    assert recover_events(state, mirror) == [under_way.model_copy(update={"result": in_lieu(under_way)})]
    (instead,) = unless_landed(state, mirror, given_up(of, state))
    found = follow(state, instead).tasks["a"]
    assert (found.phase, found.commit) == ("landed", landing)


def in_lieu(event: Event) -> Landing:
    """Return the same finding without a message it would answer."""
    assert isinstance(event, LandingAnswered)
    return event.result.model_copy(update={"request_id": "", "token": ""})


def test_a_task_that_has_not_landed_is_given_up_as_decided(mirror: Mirror) -> None:
    of = course(task("a", attempts=2))
    state = in_doubt(of)
    events = given_up(of, state)
    assert [type(event) for event in events] == [TaskReturned]
    assert unless_landed(state, mirror, events) == events


def test_a_task_that_has_landed_after_all_is_not_done_again(mirror: Mirror) -> None:
    """Its base has left the target, so it was to begin again without being given up."""
    of = course(task("a"))
    state = follow(in_doubt(of), check_sent("a", 2), CheckAnswered(task="a", result=verdict("a", "stale", 2)))
    events = decide(of, state, now=200.0, order_slots=1, draining=False)
    assert [type(event) for event in events] == [OrderSent]
    assert unless_landed(state, mirror, events) == events
    tip = mirror.hub_refs("refs/heads/main")["refs/heads/main"]
    for ref in (f"refs/heads/{state.target}", marker_ref(state.run, "a")):
        Git(git_dir=Path(mirror.hub)).run("update-ref", ref, tip)
    (instead,) = unless_landed(state, mirror, events)
    assert isinstance(instead, LandingAnswered)
    found = follow(state, instead).tasks["a"]
    assert (found.phase, found.commit, found.attempt) == ("landed", tip, 1)


def test_a_landing_in_doubt_cannot_be_cancelled() -> None:
    of = course(task("a"))
    assert grant_request(of, in_doubt(of), PersonRequest(do="cancel", task="a")) == []


def test_what_a_lost_attempt_used_is_read_in_the_hub(mirror: Mirror) -> None:
    """
    The result is its total use, the carried part and its largest turn. It is empty without a transcript in the hub.
    """
    of = course(task("a", agent=BuiltinAgent()), task("b"))
    state = begun(of, sent("a"), sent("b"))
    assert find_seen_use(of, state, mirror, state.tasks["b"]) is None, "a command leaves no transcript"
    assert find_seen_use(of, state, mirror, state.tasks["a"]) == SeenUse()
    put_progress(
        mirror,
        "a",
        1,
        [ConversationStarted(at=1.0, order_id="r-1.a.1", model="m", system=(), tools=()), said(30), said(5)],
    )
    found = find_seen_use(of, state, mirror, state.tasks["a"])
    assert found and (found.used.input_tokens, found.used.turns) == (35, 2)
    assert (found.carried.tokens, found.largest_turn.input_tokens) == (0, 30)
    assert found.unseen == 31, "in half a minute, at a second a turn"
    seldom = replace_progress(of, "phase")
    assert (kept := find_seen_use(seldom, state, mirror, state.tasks["a"])) and kept.unseen is None


def test_a_transcript_brought_home_is_whole_or_not_there(mirror: Mirror, tmp_path: Path) -> None:
    """Once it is there, its ref is removed from the hub."""
    put_progress(mirror, "a", 1, [said(number) for number in range(1000)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            bring_home(mirror, "r-1", tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "run").rglob("transcript.jsonl")) == []
    bring_home(mirror, "r-1", tmp_path / "run")
    (found,) = (tmp_path / "run").rglob("transcript.jsonl")
    assert len(found.read_text().splitlines()) == 1000


def test_what_was_carried_over_is_told_from_what_was_used_since() -> None:
    begins = ConversationStarted(at=1.0, order_id="r-1.a.1", model="m", system=(), tools=())
    goes_on = Resumed(at=2.0, order_id="r-1.a.2", lost=Spent(input_tokens=7))
    found = sum_seen_use([begins, said(30), goes_on, said(5)], attempt=2)
    assert (found.used.input_tokens, found.carried.input_tokens) == (42, 37)


def replace_progress(of: PlanIndex, progress: str) -> PlanIndex:
    return PlanIndex(of.plan.model_copy(update={"progress": progress}), lambda task: None)


def said(tokens: int) -> TurnSaid:
    turn = Turn(role="assistant", parts=(Text(text="t"),), usage=Usage(input_tokens=tokens, cost_usd=0.1))
    return TurnSaid(at=1.0, turn=turn)


def put_progress(mirror: Mirror, name: str, attempt: int, entries: list[Entry]) -> None:
    """Save progress in the hub as a worker does."""
    hub = Git(git_dir=Path(mirror.hub))
    text = b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries)
    blob, files = hub.text("hash-object", "-w", "--stdin", stdin=text), hub.text("mktree", stdin=b"")
    tree = hub.text("mktree", stdin=f"040000 tree {files}\tfiles\n100644 blob {blob}\ttranscript.jsonl\n".encode())
    me = {one: "t" for one in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}
    commit = hub.text("commit-tree", "-m", "kept", "-p", "refs/heads/main", tree, env=me)
    hub.run("update-ref", progress_ref("r-1", name, attempt), commit)


def test_what_a_new_attempt_brings_is_not_in_doubt() -> None:
    """The landing in doubt was of the earlier candidate, whose base became stale."""
    of = course(task("a"))
    state = in_doubt(of)
    assert state.tasks["a"].landing_in_doubt
    follow(state, check_sent("a", 2), CheckAnswered(task="a", result=verdict("a", "red", 2)))
    follow(state, TaskReturned(task="a", reason=ReasonPack(attempt=1, kind="check_failed", summary="s")), sent("a", 2))
    assert not state.tasks["a"].landing_in_doubt
    assert grant_request(of, state, PersonRequest(do="cancel", task="a")) != [], "it may be cancelled"
