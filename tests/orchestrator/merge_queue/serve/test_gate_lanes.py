"""Entries that share no check do not wait for each other, and each lands as it was tested."""

from dataclasses import replace

import pytest
from gate_world import RUN, after, commit, green, opened, submitted

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import GateCourse, gate_course, gate_plan
from forgepool.orchestrator.journal.events import (
    CarDissolved,
    CheckCancelled,
    CheckSent,
    Event,
    LandingAnswered,
    LandingIntended,
    MessageLost,
)
from forgepool.orchestrator.run.dispatch import check_request
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.gate.affected_checks import ONE_LANE, Lanes
from forgepool.supervisor.messages.answers import Landing
from forgepool.workers.policy.gate_file.reading import read_gate_file

FILE = """\
version: 1
scopes: {web: {paths: [web]}, api: {paths: [api]}}
checks: [{name: web, run: make web, scope: web}, {name: api, run: make api, scope: api}]
"""
LANES = Lanes(read_gate_file(FILE).checks)


def course(state: RunState, lanes: Lanes) -> GateCourse:
    return replace(gate_course(gate_plan(RUN, "main"), state), lanes=lanes)


def next_of(state: RunState, lanes: Lanes = LANES, slots: int = 2) -> list[Event]:
    return decide(course(state, lanes), state, now=100.0, order_slots=0, check_slots=slots, draining=False)


def entry(name: str, path: str) -> Event:
    return submitted(name).model_copy(update={"paths": (path,)})


def on_trial(lanes: Lanes) -> tuple[RunState, dict[str, CheckSent]]:
    """Return two entries, each with its own running trial."""
    state, sent = opened(entry("a", "web/a.js"), entry("b", "api/b.py")), dict[str, CheckSent]()
    while len(sent) < 2:
        for event in next_of(state, lanes):
            after(state, event)
            if isinstance(event, CheckSent):
                sent[event.task] = event
    return state, sent


def landed(state: RunState, intent: Event) -> None:
    assert isinstance(intent, LandingIntended)
    result = Landing(request_id=intent.message_id, token=intent.token, outcome="landed", commit=intent.commit)
    after(state, intent, LandingAnswered(task=intent.task, result=result, entries=intent.entries))


def test_each_is_tried_on_the_tip_and_with_one_lane_behind_the_other() -> None:
    _, sent = on_trial(LANES)
    assert [sent[one].ahead for one in "ab"] == [(), ()]
    _, behind = on_trial(ONE_LANE)
    assert [behind[one].ahead for one in "ab"] == [(), ("a",)]


def test_a_landing_in_another_lane_ends_no_trial_and_what_it_found_is_tried_again_where_it_lands() -> None:
    state, sent = on_trial(LANES)
    after(state, green(sent["a"]))
    landed(state, next(one for one in next_of(state) if isinstance(one, LandingIntended)))
    assert not [one for one in next_of(state) if isinstance(one, CheckCancelled | CheckSent)]
    after(state, green(sent["b"]))
    again = next_of(state)
    assert [(one.car, one.ahead, one.base) for one in again if isinstance(one, CheckSent)] == [
        (("b",), (), commit("composed"))
    ]
    assert not [one for one in again if isinstance(one, LandingIntended)], "it was green on a tip that is none any more"


def test_what_was_green_before_the_tip_moved_is_not_landed_by_anybody() -> None:
    state, sent = on_trial(LANES)
    after(state, green(sent["a"]))
    landed(state, next(one for one in next_of(state) if isinstance(one, LandingIntended)))
    after(state, green(sent["b"]))
    wrong = LandingIntended(
        task="b",
        message_id=f"{RUN}.b.1.land-1",
        token="t",
        base=state.tip,
        commit=commit("composed"),
        tree=commit("tree"),
        certificates=(),
        entries=("b",),
        issued_at=1.0,
    )
    with pytest.raises(IllegalStep, match="not what was found green"):
        after(state, wrong)


def test_a_trial_left_behind_is_sent_again_as_it_was_composed_first() -> None:
    """The tip has moved since. The request stays the same, because another tree would be of no use."""
    state, sent = on_trial(LANES)
    before = check_request(course(state, LANES), state, state.outstanding()[sent["b"].message_id], now=1.0)
    after(state, green(sent["a"]))
    landed(state, next(one for one in next_of(state) if isinstance(one, LandingIntended)))
    again = check_request(course(state, LANES), state, state.outstanding()[sent["b"].message_id], now=1.0)
    assert (again.base, again.ahead, again.entries) == (before.base, before.ahead, before.entries)
    after(state, MessageLost(message_id=sent["b"].message_id, why="gone"))
    assert [(one.car, one.base) for one in next_of(state) if isinstance(one, CheckSent)] == [(("b",), state.tip)]


def test_with_one_lane_what_was_tried_without_whoever_lands_is_of_no_use() -> None:
    state, sent = on_trial(ONE_LANE)
    assert sent["b"].ahead == ("a",)
    after(state, green(sent["a"]))
    landed(state, next(one for one in next_of(state, ONE_LANE) if isinstance(one, LandingIntended)))
    trial = state.train.line.trials[sent["b"].message_id]
    assert (trial.ahead, trial.behind, state.train.out[trial.id].base) == ((), False, state.tip)


def test_whoever_lands_apart_from_those_the_hub_refused_has_shown_it_by_a_trial_of_its_own() -> None:
    """A third entry was green behind two of different lanes. Those two have not been tried together without it."""
    third = submitted("c").model_copy(update={"paths": ("Makefile",)})
    state, sent = opened(entry("a", "web/a.js"), entry("b", "api/b.py"), third), dict[str, CheckSent]()
    while len(sent) < 3:
        for event in next_of(state, slots=3):
            after(state, event)
            if isinstance(event, CheckSent):
                sent[event.task] = event
    assert sent["c"].ahead == ("a", "b")
    state.train.doubted = {"c"}
    after(state, *(green(sent[one]) for one in "cab"))
    (intent,) = [one for one in next_of(state, slots=3) if isinstance(one, LandingIntended)]
    assert intent.entries == ("a",)
    landed(state, intent)


def test_a_partner_is_searched_only_while_no_entry_waits_for_a_trial() -> None:
    """The search uses a slot, and a returned entry should not delay queued ones."""
    state, sent = on_trial(LANES)
    ask = state.outstanding()[sent["b"].message_id]
    assert check_request(course(state, LANES), state, ask, now=1.0).diagnose
    after(state, entry("c", "api/c.py"))
    assert not check_request(course(state, LANES), state, ask, now=1.0).diagnose


def taken_apart(**said: object) -> tuple[RunState, CarDissolved]:
    """A batch of three, and the event that takes it apart after this answer."""
    state = opened(*(submitted(one) for one in "abc"))
    for one in "abc":
        state.train.line.enter(replace(state.train.line.entries[one], risk=0.01))
    sent = next(one for one in next_of(state, ONE_LANE, slots=1) if isinstance(one, CheckSent))
    after(state, sent)
    assert sent.car == ("a", "b", "c")
    answered = green(sent)
    after(state, answered.model_copy(update={"result": answered.result.model_copy(update=said | {"certificates": ()})}))
    (dissolved,) = next_of(state, ONE_LANE, slots=1)
    assert isinstance(dissolved, CarDissolved)
    after(state, dissolved)
    return state, dissolved


def test_a_suspect_is_tested_alone_and_the_rest_of_its_batch_as_a_whole() -> None:
    state, dissolved = taken_apart(verdict="red", suspects=("b",))
    assert (dissolved.parts, dissolved.suspects) == ((("a", "c"),), ("b",))
    assert state.train.named == (True,)
    trials = [one.car for one in next_of(state, ONE_LANE, slots=2) if isinstance(one, CheckSent)]
    assert trials == [("a", "c"), ("b",)]


@pytest.mark.parametrize(("verdict", "named"), [("red", (False,)), ("conflict", ())])
def test_a_conflict_is_no_red_batch_without_suspects(verdict: str, named: tuple[bool, ...]) -> None:
    """It runs no check, so it makes no later batch shorter."""
    state, _ = taken_apart(verdict=verdict, about="b")
    assert state.train.named == named


def test_a_batch_taken_apart_by_an_earlier_version_is_read_as_it_was() -> None:
    told = '{"kind": "car.dissolved", "car": ["a", "b"], "parts": [["a"], ["b"]], "message_id": "m"}'
    assert CarDissolved.model_validate_json(told).suspects == ()
