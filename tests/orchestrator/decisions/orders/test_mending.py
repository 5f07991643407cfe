"""An attempt begins with the returned work of the one before it, or with nothing: the rule, and a person's word."""

from typing import Any

import pytest
from plans import RUN, answered, begun, course, follow, sent, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.orders.kept_work import find_returned
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import add_authors, again_or_stop, author_in, why_never_mends
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.run.dispatch import check_request, order
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.requests import Author
from forgepool.workers.queue.replies import WorkNote
from forgepool.workers.schema.orders import AgentSpec, BuiltinAgent, CliAgent, CommandAgent, ReasonKind, ReasonPack
from forgepool.workers.schema.reports import EarlierWork

FILES = ("x", "y", "z")
OF = course(task("a", files=FILES, attempts=9, agent=BuiltinAgent()))


def returned(attempt: int, kind: ReasonKind, *paths: str) -> e.TaskReturned:
    return e.TaskReturned(task="a", reason=ReasonPack(attempt=attempt, kind=kind, summary=kind, paths=paths))


def judged(*kinds: ReasonKind, of: PlanIndex = OF, paths: tuple[str, ...] = ()) -> RunState:
    """Return a state in which each attempt made a candidate of three files that came back for this reason."""
    rounds = (
        (sent("a", n), answered("a", n, paths=FILES), returned(n, kind, *paths)) for n, kind in enumerate(kinds, 1)
    )
    return begun(of, *(event for each in rounds for event in each))


def next_order(state: RunState, of: PlanIndex = OF) -> e.OrderSent:
    (found,) = (
        one for one in decide(of, state, now=200.0, order_slots=1, draining=False) if isinstance(one, e.OrderSent)
    )
    return found


@pytest.mark.parametrize(
    ("kinds", "mends"),
    [
        *((([kind],), 1) for kind in ("findings", "out_of_scope", "review_failed", "rejected", "check_failed")),
        *((([kind],), None) for kind in ("no_change", "verify_failed", "agent_failed", "limits", "refused")),
        ((["findings", "check_failed"],), 2),
        ((["check_failed", "check_failed"],), None),
        ((["check_failed", "findings", "check_failed"],), 3),
    ],
)
def test_work_that_can_be_mended_is_begun_with_unless_it_came_back_twice_alike(
    kinds: tuple[list[ReasonKind]], mends: int | None
) -> None:
    assert next_order(judged(*kinds[0])).mends == mends


@pytest.mark.parametrize(("paths", "mends"), [((), 1), (("x",), 1), (("x", "y"), None)])
def test_after_a_conflict_in_most_files_an_attempt_begins_afresh(paths: tuple[str, ...], mends: int | None) -> None:
    assert next_order(judged("conflict", paths=paths)).mends == mends


@pytest.mark.parametrize(
    ("agent", "said", "why"),
    [
        (CliAgent(program="claude"), {}, ""),
        (BuiltinAgent(workflow="build"), {}, ""),
        (CommandAgent(run="true"), {}, "is done by a command"),
        (BuiltinAgent(red_first=True), {}, "has phases of its own"),
        (BuiltinAgent(workflow="red-green-refactor"), {}, "has phases of its own"),
        (BuiltinAgent(), {"files": ()}, "changes no file"),
        (BuiltinAgent(), {"answers": True}, "changes no file"),
    ],
)
def test_some_tasks_never_begin_with_earlier_work(agent: AgentSpec, said: dict[str, Any], why: str) -> None:
    of = course(task("a", agent=agent, attempts=9, **{"files": FILES, **said}))
    assert why_never_mends(of, "a").startswith(why) and bool(why) == bool(why_never_mends(of, "a"))
    if not of.tasks["a"].answers:
        assert next_order(judged("findings", of=of), of).mends == (None if why else 1)


def test_work_that_the_hub_lacks_is_not_begun_with() -> None:
    state = begun(OF, sent("a"), answered("a", withheld="the hub is away"), returned(1, "findings"))
    assert next_order(state).mends is None


def failed_unverified() -> RunState:
    """Return a state in which a candidate came back, and the attempt after it failed without one."""
    red = ReasonPack(attempt=2, kind="verify_failed", summary="red")
    answer = answered("a", 2, "verify_failed", unverified="u-2")
    return follow(judged("findings"), sent("a", 2), answer, e.TaskFailed(task="a", reason=red))


def retry(state: RunState, begins: str, of: PlanIndex = OF) -> e.OrderSent:
    asked = PersonRequest.model_validate({"do": "retry", "task": "a", "begins": begins})
    return next_order(follow(state, *grant_request(of, state, asked)), of)


@pytest.mark.parametrize(("begins", "mends"), [("", None), ("candidate", 2), ("fresh", None)])
def test_a_person_may_have_any_kept_work_begun_with(begins: str, mends: int | None) -> None:
    state = failed_unverified()
    found = retry(state, begins)
    assert found.mends == mends
    follow(state, found)
    made = order(OF, state, state.tasks["a"], state.tasks["a"].messages[0], now=200.0, resent=False)
    ref = f"refs/forgepool/{RUN}/unverified/a/2"
    assert made.mends == (mends and EarlierWork(attempt=2, commit="u-2", ref=ref))


def test_a_persons_word_holds_until_the_next_judgement() -> None:
    state = failed_unverified()
    follow(state, found := retry(state, "candidate"), _answer(found), returned(found.attempt, "agent_failed"))
    assert (found.mends, next_order(state).mends) == (2, None)


def test_fresh_is_fresh_though_its_worker_dies() -> None:
    of = course(task("a", files=FILES, attempts=9, agent=CliAgent(program="claude")))
    state = judged("findings", of=of)
    follow(state, e.TaskCancelled(task="a"))
    follow(state, *grant_request(of, state, PersonRequest(do="retry", task="a", begins="fresh")))
    for _ in range(2):
        follow(state, found := next_order(state, of), e.MessageLost(message_id=found.message_id, why="gone"))
        assert found.mends is None
    follow(state, found := next_order(state, of), _answer(found), returned(found.attempt, "findings"))
    assert state.tasks["a"].begins == ""


def _answer(found: e.OrderSent, **said: Any) -> e.OrderAnswered:
    made = answered("a", found.attempt, paths=FILES, **said)
    return made.model_copy(update={"result": made.result.model_copy(update={"token": found.token})})


def test_an_interrupted_attempt_goes_on_with_the_work_that_it_began_with() -> None:
    state = judged("findings")
    follow(state, found := next_order(state), e.MessageLost(message_id=found.message_id, why="gone"))
    again = next_order(state)
    assert (found.mends, again.resumes, again.mends, again.base) == (1, 2, 1, "c0")
    assert sentence(again) == "a: attempt 3 begins on c0, continuing attempt 2, mending attempt 1"


def test_an_order_names_the_work_where_the_hub_has_it() -> None:
    state = judged("findings")
    follow(state, next_order(state))
    task_, message = state.tasks["a"], state.tasks["a"].messages[0]
    first, second = (order(OF, state, task_, message, now=200.0, resent=again) for again in (False, True))
    assert first.mends == EarlierWork(attempt=1, commit="c-a-1", ref=f"refs/forgepool/{RUN}/orders/a/1")
    assert second.mends == first.mends


@pytest.mark.parametrize(
    ("unmended", "moved", "returned_at_once"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_the_same_candidate_on_the_same_tip_comes_back_at_once(
    unmended: bool, moved: bool, returned_at_once: bool
) -> None:
    """Nothing is tested, and the next attempt begins afresh, since it is the same reason twice."""
    state = judged("check_failed")
    found = next_order(state)
    if moved:
        found = found.model_copy(update={"base": "c1"})
    follow(state, found, _answer(found, mended=1, unmended=unmended))
    decided = decide(OF, state, now=201.0, order_slots=1, draining=False)
    if not returned_at_once:
        assert [one.kind for one in decided] == ["entry.queued"]
        return
    (back,) = decided
    assert isinstance(back, e.TaskReturned) and (back.reason.attempt, back.reason.kind) == (2, "check_failed")
    assert "it left the change of attempt 1 as it was" in back.reason.summary
    assert next_order(follow(state, back)).mends is None


def test_an_unchanged_candidate_is_judged_again_where_a_person_asked_for_it() -> None:
    """The person may have mended what was wrong outside of it."""
    state = judged("check_failed")
    follow(state, e.TaskCancelled(task="a"))
    follow(state, *grant_request(OF, state, PersonRequest(do="retry", task="a", begins="candidate")))
    follow(state, found := next_order(state), _answer(found, mended=1, unmended=True))
    assert [one.kind for one in decide(OF, state, now=201.0, order_slots=1, draining=False)] == ["entry.queued"]


def test_the_models_of_mended_work_are_authors_too() -> None:
    """Otherwise a model might review what one of its own family has begun."""
    first = answered("a", 1, paths=FILES, models=("m-1",), families=("north",))
    second = answered("a", 2, paths=FILES, models=("m-2",), families=("south",), mended=1)
    third = answered("a", 3, paths=FILES, models=("m-3",), families=("east",), mended=2)
    state = begun(OF, sent("a"), first, returned(1, "findings"), sent("a", 2), second)
    assert author_in(OF, state, state.tasks["a"]).families == ("north", "south")
    follow(state, returned(2, "check_failed"), sent("a", 3), third)
    author = author_in(OF, state, state.tasks["a"])
    assert (author.models, author.families) == (("m-1", "m-2", "m-3"), ("north", "south", "east"))
    state = begun(OF, sent("a"), first, returned(1, "findings"), sent("a", 2), answered("a", 2, families=("south",)))
    assert author_in(OF, state, state.tasks["a"]).families == ("south",)


def test_the_next_model_of_a_ladder_begins_afresh_and_the_same_model_again_mends() -> None:
    of = course(task("a", files=FILES, attempts=3, agent=BuiltinAgent(model="m-1"), ladder=("m-1", "m-1", "m-2")))
    state = begun(of)
    for attempt, (kind, mends) in enumerate((("findings", None), ("check_failed", 1), ("findings", None)), 1):
        order_sent = next_order(state, of.grow_with(state))
        assert order_sent.mends == mends
        index = of.grow_with(state)
        agent = index.tasks["a"].agent
        assert isinstance(agent, BuiltinAgent)
        answer = _answer(order_sent, models=(agent.model,), families=("north",))
        reason = ReasonPack(attempt=attempt, kind=kind, summary=kind)
        follow(state, order_sent, answer, again_or_stop(index, state.tasks["a"], reason))
    assert state.tasks["a"].phase == "failed"


def test_mended_work_of_which_no_model_is_known_has_an_unknown_author() -> None:
    """A stopped attempt tells of its files, not of its models, and of what it began with itself."""
    state = judged("check_failed")
    follow(state, next_order(state))
    note = WorkNote(order_id=f"{RUN}.a.2", commit="d" * 40)
    follow(state, *receive_answer(OF, state, note))
    assert state.tasks["a"].works[2].mends == 1
    own = Author(agent="builtin", models=("gpt-x",), families=("openai",))
    found = add_authors(own, state.tasks["a"].works, 2)
    assert set(found.families) >= {"openai", "unknown"} and found.models[-1] == "gpt-x"


def test_a_candidate_is_checked_with_the_tests_of_the_one_before_it() -> None:
    """The attempt between them has left no candidate."""
    state = judged("check_failed", "findings")
    follow(state, sent("a", 3), answered("a", 3, "agent_failed", unverified="u"), returned(3, "agent_failed"))
    follow(state, sent("a", 4), answered("a", 4, paths=FILES))
    for _ in range(2):
        follow(state, *decide(OF, state, now=200.0, order_slots=1, draining=False))
    (check,) = (one for one in state.outstanding().values() if one.kind == "check")
    (entry,) = check_request(OF, state, check, now=200.0).entries
    assert entry.returned == EarlierWork(attempt=2, commit="c-a-2", ref=f"refs/forgepool/{RUN}/orders/a/2")
    assert find_returned(state, state.tasks["a"], 1) is None
