"""A running merge queue while others move its target, refuse its pushes, or remove what it works with."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from gate_kit import GateOf, kept_gate, make_gate
from kit import Machine, events_of
from processes import in_role

from forgepool.orchestrator.decisions.plan_index import PlanIndex, gate_course, gate_plan
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.run.dispatch import check_request
from forgepool.workers.queue.broker import connect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kept(redis_program: str) -> Iterator[GateOf]:
    with kept_gate() as gate:
        yield gate


@pytest.fixture
def gate(kept: GateOf) -> Iterator[GateOf]:
    mark = kept.mark()
    yield kept
    kept.tidy()
    returned = [one.task for one in events_of(kept.since(mark), e.TaskFailed)]
    assert [one for one in returned if not one.startswith("bad")] == [], "blamed for what others did"


def _outcomes(gate: GateOf, mark: int) -> list[str]:
    return [one.result.outcome for one in events_of(gate.since(mark), e.LandingAnswered)]


def test_a_push_between_test_and_landing_is_built_upon_and_blames_nobody(gate: GateOf) -> None:
    """
    The hub refuses the landing because the target moved. A newer revision submitted in the meantime is the one that
    lands.
    """
    mark, before = gate.mark(), gate.tip()
    with gate.hook() as hook:
        gate.push("late", "ok one")
        gate.wait(hook.reached, "the landing's push")
        gate.foreign({"foreign.txt": "mine\n"})
        newer = gate.push("late", "ok two")
        hook.go()
        gate.wait(lambda: _outcomes(gate, mark) == ["moved"], "the refusal")
    gate.wait_landed("late", since=mark)
    assert gate.landed(after=before) == ["-", "late"]
    assert gate.hub.file("main", "e/late") == "ok two"
    assert gate.hub.git("merge-base", "--is-ancestor", newer, "main") == ""


def test_what_is_landing_lands_whatever_is_said_meanwhile(gate: GateOf) -> None:
    """
    A withdrawal during the push comes too late. A new push under the same name is refused, because the entry has
    landed.
    """
    mark = gate.mark()
    with gate.hook() as hook:
        gate.push("gone-by", "ok one")
        gate.wait(hook.reached, "the landing's push")
        gate.asks("cancel", "gone-by")
        gate.wait(lambda: not list((gate.folder / "inbox").glob("*.json")), "the word to be heard")
        gate.push("gone-by", "ok two")
        hook.go()
        gate.wait_landed("gone-by", since=mark)
    assert "has landed" in gate.wait_for(e.EntryRefused, of="gone-by", since=mark).why
    assert gate.hub.file("main", "e/gone-by") == "ok one"
    assert not list(events_of(gate.since(mark), e.TaskCancelled))


def test_what_somebody_else_merges_has_landed_and_does_not_land_again(gate: GateOf) -> None:
    """A person merges the entry while it is tested. The entry that needs it lands."""
    mark, before = gate.mark(), gate.tip()
    with gate.held("known", "upon"):
        commit = gate.push("known")
        gate.phase("known", "testing")
        gate.give("upon", gate.commit({"e/upon": "ok\n"}), Needs="known")
        gate.phase("upon", "queued", "testing")
        gate.merged(commit)
        gate.phase("known", "landed")
    gate.wait_landed("upon", since=mark)
    assert gate.landed(after=before) == ["-", "upon"]


def test_what_somebody_else_merges_while_it_lands_does_not_land_again(gate: GateOf) -> None:
    """The hub refuses the landing, and the queue finds that the target already contains the commit."""
    mark, before = gate.mark(), gate.tip()
    with gate.hook() as hook:
        commit = gate.push("raced")
        gate.wait(hook.reached, "the landing's push")
        gate.merged(commit)
        hook.go()
        gate.phase("raced", "landed")
    assert gate.landed(after=before) == ["-"]
    assert _outcomes(gate, mark) == ["moved", "landed"]


def test_a_stack_whose_upper_branch_brings_the_lower_one_lands_once(gate: GateOf) -> None:
    """The upper entry is submitted first and contains the lower one."""
    before = gate.tip()
    lower = gate.commit({"e/lower": "ok\n"})
    with gate.held("upper", unless="-"):
        gate.give("upper", gate.commit({"e/upper": "ok\n"}, base=lower))
        gate.phase("upper", "testing")
        gate.give("lower", lower)
        # Behind the upper entry the lower one changes nothing. It must not fail for that.
        gate.wait_for(e.CheckAnswered, of="lower")
    gate.wait_landed("upper")
    gate.phase("lower", "landed")
    assert gate.landed(after=before) == ["upper"]


def test_a_target_that_is_rewound_is_built_upon_as_it_is(gate: GateOf) -> None:
    """The entry that the rewind removed stays out, and the next entry is not blamed for it."""
    before, mark = gate.tip(), gate.mark()
    gate.push("rewound")
    gate.wait_landed("rewound")
    gate.hub.git("update-ref", "refs/heads/main", before)
    gate.push("after-it", base=before)
    gate.wait_landed("after-it")
    assert gate.landed(after=before) == ["after-it"]
    assert "rewound" not in gate.here()
    assert ("rewound",) in [one.lost for one in events_of(gate.since(mark), e.TipMoved)]
    assert "which main no longer contains" in gate.stand("rewound").why


def test_a_hub_that_refuses_one_after_the_other_shuts_the_gate_with_its_words(gate: GateOf) -> None:
    """No entry is returned, and all land once the hub accepts pushes again."""
    before = gate.tip()
    with gate.hook(says="main is frozen until Monday", waits=False):
        gate.push("refused")
        gate.wait(lambda: gate.stand("refused").code == "refused", "the refusal")
        gate.push("refused-too")
        gate.wait(lambda: gate.state().halted, "a gate that is shut")
        for name in ("refused", "refused-too"):
            assert "main is frozen until Monday" in gate.stand(name).why
            assert (gate.stand(name).state, gate.tip()) == ("waits", before)
    gate.asks("go")
    gate.wait_landed("refused", "refused-too")


def test_a_hub_that_refuses_one_entry_keeps_nobody_else_from_landing(gate: GateOf) -> None:
    """
    Three entries would land together, and a hook refuses one. That one waits for a person, with the hook's message.
    """
    script = gate.hub.path / "hooks" / "pre-receive"
    script.parent.mkdir(exist_ok=True)
    script.write_text(
        "#!/bin/sh\nwhile read -r old new ref; do\n"
        'case $ref in refs/heads/*) git cat-file -e "$new:e/secret" 2>/dev/null || continue ;; *) continue ;; esac\n'
        'echo "no secrets here" >&2; exit 1\ndone\nexit 0\n'
    )
    script.chmod(0o755)
    mark = gate.mark()
    with gate.held("one", unless="three"):
        for name in ("one", "secret", "three"):
            gate.push(name)
            gate.phase(name, "queued", "testing")
    gate.wait_landed("one", "three", since=mark)
    gate.wait(lambda: gate.stand("secret").code == "refused", "its refusal")
    assert "no secrets here" in gate.stand("secret").why and not gate.state().halted
    script.unlink()
    gate.asks("retry", "secret")
    gate.wait_landed("secret", since=mark)


def test_target_and_markers_move_together_or_not_at_all(gate: GateOf) -> None:
    """The hub accepts the branch and refuses a marker, so the target does not move."""
    before = gate.tip()
    with gate.hook(name="update", ref="refs/forgepool/*/landed/*", says="no markers here", waits=False):
        gate.push("atomic")
        gate.wait(lambda: gate.stand("atomic").code == "refused", "the refusal")
        assert gate.tip() == before
    gate.asks("retry", "atomic")
    gate.wait_landed("atomic")


def test_a_target_that_somebody_checks_out_is_not_moved_beneath_them(gate: GateOf) -> None:
    """A landing is refused, and so is the start of a queue."""
    tree = gate.go / "tree"
    gate.hub.git("worktree", "add", "-q", str(tree), "main")
    try:
        gate.push("outside")
        gate.wait(lambda: gate.stand("outside").code == "refused", "the refusal")
        said = gate.machine.run("gate", "serve", "--repo", gate.hub.path)
        assert (said.status, "is checked out in" in said.err.replace("\n", " ")) == (2, True), said.err
    finally:
        gate.hub.git("worktree", "remove", "--force", str(tree))
    gate.asks("retry", "outside")
    gate.wait_landed("outside")


def test_a_target_without_its_gate_file_lets_nobody_in_until_it_has_it_again(gate: GateOf) -> None:
    """The queue halts and names the missing file. The push that restores it opens the queue again."""
    file = gate.hub.file("main", "forgepool.yaml")
    gate.foreign({"forgepool.yaml": None})
    gate.push("unchecked")
    gate.wait(lambda: gate.state().halted, "a gate that is shut")
    assert "forgepool.yaml has gone from main" in gate.stand("unchecked").why
    gate.foreign({"forgepool.yaml": f"{file}\n"})
    gate.wait_landed("unchecked")


def test_the_target_moves_while_a_red_car_is_taken_apart(gate: GateOf) -> None:
    """The two bad entries are still found, and no other entry is blamed."""
    mark, before = gate.mark(), gate.tip()
    gate.asks("pause")
    names = [f"p{n}" for n in range(5)]
    for name in names:
        gate.push(name)
    gate.push("bad-one", "bad")
    gate.push("bad-two", "bad")
    for name in (*names, "bad-one", "bad-two"):
        gate.phase(name, "queued")
    gate.asks("go")
    gate.wait(lambda: any(isinstance(one.event, e.CarDissolved | e.TaskFailed) for one in gate.since(mark)), "a red")
    gate.foreign({"moved.txt": "again\n"})
    gate.wait_landed(*names, since=mark)
    gate.phase("bad-one", "failed")
    gate.phase("bad-two", "failed")
    assert sorted(gate.landed(after=before)) == ["-", *names]


def test_a_worker_killed_in_the_middle_of_a_check_costs_nobody_anything(gate: GateOf) -> None:
    """The same trial is sent again."""
    mark = gate.mark()
    with gate.held("struck"):
        gate.push("struck")
        gate.under_test("struck")
        taken = gate.wait_for(e.MessageTaken, since=mark)
        os.kill(taken.pid, signal.SIGKILL)
        gate.wait(
            lambda: _is_in_other_hands(gate, mark), "the death of the worker, or another who took the message over"
        )
    gate.wait_landed("struck", since=mark)
    assert len(list(events_of(gate.since(mark), e.LandingIntended))) == 1


def _is_in_other_hands(gate: GateOf, mark: int) -> bool:
    """Tell whether the queue saw the lease end or the broker delivered the message again, whichever comes first."""
    since = gate.since(mark)
    return any(events_of(since, e.MessageLost)) or len(list(events_of(since, e.MessageTaken))) > 1


def test_a_checkout_that_cannot_be_made_is_nobodys_fault(gate: GateOf) -> None:
    """The entry is tried again later; until then its status gives the reason."""
    gate.push("housed")
    gate.wait_landed("housed")
    pool = next(gate.machine.cache.glob("*/*/slot-*")).parent.parent
    pool.rename(pool.with_name("away"))
    pool.write_text("in the way")
    try:
        gate.push("homeless")
        said = gate.wait_for(e.CheckAnswered, of="homeless")
        assert said.result.verdict == "infrastructure"
        assert gate.stand("homeless").code == "infrastructure"
    finally:
        pool.unlink()
        pool.with_name("away").rename(pool)
    gate.wait_landed("homeless")


def _broker(gate: GateOf) -> str:
    return f"unix://{next(gate.machine.tmp.glob('*/redis.sock'))}"


_SENDS = """
import sys
from forgepool.supervisor.entry import check
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.workers.queue.broker import send, use_broker
broker, request, message_id = sys.argv[1:]
use_broker(broker)
send(check, CheckRequest.model_validate_json(request), message_id=message_id)
"""


def test_a_check_that_is_delivered_twice_is_done_once(gate: GateOf) -> None:
    """Redis delivers a message again when it was not acknowledged in time."""
    mark = gate.mark()
    with gate.held("double"):
        gate.push("double")
        gate.under_test("double")
        state = gate.state()
        (sent,) = state.outstanding().values()
        course: PlanIndex = gate_course(gate_plan(gate.run, "main"), state)
        request = check_request(course, state, sent, now=sent.issued_at)
        # Another process sends it, because Celery in this one may hold another test's connection.
        subprocess.run([sys.executable, "-c", _SENDS, _broker(gate), request.encode(), sent.message_id], check=True)
        with connect(_broker(gate)) as client:
            gate.wait(lambda: client.llen("checks") == 0, "the second delivery to be taken")
        assert len(gate.checking()) == 1
    gate.wait_landed("double", since=mark)
    assert len(list(events_of(gate.since(mark), e.CheckAnswered))) == 1


def test_an_answer_that_is_lost_is_asked_for_again(gate: GateOf) -> None:
    """The daemon is stopped while the answer arrives, and the answer is deleted from Redis before it continues."""
    mark, key = gate.mark(), f"forgepool:answers:{gate.run}"
    assert gate.daemon is not None
    with gate.held("unheard") as let_go:
        gate.push("unheard")
        gate.under_test("unheard")
        gate.wait_for(e.MessageTaken, since=mark)
        os.kill(gate.daemon.pid, signal.SIGSTOP)
        try:
            with connect(_broker(gate)) as client:
                before = client.xlen(key)
                let_go()
                gate.wait(lambda: client.xlen(key) > before, "the answer")
                client.delete(key)
        finally:
            os.kill(gate.daemon.pid, signal.SIGCONT)
    gate.wait_landed("unheard", since=mark)


def test_a_redis_that_dies_with_all_it_had_costs_no_entry(gate: GateOf) -> None:
    mark = gate.mark()
    with gate.held("r1"):
        for name in ("r1", "r2", "r3"):
            gate.push(name)
            gate.phase(name, "queued", "testing")
        gate.under_test("r1")
        for one in in_role(gate.machine.folder, "redis"):
            one.kill()
        gate.wait_for(e.PartRestarted, since=mark)
    gate.wait_landed("r1", "r2", "r3", since=mark)
    assert [name for move in gate.moves(mark) for name in move] == ["r1", "r2", "r3"]


@pytest.fixture
def careful(kept: GateOf) -> Iterator[GateOf]:
    """Yield a queue that requires a person's approval for each person's branch."""
    folder = kept.machine.folder.parent
    (folder / "careful").mkdir()
    gate = make_gate(folder, Machine(folder=folder / "careful", name="careful"), "careful")
    gate.serve("--people", "approval")
    yield gate
    gate.stop()


def test_an_approval_is_of_one_commit_and_who_needs_it_waits(careful: GateOf) -> None:
    """
    An approval of the first revision does not count for the second. The entry that needs it waits and is not withdrawn.
    """
    gate = careful
    gate.push("seen", "ok one")
    gate.phase("seen", "reviewing")
    gate.give("behind", gate.commit({"e/behind": "ok\n"}), Needs="seen")
    gate.phase("behind", "queued", "testing")
    stale = gate.state().tasks["seen"].candidate
    gate.push("seen", "ok two")
    gate.wait_for(e.EntrySubmitted, of="seen", count=2)
    gate.asks("approve", "seen", candidate=stale)
    gate.phase("seen", "reviewing")
    assert gate.stand("seen").next == f"forgepool approve {gate.run} seen --by NAME"
    assert gate.stand("behind").blocked_by == "seen"
    assert not list(gate.answered_landed())
    gate.asks("approve", "seen", candidate=gate.state().tasks["seen"].candidate)
    gate.wait_landed("seen")
    gate.phase("behind", "reviewing")
    assert gate.hub.file("main", "e/seen") == "ok two"


def test_a_need_that_stands_in_front_of_another_branch_is_refused_and_says_so(kept: GateOf) -> None:
    """Each branch has its own queue, even with the same hub and the same home."""
    kept.hub.git("branch", "stable", "main")
    stable = GateOf(machine=kept.machine, hub=kept.hub, go=kept.go, target="stable")
    stable.serve()
    base = kept.tip()
    kept.push("over-there", base=base)
    kept.wait_landed("over-there")
    stable.give("over-here", stable.commit({"e/over-here": "ok\n"}, base=base), Needs="over-there")
    why = "it needs 'over-there', and no entry of that name was submitted to stable; submit that first"
    assert stable.wait_for(e.EntryRefused, of="over-here").why == why
    stable.push("over-there", base=base)
    stable.give("over-here", stable.commit({"e/over-here": "ok\n"}, base=base), Needs="over-there")
    stable.wait_landed("over-there", "over-here")
    stable.stop()
    assert stable.landed(after=base) == ["over-there", "over-here"]
    assert "over-here" not in kept.here()


def test_the_same_tree_by_another_way_is_not_checked_again(kept: GateOf) -> None:
    """The same tree is reached by other commits on another target. A different tree is checked."""
    folder = kept.machine.folder.parent
    (folder / "reusing").mkdir()
    gate = make_gate(folder, Machine(folder=folder / "reusing", name="reusing"), "reusing")
    # Results are not reused where commands run without a sandbox.
    del gate.machine.variables["FORGEPOOL_SANDBOX"]
    before = gate.foreign({"forgepool.yaml": "version: 1\nchecks:\n  entries: '! grep -qs bad e/*'\n"})
    gate.serve()
    gate.give("straight", gate.commit({"e/same": "ok\n"}))
    gate.wait_landed("straight")
    tree = gate.hub.git("rev-parse", "main^{tree}")
    gate.hub.git("update-ref", "refs/heads/main", before)
    astray = gate.commit({"detour": "1\n"}, base=before)
    gate.give("around", gate.commit({"e/same": "ok\n", "detour": None}, base=astray))
    gate.wait_landed("around")
    assert gate.hub.git("rev-parse", "main^{tree}") == tree
    gate.give("other", gate.commit({"e/other": "ok\n"}))
    gate.wait_landed("other")
    gate.stop()
    answers = {one.task: one.result.certificates for one in events_of(gate.journal(), e.CheckAnswered)}
    reused = {task: [one.reused for one in earned] for task, earned in answers.items()}
    assert reused == {"straight": [False], "around": [True], "other": [False]}


def test_two_gates_of_one_branch_land_each_entry_once(kept: GateOf) -> None:
    """Two homes that do not know each other serve the same branch. The hub alone keeps them from landing twice."""
    folder = kept.machine.folder.parent
    (folder / "left").mkdir()
    (folder / "right").mkdir()
    one = make_gate(folder, Machine(folder=folder / "left", name="left"), "shared")
    other = GateOf(machine=Machine(folder=folder / "right", name="right"), hub=one.hub, go=one.go)
    other.machine.variables["FORGEPOOL_SANDBOX"] = "off"
    before = one.tip()
    one.serve()
    other.serve()
    names = [f"t{n}" for n in range(6)]
    for name in names:
        one.push(name)
    one.wait(lambda: {*names} <= {*one.here()}, "all to be there", within_s=90)
    for gate in (one, other):
        # The slower queue learns of the landings from the hub and returns no entry.
        gate.wait(lambda gate=gate: not gate.state().train.line.entries, "the end of its line", within_s=60)
        assert {task.phase for task in gate.state().tasks.values()} <= {"landed"}
        assert not list(events_of(gate.journal(), e.TaskFailed))
        gate.stop()
    assert sorted(one.landed(after=before)) == names
    commits = one.hub.git("rev-list", "--first-parent", f"{before}..main").split()
    by = [[intent.commit for intent in events_of(gate.journal(), e.LandingIntended)] for gate in (one, other)]
    assert one.tip() in by[0] + by[1] and commits
