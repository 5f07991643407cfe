"""Each attempt that counts is by the next model of its ladder; what says nothing about the work climbs nothing."""

from pathlib import Path
from typing import get_args

import pytest
from plans import RUN, answered, awaited, begun, course, follow, queued, result, sent, task, verdict

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import again_or_stop
from forgepool.orchestrator.decisions.requests import grant_request, reject
from forgepool.orchestrator.decisions.reviews.task_reviews import limits, review_policy_of
from forgepool.orchestrator.journal.events import (
    Event,
    MessageLost,
    OrderAnswered,
    TaskFailed,
    TaskReturned,
    WaveAnswered,
    WaveSent,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.launch.prerequisites import check_agents, unreviewable
from forgepool.orchestrator.plan.document import Plan, PlanWrong, dump_plan, parse_plan, read_expanded
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.plan.requirements import find_needs
from forgepool.orchestrator.reports.costs import describe_ladders
from forgepool.orchestrator.run.dispatch import order
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.schema.orders import BuiltinAgent, Limits, ReasonKind, ReasonPack
from forgepool.workers.schema.settings import Settings

LADDER = ("small", "large", "other")
OF = course(task("a", agent=BuiltinAgent(model="small"), ladder=LADDER, attempts=3), task("b"))
HEAD = "version: 1\nname: p\nchecks: none\n"


def _reason(kind: ReasonKind = "check_failed", attempt: int = 1, **said: str) -> ReasonPack:
    return ReasonPack(attempt=attempt, kind=kind, summary="no", **said)


def _next(state: RunState, reason: ReasonPack) -> Event:
    return again_or_stop(OF.grow_with(state), state.tasks["a"], reason)


def _model(state: RunState, of: PlanIndex = OF) -> str | None:
    agent = of.grow_with(state).tasks["a"].agent
    assert isinstance(agent, BuiltinAgent)
    return agent.model


@pytest.mark.parametrize("kind", get_args(ReasonKind))
def test_each_attempt_that_counts_takes_the_next_model_and_the_last_one_ends_the_task(kind: ReasonKind) -> None:
    state = begun(OF, sent("a"), answered("a"))
    assert _model(state) == "small"
    for attempt, model in ((1, "large"), (2, "other")):
        follow(state, _next(state, _reason(kind, attempt)), sent("a", attempt + 1), answered("a", attempt + 1))
        assert _model(state) == model
    assert OF.grow_with(state).host_needs["a"] == find_needs(task("a", agent=BuiltinAgent(model="other")))
    assert isinstance(_next(state, _reason(kind, 3)), TaskFailed)


def test_an_order_has_the_model_of_its_rung_and_is_the_same_when_it_is_sent_again() -> None:
    history = [sent("a"), answered("a"), TaskReturned(task="a", reason=_reason(), rung=2), sent("a", 2)]
    state = begun(OF, *history)
    first = order(
        OF.grow_with(state), state, state.tasks["a"], state.outstanding()[f"{RUN}.a.2"], now=1.0, resent=False
    )
    assert first.agent == BuiltinAgent(model="large")
    replayed = begun(OF, *history)
    of = OF.grow_with(replayed)
    assert (
        order(of, replayed, replayed.tasks["a"], replayed.outstanding()[f"{RUN}.a.2"], now=1.0, resent=False) == first
    )


def test_lost_workers_infrastructure_and_the_landings_of_others_climb_nothing() -> None:
    state = begun(OF, sent("a"), MessageLost(message_id=f"{RUN}.a.1", why="gone"), sent("a", 2))
    assert _model(state) == "small"
    follow(state, answered("a", 2))
    event = _next(state, _reason("conflict", 2, conflicting_entry="of another run"))
    assert isinstance(event, TaskReturned) and event.free and not event.rung
    assert _model(follow(state, event)) == "small"


def test_a_persons_model_wins_and_without_one_a_retry_begins_with_the_first() -> None:
    state = begun(OF, sent("a"), answered("a", 1, "verify_failed"), _next(begun(OF), _reason()))
    follow(state, sent("a", 2), answered("a", 2, "verify_failed"), TaskFailed(task="a", reason=_reason(attempt=2)))
    again = PersonRequest(do="retry", named=("a",))
    assert _model(follow(state, *grant_request(OF.grow_with(state), state, again))) == "small"
    follow(state, sent("a", 3), answered("a", 3, "verify_failed"), TaskFailed(task="a", reason=_reason(attempt=3)))
    follow(state, *grant_request(OF.grow_with(state), state, again.model_copy(update={"model": "mine"})))
    follow(state, sent("a", 4), answered("a", 4, "verify_failed"))
    assert _model(follow(state, _next(state, _reason(attempt=4)))) == "mine"


def test_a_person_who_rejects_a_candidate_gets_the_next_models() -> None:
    state = begun(OF, sent("a"), answered("a"), queued("a", reviewed=True), awaited("a"))
    assert _model(follow(state, *reject(OF, state, "a", by="ann", why="no"))) == "large"


def test_the_order_of_tasks_is_not_computed_again_for_another_model() -> None:
    of = course(*(task(f"t{at}", agent=BuiltinAgent(model="small"), ladder=LADDER) for at in range(3)))
    graph = of.graph
    state = begun(of, sent("t0"), answered("t0"), TaskReturned(task="t0", reason=_reason(), rung=2))
    assert of.grow_with(state) is not of and of.grow_with(state).graph is graph


def test_each_further_model_has_one_more_family_of_reviewers_and_the_money_for_it() -> None:
    policy = ReviewPolicy(limits=Limits(cost_usd=1.0))
    of = course(*OF.plan.tasks, review=PlanReview(policy=policy))
    state = begun(of, sent("a"), answered("a"))
    seen = []
    for rung in (1, 2, 3):
        index = of.grow_with(state)
        seen.append((review_policy_of(index, state.tasks["a"]).reviewers, limits(index, state.tasks["a"]).cost_usd))
        state.climb("a", min(rung + 1, 3))
    assert seen == [(1, 1.0), (2, 3.0), (3, 4.0)]
    assert review_policy_of(of.grow_with(state), state.tasks["b"]) == policy


def _plan(text: str) -> Plan:
    return parse_plan(HEAD + text, "plan.yaml", Path("absent"), lambda: ())


def test_a_ladder_of_the_defaults_is_for_built_in_agents_without_a_model_of_their_own() -> None:
    plan = _plan(
        "defaults: {agent: {builtin: {}}, attempts: {ladder: {code: [small, large], docs: [small]}}}\n"
        "tasks:\n- {id: a}\n- {id: b, type: docs}\n- {id: c, type: other}\n- {id: d, attempts: 4}\n"
        "- {id: e, agent: {command: make}}\n- {id: f, agent: {builtin: {model: mine}}}\n"
        "- {id: g, attempts: {ladder: [large, large, other]}}\n"
    )
    found = {one.id: (one.ladder, one.attempts, getattr(one.agent, "model", None)) for one in plan.tasks}
    assert found == {
        "a": (("small", "large"), 2, "small"),
        "b": (("small",), 1, "small"),
        "c": ((), 2, None),
        "d": ((), 4, None),
        "e": ((), 1, None),
        "f": ((), 2, "mine"),
        "g": (("large", "large", "other"), 3, "large"),
    }
    assert read_expanded(dump_plan(plan)) == plan


@pytest.mark.parametrize(
    ("task_text", "sentence"),
    [
        ("attempts: two", "'attempts' of task 'a' must be a whole number, is 'two'"),
        ("attempts: {ladder: small}", "'ladder' of 'attempts' of task 'a' must be a list, is 'small'"),
        ("attempts: {ladder: []}", "'ladder' of 'attempts' of task 'a' must not be empty"),
        ("attempts: {race: 2}", "'attempts' of task 'a' lacks the key 'ladder'"),
        (
            "agent: {command: make}, attempts: {ladder: [x]}",
            "task 'a' has a ladder of models, and a command agent takes no model from it; write a number",
        ),
        (
            "agent: {builtin: {model: x}}, attempts: {ladder: [x]}",
            "task 'a' has a ladder of models, and its agent names a model of its own; remove one of them",
        ),
    ],
)
def test_a_ladder_that_cannot_be_has_a_sentence(task_text: str, sentence: str) -> None:
    head = "" if "agent" in task_text else "defaults: {agent: {builtin: {}}}\n"
    with pytest.raises(PlanWrong) as caught:
        _plan(f"{head}tasks:\n- {{id: a, {task_text}}}\n")
    assert sentence in str(caught.value)


def _settings(folder: Path, *models: str) -> Settings:
    table = folder / "models.yaml"
    rows = ", ".join(f"{one}: {{account: lab, family: {one}, window_tokens: 90000}}" for one in models)
    told = "reason: a test, source: here, date: '2026-11-01'"
    table.write_text(
        "accounts: {lab: {wire: openai-chat, base_url: 'http://127.0.0.1:1/v1'}}\n"
        f"models: {{{rows}}}\nroutes: {{review: {{primary: large, {told}}}}}\n"
    )
    return Settings(home=folder, models=table)


def test_every_model_of_a_ladder_must_be_known_and_have_a_reviewer_of_another_family(tmp_path: Path) -> None:
    """Otherwise the mistake would show hours later, when the first models have been paid."""
    settings = _settings(tmp_path, "small", "large", "other")
    check_agents(OF.plan, settings)
    misspelt = course(task("a", agent=BuiltinAgent(model="small"), ladder=("small", "othr"))).plan
    with pytest.raises(CannotRun, match=r"task 'a' asks for an unknown model: .*did you mean 'other'"):
        check_agents(misspelt, settings)
    said = unreviewable(course(task("a", agent=BuiltinAgent(model="small"), ladder=("small", "large"))).plan, settings)
    assert said is not None and "no model here can review a" in said
    assert (
        unreviewable(course(task("a", agent=BuiltinAgent(model="small"), ladder=("small", "other"))).plan, settings)
        is None
    )


def test_the_report_has_what_each_model_of_the_ladders_added_and_which_landings_are_in_doubt() -> None:
    """A red check of the target puts all landings since the last green one in doubt. It blames none of them."""
    first, second = (OrderAnswered(task="a", result=result("a", n, models=(f"m-{n}",))) for n in (1, 2))
    events: list[Event] = [sent("a"), first, TaskReturned(task="a", reason=_reason(), rung=2), sent("a", 2), second]
    state = begun(OF, *events)
    state.tasks["a"].enter("landed", 100.0)
    wave = WaveSent(number=1, message_id="w", token="t", base="c1", since="c0", tasks=("a",), issued_at=1.0)
    red = WaveAnswered(result=verdict("a", "red"))

    def lines(*more: Event) -> list[str]:
        recorded = [Recorded(number=n, at=1.0, event=one) for n, one in enumerate((*events, *more))]
        return list(describe_ladders(OF.grow_with(state), state, recorded))

    assert lines() == [
        "model 1 of its ladder (m-1): attempts: 1, landed: 0, 0.00 USD",
        "model 2 of its ladder (m-2): attempts: 1, landed: 1, 0.00 USD",
    ]
    assert "landed: 1 (1 before a post-merge check that was red), " in lines(wave, red)[1]


def test_a_ladder_that_a_corrected_plan_shortens_ends_at_its_last_model() -> None:
    state = begun(OF)
    state.climb("a", 3)
    shorter = course(task("a", agent=BuiltinAgent(model="small"), ladder=LADDER[:2], attempts=3), task("b"))
    assert _model(state, shorter) == "large"


def test_a_lead_climbs_no_ladder_that_it_keeps_for_others() -> None:
    lead = task("a", agent=BuiltinAgent(model="own"), ladder=LADDER, attempts=3, answers=True, leads=BuiltinAgent())
    of = course(lead)
    state = begun(of, sent("a"), answered("a", 1, "agent_failed"))
    returned = again_or_stop(of.grow_with(state), state.tasks["a"], _reason("agent_failed"))
    assert isinstance(returned, TaskReturned) and returned.rung == 0
    state.climb("a", 2)
    assert _model(state, of) == "own"
