"""The report of a run says exactly what its journal says, and omits nothing that happened."""

from pathlib import Path
from typing import Any, get_args

import pytest
from plans import RUN, answered, begun, check_sent, course, follow, intended, landing, queued, sent, task, verdict

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.reports.event_text import sentence, telling_lines
from forgepool.orchestrator.reports.report import report_lines
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack, Reply, Spent

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
    assert lines(state)["a"] == ("queued", "landing is paused: main is red")


def test_a_task_in_line_is_told_how_many_tasks_are_ahead_of_it() -> None:
    two = course(task("a"), task("b"))
    state = begun(two, *(each for one in ("a", "b") for each in (sent(one), answered(one, paths=[one]), queued(one))))
    said = {one.task: one.detail for one in standing(two, state, now=1.0, live=True).tasks}
    assert said == {"a": "it is next", "b": "one task is ahead of it"}


def test_a_run_that_has_not_ended_is_running_or_paused() -> None:
    state = follow(begun(ONE, sent("a")), e.RunPaused(why="interrupted"), at=103.0)
    found = standing(ONE, state, now=107.0, live=True)
    assert (found.outcome, found.tasks[0].phase, found.tasks[0].seconds) == ("running", "running", 7.0)
    found = standing(ONE, state, now=107.0, live=False)
    assert (found.outcome, found.tasks[0].phase, found.tasks[0].seconds) == ("paused", "interrupted", 3.0)
    waits = f"waits for `forgepool resume {RUN}`"
    assert lines(state, live=False)["d"] == ("ready", waits) and found.tasks[0].detail == waits


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
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="d")
    kept = KeptRun(tmp_path, options, ONE.plan, ONE)
    text = "\n".join(report_lines(kept, state, recorded))
    public = "\n".join(report_lines(kept, state, recorded, public=True))
    assert "- a as m-a-1: green on tree tree-a-1 (test 1.0 s)" in public and "| assert 0" in public
    assert not [word for word in ("/hub", "on h", "Hosts", "see it again", "logs:") if word in public]
    assert "# p: 1 of 4 tasks landed on t" in text
    assert "- a as m-a-1: green on tree tree-a-1 (test 1.0 s on h)" in text
    assert text.count("check 'test' exited with 1") == 2, "by the task, and by what waits for a person"
    assert "| assert 0" in text
    assert "- d (failed): check 'test' exited with 1" in text and "  - attempt 1\n" in text
    assert "- b (ready): not begun" in public and f"- b (ready): waits for `forgepool resume {RUN}`" in text
    assert "- h: 2 orders, 0 check runs, 1 landing" in text


def test_a_check_that_ran_few_tests_says_so_in_live_lines_and_in_the_report(tmp_path: Path) -> None:
    words = "2 of 2 test files proven and not run"
    green, mine = verdict("a"), intended("a")
    traced = tuple(one.model_copy(update={"traced": words}) for one in green.certificates)
    checked = e.CheckAnswered(task="a", result=green.model_copy(update={"certificates": traced}))
    assert sentence(checked) == f"a: checks passed (test, {words})"
    whole = e.WaveAnswered(result=checked.result)
    assert sentence(whole) == f"the whole target passes its checks (test, {words})"
    wave = e.WaveSent(
        number=1, message_id=green.request_id, token="t", base="c1", since="c0", tasks=("a",), issued_at=1.0
    )
    steps = [*STEPS[:4], checked, mine.model_copy(update={"certificates": traced}), *STEPS[6:], wave, whole]
    recorded = [Recorded(number, 100.0 + number, event) for number, event in enumerate(steps, start=1)]
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="d")
    text = "\n".join(report_lines(KeptRun(tmp_path, options, ONE.plan, ONE), begun(ONE, *steps), recorded))
    assert f"(test 1.0 s on h, {words})" in text
    assert f"- all checks on c1, after 1 landing since c0: green, {words}" in text


def test_what_ends_a_task_or_costs_it_something_is_told() -> None:
    told = [
        *STEPS,
        e.TaskBlocked(task="b", by="a"),
        e.TaskParked(task="b", question="q"),
        e.TaskCancelled(task="b"),
        e.TaskRetried(task="b"),
        e.TaskRetried(task="b", afresh=False),
        e.TaskParked(task="b", question="q", why="question"),
        e.TaskReplied(task="b", reply=Reply(question="q", answer="r", by="ann")),
        e.BudgetSet(budget=Budget(usd=3.0, tokens=5)),
        e.PathsAsked(task="b", attempt=1, number=1, paths=("x",)),
        e.PathsGranted(task="b", attempt=1, paths=("x",)),
        e.PathsQueued(task="b", attempt=1, paths=("x",), why="w"),
        e.PathsRefused(task="b", attempt=1, why="w"),
        e.TaskReturned(task="b", reason=REASON),
        e.GateHalted(why="w"),
        e.MessageLost(message_id=f"{RUN}.a.1", why="gone"),
        e.RunPaused(why="w"),
        e.PartRestarted(part="redis"),
    ]
    silent = {"paths.asked", "entry.queued", "check.sent", "landing.intended", "message.taken"}
    for event in told:
        said = sentence(event)
        quiet = event.kind in silent or (event.kind == "order.answered" and event.result.outcome != "candidate")
        assert quiet or (said and "\n" not in said), event.kind
    assert sentence(told[6]) == "a: landed as m-a-1"


def spent_by(model: str, **said: Any) -> list[e.Event]:
    used = Spent(turns=3, input_tokens=9000, cached_tokens=6000, output_tokens=500, **said)
    return [sent("a"), answered("a", 1, "no_change", spent=used, models=(model,))]


def reported(of: Any, state: Any, folder: Path, *, public: bool = False) -> str:
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="d")
    return "\n".join(report_lines(KeptRun(folder, options, of.plan, of), state, [], public=public))


def test_what_models_used_and_cost_is_reported_by_task_and_in_all(tmp_path: Path) -> None:
    of = course(task("a", agent=BuiltinAgent()), task("b"), budget=Budget(usd=20.0))
    state = begun(of, *spent_by("m-1", cost_usd=1.5))
    text = reported(of, state, tmp_path)
    used = "m-1: 9,000 tokens in (67% cached), 500 out, 1.50 USD"
    assert f"  - {used}" in text and f"- total: {used}" in text
    assert "- budget: 1.50 of 20.00 USD spent or reserved" in text
    now = standing(of, state, now=1.0, live=True).as_json()
    (first, second) = now["tasks"]  # type: ignore[misc]  # a JSON value
    assert first["used"]["models"] == ("m-1",) and first["used"]["cost_usd"] == 1.5
    assert second["used"]["input_tokens"] == 0
    assert now["budget"] == {"cap": {"usd": 20.0, "tokens": None}, "usd": 1.5, "tokens": 9500}


def test_a_cost_that_is_not_known_is_never_told_as_nothing(tmp_path: Path) -> None:
    of = course(task("a", agent=BuiltinAgent()))
    state = begun(of, *spent_by("local", cost_usd=None))
    text = reported(of, state, tmp_path)
    assert "local: 9,000 tokens in (67% cached), 500 out, cost unknown" in text
    assert "1 attempt by models without a known price" in text
    assert standing(of, state, now=1.0, live=True).used.cost_usd is None


def test_a_scripted_model_is_called_what_it_is_and_costs_nothing(tmp_path: Path) -> None:
    state = begun(ONE, sent("a"), answered("a", 1, "no_change", models=("scripted",)))
    assert "- total: scripted\n" in reported(ONE, state, tmp_path) + "\n"
    assert not standing(ONE, state, now=1.0, live=True).used.counts


def test_where_no_model_worked_nothing_is_said_of_models(tmp_path: Path) -> None:
    assert "## Models" not in reported(ONE, begun(ONE, *STEPS), tmp_path)


def test_who_waits_for_paths_or_for_money_says_so() -> None:
    asks = e.PathsAsked(task="a", attempt=1, number=1, paths=("z",))
    waits = e.PathsQueued(task="a", attempt=1, number=1, paths=("z",), why="w")
    later = answered("a", 1, "infrastructure", not_before=1.0)
    assert lines(begun(ONE, sent("a"), sent("d"), asks, waits, later))["a"][1] == "waits for 'd', which holds z"
    of = course(task("a", agent=BuiltinAgent()), budget=Budget(usd=1.0))
    state = begun(of, *spent_by("m", cost_usd=0.99), e.TaskReturned(task="a", reason=REASON))
    assert standing(of, state, now=1.0, live=True).tasks[0].detail.startswith("waits for more budget; 0.01 USD")


def test_a_failure_is_told_with_its_first_error_lines() -> None:
    assert telling_lines(Recorded(1, 1.0, e.TaskFailed(task="a", reason=REASON))) == ("assert 0",)
    assert telling_lines(Recorded(1, 1.0, e.TaskCancelled(task="a"))) == ()


def test_every_event_is_read_back_as_it_was_written() -> None:
    kinds = {one.model_fields["kind"].default for one in get_args(get_args(e.Event)[0])}
    assert len(kinds) == len(get_args(get_args(e.Event)[0])), "two events of one kind could not be told apart"
    for event in STEPS:
        assert e.EVENT.validate_json(event.encode()) == event


def test_a_report_says_why_its_run_stopped_and_how_each_task_goes_on(tmp_path: Path) -> None:
    of = course(task("a"), task("b"), task("c", "a"))
    state = begun(of, sent("a"), e.RunPaused(why="interrupted"))
    text = reported(of, state, tmp_path)
    waits = f"waits for `forgepool resume {RUN}`"
    assert f"- a (interrupted): {waits}\n- b (ready): {waits}\n- c (pending): needs a\n" in text
    assert f"- the run: It was stopped with 3 tasks to go: interrupted: `forgepool resume {RUN}`\n" in text
    public = reported(of, state, tmp_path, public=True)
    assert "- a (interrupted): interrupted\n" in public and "- c (pending): not begun" in public


def test_who_waits_for_paths_is_not_said_to_wait_for_a_clock() -> None:
    stopped = answered("a", 1, "infrastructure", not_before=5.0, finished_at=5.0, detail="task 'd' is at work on z")
    assert sentence(stopped) == "a: waits: task 'd' is at work on z"
    limited = answered("a", 1, "infrastructure", not_before=500.0, finished_at=5.0, detail="limit")
    assert (sentence(limited) or "").startswith("a: waits until ")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("v1.2-1.hash-seed-audit.1", "hash-seed-audit: worker vm/711 died; retrying (attempt not counted)"),
        ("v1.2-1.a.b.2", "a.b (attempt 2): worker vm/711 died; retrying (attempt not counted)"),
        ("v1.2-1.a.1.check-3", "a: worker vm/711 died while checking it; retrying (attempt not counted)"),
        ("v1.2-1.a.1.land-1", "a: worker vm/711 died while landing it; retrying (attempt not counted)"),
        ("v1.2-1.wave-1", "the target: worker vm/711 died while working on wave-1; retrying (attempt not counted)"),
    ],
)
def test_a_lost_worker_is_named_with_what_it_was_at_and_what_follows(message: str, said: str) -> None:
    lost = e.MessageLost(message_id=message, why="vm/711 took it and is gone")
    assert sentence(lost, run="v1.2-1") == said


def test_what_is_done_without_landing_is_told_apart(tmp_path: Path) -> None:
    of = course(task("a", unchanged="ok"), task("b"))
    there = e.TaskAlreadyThere(task="b", commit="c7", by_run="p-1")
    unchanged = e.TaskUnchanged(task="a", why="command exited 0")
    state = begun(of, there, sent("a"), answered("a", 1, "no_change"), unchanged)
    options = RunOptions(run="r-1", hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="")
    text = "\n".join(report_lines(KeptRun(tmp_path, options, of.plan, of), state, []))
    assert "- a: no changes (command exited 0)" in text and "- b: already there, landed by run p-1 as c7" in text
    assert "## Not landed" not in text
    assert sentence(unchanged) == "a: no changes (command exited 0)"
    assert sentence(there) == "b: already there, landed as c7 by run p-1"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (e.TaskBlocked(task="b", by="a"), "b: blocked: it needs 'a', which did not land"),
        (e.TaskBlocked(task="b", by="a", reports=True), "b: blocked: it needs 'a', which did not report"),
        (
            e.TaskApproved(task="a", by="Ada", commit="c" * 40),
            f"a: Ada approved {'c' * 12}; it lands if its checks pass",
        ),
        (e.PathsRefused(task="b", attempt=1, why="w"), "b: may not change the paths it asked for: w"),
        (
            e.MoneyGranted(task="b", attempt=1, reserved_usd=0.6, reserved_tokens=9000),
            "b: its part of the budget is now 0.60 USD and 9,000 tokens, as it asked",
        ),
        (
            e.MoneyQueued(task="b", attempt=1),
            "b: waits for more of the budget, and goes on with its part meanwhile",
        ),
        (
            e.BudgetAwaited(task="b", attempt=1),
            "b: has used its part of the budget, and goes on when there is more",
        ),
        (
            e.CarDissolved(car=("a", "b"), parts=(("a",), ("b",)), message_id="m"),
            "a and b: failed together; testing them in parts",
        ),
        (
            e.CarDissolved(car=("a", "b"), parts=(("a",),), message_id="m", suspects=("b",)),
            "a and b: failed together; testing b alone",
        ),
    ],
)
def test_live_lines_are_plain_sentences(event: e.Event, line: str) -> None:
    assert sentence(event) == line
