"""
Context profiles in a run: chosen in the plan or by a person, switched during the run, and recorded in the journal.
"""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import warm
from plans import RUN, answered, begun, course, follow, queued, sent, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal.events import (
    ContextRebuilt,
    Event,
    MessageTaken,
    ProfileChosen,
    RunEnded,
    RunStarted,
    TaskCancelled,
    TaskFailed,
    TaskParked,
)
from forgepool.orchestrator.journal.inbox import PersonRequest, waiting
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.plan.document import Plan, PlanWrong, parse_plan
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.dispatch import order
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions, keep
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.workers.context.profile_switch import ContextTold
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack, ScriptedAgent
from forgepool.workers.schema.settings import Settings

ONE = course(
    task("a", agent=BuiltinAgent()), task("b", agent=ScriptedAgent(script="turns: []")), task("c"), task("d", "a")
)
TOLD = ContextTold(
    order_id="r-1.a.1",
    token="t",
    profile="ledger",
    why="what is dropped outweighs what is kept",
    changed=True,
    before_tokens=40_000,
    after_tokens=10_000,
    window_tokens=200_000,
    calls=0,
    cost_usd=0.0,
    dropped=(1, 2, 3),
    archive="/tmp/x/outputs/steps",
)
FAILED = TaskFailed(task="a", reason=ReasonPack(attempt=1, kind="no_change", summary="s"))


def chosen(request: PersonRequest, *before: Event) -> list[str]:
    return [f"{one.task} {one.profile}" for one in grant_request(ONE, begun(ONE, *before), request)]  # type: ignore[union-attr]  # all are ProfileChosen


def test_a_profile_is_chosen_for_tasks_whose_conversation_is_led_here() -> None:
    """A request names all tasks or one. Commands and unknown tasks have no profile."""
    assert chosen(PersonRequest(do="context", text="pace")) == ["a pace", "b pace"]
    assert chosen(PersonRequest(do="context", task="b", text="pace"), sent("a")) == ["b pace"]
    assert chosen(PersonRequest(do="context", task="c", text="pace")) == []
    assert chosen(PersonRequest(do="context", task="nobody", text="pace")) == []


@pytest.mark.parametrize(
    ("over", "end"),
    [
        (True, [TaskCancelled(task="a")]),
        (True, [sent("a"), answered("a", 1, "no_change"), FAILED]),
        (False, [sent("a"), answered("a"), queued("a")]),
        (False, [sent("a"), answered("a", 1, "needs_human"), TaskParked(task="a", question="which?", why="question")]),
    ],
)
def test_a_task_that_is_over_has_no_profile_to_choose(over: bool, end: list[Event]) -> None:
    """A task that waits for a person will continue, so it has one."""
    request = PersonRequest(do="context", task="a", text="pace")
    assert chosen(request, *end) == ([] if over else ["a pace"])
    if over:
        with pytest.raises(IllegalStep):
            follow(begun(ONE, *end), ProfileChosen(task="a", profile="pace"))


def test_what_a_person_chose_is_in_every_order_from_then_on() -> None:
    state = begun(ONE, sent("a"))
    first = order(ONE, state, state.tasks["a"], state.outstanding()["r-1.a.1"], now=1.0, resent=False)
    follow(state, ProfileChosen(task="a", profile="pace"), ProfileChosen(task="a", profile="off"))
    again = order(ONE, state, state.tasks["a"], state.outstanding()["r-1.a.1"], now=2.0, resent=True)
    assert (first.context, again.context) == (None, "off")


def test_a_rebuild_is_journaled_with_all_that_was_told_of_it() -> None:
    """Only a rebuild of the current attempt is journaled, and none of a finished or fenced one."""
    state = begun(ONE, sent("a"))
    (event,) = receive_answer(ONE, state, TOLD)
    assert event == ContextRebuilt(task="a", attempt=1, **TOLD.model_dump(exclude={"kind", "order_id", "token"}))
    follow(state, event)
    assert state.tasks["a"].rebuilds == 1
    assert receive_answer(ONE, state, TOLD.model_copy(update={"token": "other"})) == []
    assert receive_answer(ONE, state, TOLD.model_copy(update={"order_id": "r-1.b.1"})) == []
    follow(state, answered("a"))
    assert receive_answer(ONE, state, TOLD) == []


def test_a_running_task_shows_how_full_its_context_is() -> None:
    """A later attempt begins with an empty one, and no line of the run tells of a share alone."""
    filled = TOLD.model_copy(update={"changed": False, "why": "", "before_tokens": 46_000, "after_tokens": 46_000})
    state = begun(ONE, sent("a"), MessageTaken(message_id="r-1.a.1", host="host", pid=1))
    (event,) = receive_answer(ONE, state, filled)
    assert sentence(event) is None
    follow(state, event)
    shown = standing(ONE, state, now=1e3, live=True).tasks[0]
    assert (shown.detail, shown.context) == ("host/1, context 23%", 0.23)
    follow(state, answered("a", 1, "infrastructure"), *decide(ONE, state, now=1e6, order_slots=0, draining=False))
    assert standing(ONE, state, now=1e3, live=True).tasks[0].context is None


def test_what_changed_nothing_does_not_count_as_a_rebuild() -> None:
    state = begun(ONE, sent("a"))
    follow(state, *receive_answer(ONE, state, TOLD.model_copy(update={"changed": False})))
    assert state.tasks["a"].rebuilds == 0


def test_how_often_a_running_task_was_rebuilt_is_shown_beside_it() -> None:
    state = begun(ONE, sent("a"))
    state.tasks["a"].holder = "host:1"
    follow(state, *receive_answer(ONE, state, TOLD))
    (shown, *_) = standing(ONE, state, now=100.0, live=True).tasks
    assert shown.detail == "host:1, context 5%, rebuilt 1 time"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "a: context rebuilt (ledger): 40,000 -> 10,000 tokens, 20% -> 5% of the window, 3 steps left out"),
        (
            {"calls": 1, "cost_usd": 0.01, "dropped": (7,)},
            "a: context rebuilt (ledger): 40,000 -> 10,000 tokens, 20% -> 5% of the window, 1 step left out, "
            "1 call to a model, 0.0100 USD",
        ),
        (
            {"changed": False, "why": "no summary: it was empty", "calls": 2, "cost_usd": None, "dropped": ()},
            "a: context stays as it is (ledger): no summary: it was empty, 2 calls to a model, cost unknown",
        ),
    ],
)
def test_a_rebuild_is_one_line(changes: dict[str, object], said: str) -> None:
    (event,) = receive_answer(ONE, begun(ONE, sent("a")), TOLD.model_copy(update=changes))
    assert sentence(event) == said


def _plan(text: str) -> Plan:
    return parse_plan(text, "plan.yaml", Path("/nowhere"), lambda: ())


def test_a_plan_names_the_profile_for_a_task_or_for_all() -> None:
    tasks = _plan(
        "version: 1\nname: p\nchecks: none\ndefaults:\n  agent: {builtin: {context: pace}}\n"
        "tasks:\n  - id: a\n  - id: b\n    agent: {builtin: {context: ledger-safe}}\n"
    ).tasks
    assert [one.agent for one in tasks] == [BuiltinAgent(context="pace"), BuiltinAgent(context="ledger-safe")]


def test_a_plan_with_an_unknown_profile_is_refused_with_its_line() -> None:
    """The sentence names the nearest profile, and nothing runs."""
    head = "version: 1\nname: p\nchecks: none\ntasks:\n"
    with pytest.raises(PlanWrong) as wrong:
        _plan(f"{head}  - id: a\n    agent:\n      builtin:\n        context: ledgre\n")
    (mistake,) = wrong.value.mistakes
    assert mistake.startswith("plan.yaml:8: ") and "there is no context profile 'ledgre'; write 'ledger'" in mistake


@pytest.fixture
def home(tmp_path: Path) -> KeptRun:
    """A run that can still be resumed."""
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    options = RunOptions(run=RUN, hub="/nowhere", target="t", workers=1, plan_file="p.yaml", plan_file_digest="")
    kept = keep(settings, options, ONE.plan)
    steps = (
        RunStarted(run=RUN, plan_digest="d", hub="/nowhere", target="t", tip="c0"),
        sent("a"),
        TaskCancelled(task="b"),
    )
    with closing(Journal(kept.folder)) as journal:
        journal.append(steps, at=100.0)
    return kept


Forgepool = Callable[..., tuple[int, str, str]]


@pytest.fixture
def forgepool(home: KeptRun) -> Forgepool:
    def go(*argv: str) -> tuple[int, str, str]:
        env = {**os.environ, "FORGEPOOL_HOME": str(home.folder.parents[1])}
        ran = warm.forgepool(argv, env=env, cwd=Path(__file__).parents[3])
        return ran.returncode, ran.stdout, ran.stderr

    return go


def test_a_run_nobody_leads_now_has_it_in_its_journal(home: KeptRun, forgepool: Forgepool) -> None:
    status, out, err = forgepool("context", "use", "ghost", RUN)
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "a: context profile is now 'ghost'"
    assert f"forgepool resume {RUN}" in out
    assert home.state().tasks["a"].profile == "ghost"


def test_a_run_under_way_finds_it_in_its_inbox(home: KeptRun, forgepool: Forgepool) -> None:
    with closing(Journal(home.folder)):
        status, out, err = forgepool("context", "use", "off", RUN, "a")
    assert (status, err) == (0, "") and f"asked run {RUN} to use the context profile 'off' for 'a'" in out
    ((_, request),) = waiting(home.folder)
    assert request == PersonRequest(do="context", task="a", text="off")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("ledgre", RUN), ("no context profile 'ledgre'", "write 'ledger'")),
        (("pace", RUN, "e"), ("has no task 'e'", "a, b, c, d")),
        (("pace", RUN, "b"), ("'b' of run r-1 is cancelled",)),
        (("pace", RUN, "c"), ("'c' of run r-1 runs another program (agent: command)",)),
        (("pace", "nothing"), ("there is no run 'nothing'",)),
    ],
)
def test_what_cannot_be_chosen_is_refused_in_one_sentence(
    home: KeptRun, forgepool: Forgepool, argv: tuple[str, ...], words: tuple[str, ...]
) -> None:
    status, out, err = forgepool("context", "use", *argv)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert all(word in err for word in words), err
    assert home.state().tasks["a"].profile == ""


def test_a_run_that_has_ended_is_refused(home: KeptRun, forgepool: Forgepool) -> None:
    ended = [TaskCancelled(task=one) for one in ("a", "c", "d")]
    with closing(Journal(home.folder)) as journal:
        journal.append([*ended, RunEnded(landed=0, not_landed=4)], at=101.0)
    status, _, err = forgepool("context", "use", "pace", RUN)
    assert status == 2 and "no task of run r-1 has a conversation" in err and err.count("\n") == 1
