"""What people are told of a run is what its journal says, and nothing that happened is left unsaid."""

from pathlib import Path
from typing import Any, get_args

import pytest
from plans import RUN, answered, begun, check_sent, course, intended, landing, queued, sent, task, verdict

from orchestrator import events as e
from orchestrator.journal import Recorded
from orchestrator.report import report_lines
from orchestrator.runs import KeptRun, Options
from orchestrator.standing import standing
from orchestrator.telling import sentence, telling_line
from workers.messages import ReasonPack

ONE = course(task("a", files=["x"]), task("b", "a", files=["y"]), task("c", files=["x"]), task("d", files=["z"]))
REASON = ReasonPack(attempt=1, kind="check_failed", summary="check 'test' exited with 1", log_tail="x\nE   assert 0\n")
STEPS: list[e.Event] = [
    *(sent("a"), answered("a", paths=["x"]), queued("a"), check_sent("a")),
    e.CheckAnswered(task="a", result=verdict("a")),
    intended("a"),
    e.LandingAnswered(task="a", result=landing("a")),
    *(sent("d"), answered("d", 1, "no_change"), e.TaskFailed(task="d", reason=REASON)),
]


def lines(of: Any, *, live: bool = True, now: float = 107.0) -> dict[str, tuple[str, str]]:
    found = standing(ONE, of, now=now, live=live)
    return {one.task: (one.phase, one.detail) for one in found.tasks}


def test_every_task_says_what_it_waits_for() -> None:
    said = lines(begun(ONE, sent("a")))
    assert said["b"] == ("pending", "needs a")
    assert said["c"][0] == "pending" and "waits for 'a', which holds x" in said["c"][1]
    assert said["d"] == ("ready", "waits for a worker")


def test_a_shut_gate_is_said() -> None:
    state = begun(ONE, sent("a"), answered("a"), queued("a"), e.GateHalted(why="main is red"))
    assert lines(state)["a"] == ("queued", "the gate is shut: main is red")


@pytest.mark.parametrize(("live", "outcome"), [(True, "running"), (False, "paused")])
def test_a_run_that_has_not_ended_is_running_or_paused(live: bool, outcome: str) -> None:
    found = standing(ONE, begun(ONE, sent("a")), now=107.0, live=live)
    assert found.outcome == outcome
    assert found.tasks[0].seconds == 7.0


def test_a_run_has_landed_only_when_all_of_it_has() -> None:
    of = course(task("a"))
    landed = begun(of, *STEPS[:7], e.RunEnded(landed=1, not_landed=0))
    assert standing(of, landed, now=1.0, live=False).outcome == "landed"
    failed = begun(of, sent("a"), answered("a", 1, "no_change"), e.TaskFailed(task="a", reason=REASON))
    failed.finished = True
    assert standing(of, failed, now=1.0, live=False).outcome == "incomplete"


def test_the_report_gives_the_proof_of_what_landed_and_the_reason_of_what_did_not(tmp_path: Path) -> None:
    state = begun(ONE, *STEPS)
    recorded = [Recorded(number, 100.0 + number, event) for number, event in enumerate(STEPS, start=1)]
    options = Options(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="d")
    text = "\n".join(report_lines(KeptRun(tmp_path, options, ONE.plan, ONE), state, recorded))
    assert "# p: 1 of 4 tasks landed on t" in text
    assert "- a as m-a-1: green on tree tree-a-1 (test 1.0 s on h)" in text
    assert "- d (failed): check 'test' exited with 1" in text and "| E   assert 0" in text
    assert "- b (pending): not begun" in text
    assert "- h: 2 orders, 0 check runs, 1 landing" in text


def test_what_ends_a_task_or_costs_it_something_is_told() -> None:
    told = [
        *STEPS,
        e.TaskBlocked(task="b", by="a"),
        e.TaskParked(task="b", question="q"),
        e.TaskCancelled(task="b"),
        e.TaskRetried(task="b"),
        e.TaskReturned(task="b", reason=REASON),
        e.GateHalted(why="w"),
        e.MessageLost(message_id=f"{RUN}.a.1", why="gone"),
        e.RunPaused(why="w"),
        e.PartRestarted(part="redis"),
    ]
    silent = {"entry.queued", "check.sent", "landing.intended", "message.taken"}
    for event in told:
        said = sentence(event)
        quiet = event.kind in silent or (event.kind == "order.answered" and event.result.outcome != "candidate")
        assert quiet or (said and "\n" not in said), event.kind
    assert sentence(told[6]) == "a: landed as m-a-1"


def test_the_telling_line_of_a_failure_is_the_assertion() -> None:
    assert telling_line(Recorded(1, 1.0, e.TaskFailed(task="a", reason=REASON))) == "E   assert 0"
    assert telling_line(Recorded(1, 1.0, e.TaskCancelled(task="a"))) == ""


def test_every_event_is_read_back_as_it_was_written() -> None:
    kinds = {one.model_fields["kind"].default for one in get_args(get_args(e.Event)[0])}
    assert len(kinds) == len(get_args(get_args(e.Event)[0])), "two events of one kind could not be told apart"
    for event in STEPS:
        assert e.EVENT.validate_json(event.encode()) == event
