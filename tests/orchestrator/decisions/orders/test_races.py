"""Two attempts of one task race in spare slots: one candidate is at the gate, one lands, and the other is settled."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from plans import RUN, answered, begun, certificate, course, follow, result, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.orders.kept_work import find_returned, list_kept
from forgepool.orchestrator.decisions.orders.races import explain_races, index_for
from forgepool.orchestrator.decisions.orders.treasury import (
    AskedAccounts,
    LimitStanding,
    Totals,
    TreasuryFacts,
    TreasuryLimit,
    list_counted,
    sum_counted,
)
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import again_or_stop
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.decisions.reviews.task_reviews import review_policy_of
from forgepool.orchestrator.interfaces.export.traces import trace_run
from forgepool.orchestrator.journal.events import (
    Event,
    LandingAnswered,
    LandingIntended,
    MessageLost,
    MessageTaken,
    OrderSent,
    PathsAsked,
    PathsGranted,
    RacerPromoted,
    RacerWithdrawn,
    RunEnded,
    TaskCancelled,
    TaskFailed,
    TaskReturned,
    WorkKept,
)
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.plan.budget import Budget, SeenUse
from forgepool.orchestrator.plan.document import PlanWrong, TaskNeed, dump_plan, parse_plan, read_expanded
from forgepool.orchestrator.reports.costs import describe_ladders
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.host_text import race_words
from forgepool.orchestrator.reports.leftovers import LogIndex
from forgepool.orchestrator.run.dispatch import order
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.messages.answers import CheckResult, Landing
from forgepool.workers.queue.replies import WorkNote
from forgepool.workers.schema.orders import BuiltinAgent, Limits, ReasonPack, Spent

LADDER = ("m-1", "m-2", "m-3")
HEAD = "version: 1\nname: p\nchecks: none\nreview: none\n"


def _plan(*others: str, attempts: int = 2, **said: object) -> PlanIndex:
    """Return the plan of one task that races, and of commands beside it."""
    agent = BuiltinAgent(model="m-1")
    one = task("a", files=["a"], agent=agent, ladder=LADDER[:attempts], attempts=attempts, race=True, review="none")
    made = course(one, *(task(other, files=[other], review="none") for other in others), **{"review": "none", **said})
    return replace(made, racing=frozenset(["a"]))


def _go(of: PlanIndex, state: RunState, slots: int = 2) -> list[Event]:
    """Decide until there is nothing more to decide, and return all that was."""
    decided: list[Event] = []
    while events := decide(of.grow_with(state), state, now=state.at, order_slots=slots, draining=False):
        follow(state, *events)
        decided += events
    return decided


def _racing(of: PlanIndex, slots: int = 2) -> tuple[RunState, list[Event]]:
    state = begun(of)
    return state, _go(of, state, slots)


def _orders(events: Sequence[Event]) -> list[tuple[str, int, int | None]]:
    return [(one.task, one.attempt, one.races) for one in events if isinstance(one, OrderSent)]


def _token(state: RunState, attempt: int, name: str = "a") -> str:
    message = state.attempt_at(name, attempt).message
    assert message is not None
    return message.token


def _answer(of: PlanIndex, state: RunState, attempt: int, outcome: str = "candidate", usd: float = 0.5) -> list[Event]:
    """Let an attempt answer, and return what is decided on that."""
    spent = Spent(cost_usd=usd, input_tokens=10)
    said = result("a", attempt, outcome, token=_token(state, attempt), spent=spent, models=(f"m-{attempt}",))
    events = receive_answer(of.grow_with(state), state, said)
    assert events, "the answer was not taken"
    follow(state, *events)
    return [*events, *_go(of, state)]


def _land(of: PlanIndex, state: RunState, *, verdict: str = "green", slots: int = 2) -> list[Event]:
    """Let the gate answer until the candidate in front has landed or is back."""
    done: list[Event] = []
    for _ in range(2 if verdict == "green" else 1):
        message = next(iter(state.train.messages()), None)
        if message is None:
            return done
        where = {"request_id": message.message_id, "token": message.token, "host": "h"}
        if message.kind == "check":
            spec = state.train.line.trials[message.message_id].spec
            commits, patches = tuple(f"m-{one}" for one in spec), tuple(f"p-{one}" for one in spec)
            green = {"commit": commits[-1], "tree": "tree", "commits": commits, "patch_ids": patches}
            green |= {"certificates": (certificate("tree"),)} if verdict == "green" else {"detail": "red"}
            answer: CheckResult | Landing = CheckResult.model_validate({**where, "verdict": verdict, **green})
        else:
            commit = state.train.landing.intent.commit if state.train.landing else ""
            answer = Landing.model_validate({**where, "outcome": "landed", "commit": commit})
        events = receive_answer(of.grow_with(state), state, answer)
        follow(state, *events)
        done += [*events, *_go(of, state, slots)]
    return done


def _kinds(events: Sequence[Event]) -> list[str]:
    return [one.kind for one in events]


def test_two_models_begin_at_once_on_one_base_and_hold_one_lock() -> None:
    of = _plan()
    state, events = _racing(of)
    assert _orders(events) == [("a", 1, None), ("a", 2, 1)]
    models = []
    for attempt in (1, 2):
        message = state.outstanding()[f"{RUN}.a.{attempt}"]
        at_work = state.attempt_at("a", message=message.message_id)
        made = order(index_for(of, at_work), state, at_work, message, now=1.0, resent=False)
        models.append((made.attempt, made.order_id, made.base, getattr(made.agent, "model", "")))
    assert models == [(1, f"{RUN}.a.1", "c0", "m-1"), (2, f"{RUN}.a.2", "c0", "m-2")]
    assert list(of.in_flight(state)) == ["a"] and state.count("running") == 1 and len(state.working()) == 2
    assert race_words(state, state.tasks["a"]) == "attempt 2 races it, and is not taken yet"


def test_each_attempt_reserves_with_the_account_of_its_own_model_and_may_ask_no_other() -> None:
    asked = AskedAccounts(orders={"a": (("first",),)}, beside={"a": (("second",),)})
    limits = [TreasuryLimit(account=name, per="day", usd=30.0) for name in ("first", "second")]
    standings = [LimitStanding(limit=one, at=0.0) for one in limits]
    of = _plan().within(TreasuryFacts(current=tuple(standings), asked=asked))
    state, events = _racing(of)
    assert [one.accounts for one in events if isinstance(one, OrderSent)] == [("first",), ("second",)]
    closed = []
    for attempt in (1, 2):
        at_work = state.attempt_at("a", attempt)
        assert at_work.message is not None
        sent = order(index_for(of, at_work), state, at_work, at_work.message, now=1.0, resent=False)
        closed.append(sent.closed_accounts)
    assert closed == [("second",), ("first",)]
    counted = [sum_counted(list_counted(state), one.limit, one.period).orders_usd for one in standings]
    assert counted[0] and counted[1], "each counts with its own account"
    full = replace(standings[1], others=Totals(orders_usd=30_000_000))
    _, events = _racing(of.within(TreasuryFacts(current=(standings[0], full), asked=asked)))
    assert _orders(events) == [("a", 1, None)], "no race begins where its account has no room"


def test_the_first_model_has_its_turn_where_only_its_attempt_in_the_race_did_not_count() -> None:
    of = _plan(attempts=3)
    state, _ = _racing(of)
    _answer(of, state, 1, "infrastructure")
    _answer(of, state, 2, "verify_failed")
    assert (state.tasks["a"].attempt, state.tasks["a"].charged, state.rungs) == (3, 1, {"a": 1})
    _answer(of, state, 3, "verify_failed")
    assert (state.tasks["a"].attempt, state.rungs) == (4, {"a": 3})


@pytest.mark.parametrize(("slots", "others"), [(1, ()), (2, ("b",)), (3, ("b", "c"))])
def test_a_race_takes_no_slot_that_a_ready_task_wants(slots: int, others: tuple[str, ...]) -> None:
    _, events = _racing(_plan(*others), slots)
    assert [one for one in _orders(events) if one[2] is not None] == []


def test_a_racer_gives_its_slot_to_a_task_that_becomes_ready_and_has_none() -> None:
    of = _plan("b", "c", "d")
    tasks = [one.model_copy(update={"needs": (TaskNeed(id="b"),)}) if one.id in "cd" else one for one in of.plan.tasks]
    of = replace(of, plan=of.plan.model_copy(update={"tasks": tuple(tasks)}))
    state, events = _racing(of, 3)
    assert _orders(events) == [("b", 1, None), ("a", 1, None), ("a", 2, 1)]
    follow(state, answered("b", token=_token(state, 1, "b")))
    assert "race.withdrawn" not in _kinds(_go(of, state, 3)), "no task is ready yet"
    events = _land(of, state, slots=3)
    assert [(one.kind, one.task) for one in events if isinstance(one, OrderSent | RacerWithdrawn)] == [
        *(("order.sent", "c"), ("race.withdrawn", "a"), ("order.sent", "d"))
    ]
    assert [one.why for one in events if isinstance(one, RacerWithdrawn)] == ["'d' is ready and needs its slot"]
    assert (state.tasks["a"].phase, state.tasks["a"].attempt) == ("running", 1)


def test_a_task_that_is_off_the_longest_path_has_one_family_or_came_back_does_not_race() -> None:
    text = (
        "tasks:\n- {id: a, duration_s: 10, attempts: {ladder: [gpt-5, claude-x], race: 2}}\n"
        "- {id: b, needs: [a], duration_s: 10, attempts: {ladder: [gpt-5, gpt-4], race: 2}}\n"
        "- {id: c, attempts: {ladder: [gpt-5, claude-x], race: 2}}\n- {id: d, attempts: {ladder: [gpt-5, claude-x]}}\n"
    )
    plan = parse_plan(f"{HEAD}defaults: {{agent: {{builtin: {{}}}}}}\n{text}", "p.yaml", Path("absent"), lambda: ())
    why = explain_races(PlanIndex(plan, {}), lambda model: model.partition("-")[0])
    assert why["a"] == "" and "d" not in why
    assert why["b"] == "'gpt-5' and 'gpt-4' are of the same family"
    assert why["c"] == "it is not on the longest path of the plan"
    lacking = explain_races(PlanIndex(plan, {}), lambda model: "unknown" if model == "claude-x" else "gpt")
    assert lacking["a"] == "this host's models.yaml does not know the family of 'claude-x'"
    assert read_expanded(dump_plan(plan)) == plan
    of = _plan(attempts=3)
    state, _ = _racing(of, 1)
    assert _answer(of, state, 1, "verify_failed")[-1].kind == "order.sent"
    assert _orders(_go(of, state, 4)) == [], "the second attempt races nothing"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("attempts: {ladder: [x], race: 2}", "task 'a' is to race, and its ladder has fewer than two models"),
        ("answers: true, attempts: {ladder: [x, y], race: 2}", "task 'a' is to race, and it answers, and lands"),
        (
            "attempts: {ladder: {docs: [x, y]}, race: 2}",
            "'race' of task 'a' has no ladder to race on: 'ladder' has no entry for type 'code'",
        ),
        ("attempts: {ladder: [x, y], race: 1}", "'race' of 'attempts' of task 'a' must be 2 (or left out), is 1"),
    ],
)
def test_a_race_that_cannot_be_has_a_sentence(said: str, expected: str) -> None:
    text = f"{HEAD}defaults: {{agent: {{builtin: {{}}}}}}\ntasks:\n- {{id: a, {said}}}\n"
    with pytest.raises(PlanWrong) as caught:
        parse_plan(text, "p.yaml", Path("absent"), lambda: ())
    assert expected in str(caught.value)


@pytest.mark.parametrize("first", [1, 2])
def test_the_first_candidate_lands_alone_and_the_other_attempt_is_settled_in_the_same_turn(first: int) -> None:
    of, other = _plan(), 3 - first
    state, _ = _racing(of)
    for attempt in (1, 2):
        follow(state, MessageTaken(message_id=f"{RUN}.a.{attempt}", host="h", pid=attempt))
    before = _answer(of, state, first)
    assert "race.withdrawn" not in _kinds(before) and state.tasks["a"].made_by == first
    landed = _land(of, state)
    assert [one.kind for one in landed if isinstance(one, LandingIntended | LandingAnswered | RacerWithdrawn)] == [
        *("landing.intended", "landing.answered", "race.withdrawn")
    ]
    withdrawn = next(one for one in landed if isinstance(one, RacerWithdrawn))
    assert (withdrawn.attempt, withdrawn.message_id) == (other, f"{RUN}.a.{other}")
    assert withdrawn.why == f"attempt {first} has landed"
    assert state.outstanding() == {} and not state.racers and isinstance(landed[-1], RunEnded)
    assert not any(use.open for use in state.uses()), "something stays reserved"
    late = result("a", other, token="t")
    assert receive_answer(of.grow_with(state), state, late) == []


def test_what_the_loser_used_is_counted_to_the_cent_and_its_reservation_comes_back() -> None:
    """The hub may lack its last turn, so an estimate counts until its worker has told what it used."""
    of = _plan(budget=Budget(usd=10.0))
    state, events = _racing(of)
    assert all(one.reserved_usd for one in events if isinstance(one, OrderSent))
    follow(state, MessageTaken(message_id=f"{RUN}.a.2", host="h", pid=2))
    _answer(of, state, 1, usd=0.5)
    used = SeenUse(used=Spent(cost_usd=0.2, input_tokens=5), largest_turn=Spent(cost_usd=0.05))
    lost = RacerWithdrawn(task="a", attempt=2, message_id=f"{RUN}.a.2", why="lost", used=used)
    follow(state, lost)
    assert of.ledger(state).usd > 0.7 and not state.tasks["a"].uses[2].open
    note = WorkNote(order_id=f"{RUN}.a.2", commit="", spent=Spent(cost_usd=0.23, input_tokens=6), models=("m-2",))
    told = receive_answer(of, state, note)
    follow(state, *told)
    assert of.ledger(state).usd == pytest.approx(0.5 + 0.23, abs=1e-9)
    assert receive_answer(of, state, note) == [] and sentence(told[0]) is None and 2 not in state.tasks["a"].works
    untaken, _ = _racing(of)
    follow(untaken, lost.model_copy(update={"used": None}))
    assert untaken.tasks["a"].uses[2].counted_usd == 0.0, "no worker had taken it"


def test_an_attempt_that_comes_back_leaves_its_place_to_the_other_and_the_third_model_follows() -> None:
    of = _plan(attempts=3)
    state, _ = _racing(of)
    _answer(of, state, 2)
    assert [one.rung for one in _land(of, state, verdict="red") if isinstance(one, TaskReturned)] == [0]
    promoted = state.tasks["a"]
    assert (promoted.phase, promoted.attempt, promoted.charged) == ("running", 1, 1) and not state.racers
    assert getattr(of.grow_with(state).tasks["a"].agent, "model", "") == "m-1"
    assert review_policy_of(of.grow_with(state), promoted).reviewers == review_policy_of(of, promoted).reviewers
    _answer(of, state, 1)
    returned = find_returned(state, promoted, 1)
    assert returned is not None and returned.attempt == 2, "the tests of the one that came back are run on the other"
    events = _land(of, state, verdict="red")
    assert [one.rung for one in events if isinstance(one, TaskReturned)] == [3]
    assert _orders(events) == [("a", 3, None)] and not state.racers
    assert getattr(of.grow_with(state).tasks["a"].agent, "model", "") == "m-3"


def test_a_candidate_that_waits_behind_the_front_is_tried_when_that_comes_back() -> None:
    of = _plan()
    state, _ = _racing(of)
    _answer(of, state, 1)
    assert _kinds(_answer(of, state, 2)) == ["order.answered"]
    assert race_words(state, state.tasks["a"]) == "attempt 2 races it, and has a candidate"
    assert find_returned(state, state.tasks["a"], 1) is None, "it was not judged"
    assert [one.spec for one in state.train.line.trials.values()] == [("a",)]
    back = _land(of, state, verdict="red")
    assert [(one.attempt, one.rung) for one in back if isinstance(one, RacerPromoted)] == [(2, 2)]
    assert "landing.answered" in _kinds(_land(of, state))
    assert (state.tasks["a"].phase, state.tasks["a"].made_by) == ("landed", 2)


def test_a_race_that_both_lose_fails_the_task() -> None:
    of = _plan()
    state, _ = _racing(of)
    _answer(of, state, 1, "verify_failed")
    assert any(isinstance(one, TaskFailed) for one in _answer(of, state, 2, "verify_failed"))
    assert [one.attempt for one in state.tasks["a"].reasons] == [1, 2] and not state.racers


@pytest.mark.parametrize("outcome", ["infrastructure", "agent_failed", "needs_human"])
def test_an_attempt_behind_the_front_that_has_no_candidate_ends_the_race_alone(outcome: str) -> None:
    of = _plan()
    state, _ = _racing(of)
    assert _kinds(_answer(of, state, 2, outcome)) == ["order.answered"]
    task_state = state.tasks["a"]
    assert not state.racers and (task_state.phase, task_state.attempt, task_state.charged) == ("running", 1, 0)
    _answer(of, state, 1)
    _land(of, state)
    assert task_state.phase == "landed"


def test_a_question_in_front_is_asked_of_nobody_while_the_other_goes_on() -> None:
    of = _plan()
    state, _ = _racing(of)
    said = result("a", 1, "needs_human", token=_token(state, 1), question="which?", detail="which?")
    follow(state, *receive_answer(of, state, said))
    assert "task.parked" not in _kinds(_go(of, state))
    assert (state.tasks["a"].phase, state.tasks["a"].attempt, state.tasks["a"].charged) == ("running", 2, 0)


def test_a_lost_worker_ends_its_attempt_and_not_the_other() -> None:
    of = _plan()
    for lost, left in ((1, 2), (2, 1)):
        state, _ = _racing(of)
        follow(state, MessageLost(message_id=f"{RUN}.a.{lost}", why="gone"))
        _go(of, state)
        assert (state.tasks["a"].phase, state.tasks["a"].attempt) == ("running", left) and not state.racers
        assert list(state.outstanding()) == [f"{RUN}.a.{left}"]


def test_a_person_who_cancels_ends_both() -> None:
    of = _plan()
    state, _ = _racing(of)
    follow(state, TaskCancelled(task="a"))
    events = _go(of, state)
    assert [one.attempt for one in events if isinstance(one, RacerWithdrawn)] == [2]
    assert state.outstanding() == {} and state.tasks["a"].over == 2


def test_paths_granted_to_either_are_held_for_both() -> None:
    of = _plan()
    state, _ = _racing(of)
    follow(state, PathsAsked(task="a", attempt=2, number=1, paths=("x",)))
    granted = _go(of, state)
    assert granted == [PathsGranted(task="a", attempt=2, paths=("x",), number=1)]
    assert state.tasks["a"].extra == state.racers["a"].extra == ("x",)
    _answer(of, state, 1, "verify_failed")
    assert state.tasks["a"].attempt == 2 and state.tasks["a"].extra == ("x",)


def test_the_losers_commit_is_kept_after_the_landing() -> None:
    of = _plan()
    state, _ = _racing(of)
    _answer(of, state, 1)
    _answer(of, state, 2)
    _land(of, state)
    assert [(one.attempt, one.what, one.commit) for one in list_kept(state, state.tasks["a"])] == [
        (2, "candidate", "c-a-2")
    ]
    stopped, _ = _racing(of)
    _answer(of, stopped, 1)
    _land(of, stopped)
    follow(stopped, WorkKept(task="a", attempt=2, commit="w"))
    assert [(one.attempt, one.what) for one in list_kept(stopped, stopped.tasks["a"])] == [(2, "unverified")]


def test_the_report_says_what_raced_what_won_and_what_the_other_cost() -> None:
    of = _plan()
    state, events = _racing(of)
    events += _answer(of, state, 2, usd=0.3)
    events += _answer(of, state, 1, usd=0.2)
    events += _land(of, state)
    recorded = [Recorded(number=n, at=1.0, event=one) for n, one in enumerate(events)]
    assert list(describe_ladders(of.grow_with(state), state, recorded)) == [
        "model 1 of its ladder (m-1): attempts: 1, landed: 0, 0.20 USD",
        "model 2 of its ladder (m-2): attempts: 1, landed: 1, 0.30 USD",
        "race of attempts 1 and 2 of 'a': attempt 2 landed; the other: 0.20 USD",
    ]


@pytest.mark.parametrize("first", [1, 2])
def test_traces_and_logs_name_the_attempt_that_was_in_front(first: int) -> None:
    of = _plan()
    state, events = _racing(of)
    events += _answer(of, state, first)
    events += _land(of, state)
    recorded = [Recorded(number=n, at=float(n), event=one) for n, one in enumerate(events, start=1)]
    steps = trace_run(of, state, recorded)
    attempts = {one.facts["attempt"]: one.facts["outcome"] for one in steps if one.kind == "attempt"}
    assert attempts == {first: "landed", 3 - first: "cancelled"}
    assert [one.parent for one in steps if one.kind in ("check", "landing")] == [("attempt", "a", str(first))] * 2
    assert all(one.end is not None for one in steps)
    logs = LogIndex(Path("run"), recorded).logs("a")
    assert {one.attempt for one in logs if "checks" in one.path.parts} == {first}


def test_a_race_that_cannot_be_is_refused_before_it_is_journaled() -> None:
    of = _plan()
    state, events = _racing(of)
    racer = next(one for one in events if isinstance(one, OrderSent) and one.races)
    for wrong in (
        racer.model_copy(update={"attempt": 3}),
        RacerPromoted(task="a", attempt=2, rung=2),
        RacerWithdrawn(task="a", attempt=1, why=""),
        RunEnded(landed=0, not_landed=1),
    ):
        with pytest.raises(IllegalStep):
            apply(state, wrong, number=99, at=1.0)


def test_a_race_leaves_the_money_that_an_attempt_under_way_asked_for() -> None:
    """Its part must be free at once: what is reserved for the first attempt is not counted as coming back."""
    of = _plan(budget=Budget(usd=1.0))
    limited = of.plan.tasks[0].model_copy(update={"limits": Limits(cost_usd=0.7)})
    of = replace(of, plan=of.plan.model_copy(update={"tasks": (limited,)}))
    _, events = _racing(of)
    assert _orders(events) == [("a", 1, None)]


def test_a_task_returned_by_a_person_goes_on_with_the_other_attempt() -> None:
    of = _plan()
    state, _ = _racing(of)
    _answer(of, state, 1)
    reason = ReasonPack(attempt=1, kind="rejected", summary="no")
    returned = again_or_stop(of, state.tasks["a"], reason)
    assert isinstance(returned, TaskReturned) and not returned.rung
