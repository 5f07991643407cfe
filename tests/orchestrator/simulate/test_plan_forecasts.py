"""A forecast follows from its inputs, and says where they come from."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from kit import Machine, command, make_repository, write_plan
from plans import check_sent, course, result, review, review_sent, sent, task, verdict
from virtual import terms

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import reason_of_check
from forgepool.orchestrator.journal.events import CheckAnswered, Event, OrderAnswered, ReviewAnswered, TaskReturned
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.run.run_folder import RunOptions, keep, runs_folder
from forgepool.orchestrator.simulate.forecast import Fit, Spread, Wanted, fit, forecast, grounds
from forgepool.orchestrator.simulate.forecast_text import cost_words
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.orders import BuiltinAgent, Limits, Spent
from forgepool.workers.schema.settings import Settings

PLAN = course(task("a", agent=BuiltinAgent()), task("b", duration_s=50.0), task("c"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


def ran(settings: Settings, run: str, events: Sequence[tuple[float, Event]], plan: Plan = PLAN.plan) -> Path:
    """Write the folder of a run with these events at their times."""
    options = RunOptions(run=run, hub="/h", target="t", workers=2, plan_file="/p", plan_file_digest="")
    journal = Journal(keep(settings, options, plan).folder)
    for at, event in events:
        journal.append([event], at=at)
    journal.close()
    return runs_folder(settings) / run


def worked(name: str, seconds: float, usd: float | None = 0.0, outcome: str = "candidate") -> OrderAnswered:
    said = {"started_at": 10.0, "finished_at": 10.0 + seconds, "spent": Spent(cost_usd=usd)}
    return OrderAnswered(task=name, result=result(name, 1, outcome, **said))  # type: ignore[arg-type]


EVENTS: list[tuple[float, Event]] = [
    (0.0, sent("a")),
    (40.0, worked("a", 40.0, usd=0.5)),
    (41.0, worked("b", 20.0)),
    (50.0, check_sent("a")),
    (80.0, CheckAnswered(task="a", result=verdict("a"))),
    (81.0, review_sent("a")),
    (90.0, ReviewAnswered(task="a", result=review("a", spent=Spent(cost_usd=0.1)))),
    (95.0, TaskReturned(task="b", reason=reason_of_check(verdict("b", "red"), TaskState(id="b")))),
]


def test_a_journal_gives_durations_verdicts_and_costs(settings: Settings) -> None:
    """Durations, verdicts and costs belong to their task. Tasks without a cost have no price."""
    ran(settings, "p-1", EVENTS)
    found = fit(settings, PLAN.plan)
    assert found.runs == ["p-1"] and not found.left_out
    assert found.work_s == {"a": [40.0], "b": [20.0]} and found.usd == {"a": [0.5]}
    assert found.took_s == {"check": [30.0], "review": [9.0]} and found.review_usd == [0.1]
    assert (found.share("red", "judged"), found.share("fruitless", "attempts")) == (1.0, 0.0)


def test_another_plans_runs_are_left_out(settings: Settings) -> None:
    """A plan whose name only begins alike is another plan."""
    ran(settings, "p-more-1", EVENTS, PLAN.plan.model_copy(update={"name": "p-more"}))
    assert not fit(settings, PLAN.plan).runs


def test_an_unreadable_journal_does_not_hide_the_others(settings: Settings) -> None:
    """It is named and left out."""
    ran(settings, "p-1", EVENTS)
    (ran(settings, "p-2", []) / "journal.db").write_bytes(b"no journal" * 100)
    (ran(settings, "p-3", []) / "plan.json").write_text("{")
    found = fit(settings, PLAN.plan)
    assert found.runs == ["p-1"]
    assert len(found.left_out) == 2 and all(any(run in one for one in found.left_out) for run in ("p-2", "p-3"))


def test_the_plan_yields_to_earlier_runs_only_if_asked(settings: Settings) -> None:
    """Earlier runs fill gaps in the plan. They replace its own values only with `--from-runs`."""
    ran(settings, "p-1", EVENTS)
    seen = fit(settings, PLAN.plan)
    unasked, asked = (grounds(PLAN, Wanted(from_runs=one), seen) for one in (False, True))
    assert unasked.work_from == {"a": "runs", "b": "plan", "c": "assumed"}
    assert asked.work_from == {"a": "runs", "b": "runs", "c": "assumed"}
    assert unasked.terms.work_s == {"a": (40.0,), "b": (50.0,), "c": (45.0,)}, "c as the median of the others"
    assert asked.terms.work_s["b"] == (20.0,)
    assert (unasked.terms.check_s, unasked.terms.bad) == ((30.0,), 0.08)
    assert (asked.terms.bad, asked.others_from["bad"]) == (1.0, "runs")
    assert not unasked.terms.usd and asked.terms.usd == {"a": (0.5,)}


def test_what_a_person_gives_comes_first() -> None:
    seen = Fit(took_s={"check": [30.0]})  # type: ignore[arg-type]  # a dictionary does as well to read from
    found = grounds(PLAN, Wanted(check_s=7.0, bad=0.5, from_runs=True), seen)
    assert (found.terms.check_s, found.terms.bad) == ((7.0,), 0.5)
    assert found.others_from["check"] == found.others_from["bad"] == "given"


def test_without_anything_known_all_is_said_to_be_assumed() -> None:
    found = grounds(course(task("a")), Wanted(), Fit())
    assert found.terms.work_s == {"a": (600.0,)} and set(found.others_from.values()) == {"assumed"}
    assert found.terms.check_s == (60.0,)


def test_the_range_is_of_the_runs_played() -> None:
    """The median and both ends are values of simulated runs."""
    assert Spread.of([float(one) for one in range(1, 21)]) == Spread(p5=1.0, median=10.0, p95=19.0)
    assert Spread.of([7.0]) == Spread(p5=7.0, median=7.0, p95=7.0)
    plan = course(*(task(f"t{at}", files=(str(at % 3),)) for at in range(9)))
    found = forecast(plan, terms(plan, bad=0.3), seeds=12)
    assert found.seeds == 12 and found.middle.makespan_s == found.makespan_s.median == found.bounds.makespan_s
    assert found.makespan_s.p5 < found.makespan_s.p95


def priced(**said: object) -> PlanIndex:
    return course(*(task(one, agent=BuiltinAgent(), **said) for one in "ab"), review="none")


def test_an_unknown_cost_is_not_priced() -> None:
    """An unknown cost is reported as unknown. Limits and budgets give an upper bound."""
    free, unlimited, limited = course(task("a")), priced(), priced(limits=Limits(cost_usd=2.5))
    assert cost_words(free, forecast(free, terms(free), seeds=1)).startswith("0 USD")
    words = cost_words(unlimited, forecast(unlimited, terms(unlimited), seeds=1))
    assert words.startswith("unknown") and "no upper bound" in words
    words = cost_words(limited, forecast(limited, terms(limited), seeds=1))
    assert words.startswith("unknown") and "at most 5.00 USD" in words


def test_what_earlier_runs_have_cost_is_added_up() -> None:
    plan = priced(limits=Limits(cost_usd=2.5))
    known = forecast(plan, terms(plan, usd={"a": (0.5,), "b": (0.25,)}), seeds=1)
    assert cost_words(plan, known) == (
        "0.75 to 0.75 USD (5-95 %), 0.75 USD in the middle; "
        "at most 5.00 USD, which is what limits reserve in the dearest of these runs"
    )
    half = forecast(plan, terms(plan, usd={"a": (0.5,)}), seeds=1)
    assert "unknown for 1 of 2 attempts" in cost_words(plan, half)


def test_a_budget_lets_no_more_pass_than_it_caps() -> None:
    """With known costs the budget holds: a task that it does not cover is parked."""
    plan = course(*(task(f"t{at}", agent=BuiltinAgent()) for at in range(6)), review="none", budget={"usd": 2.0})
    rich, poor = (terms(plan, usd={f"t{at}": (usd,) for at in range(6)}) for usd in (0.1, 1.0))
    assert forecast(plan, rich, seeds=1).all_landed == 1
    found = forecast(plan, poor, seeds=1)
    assert not found.all_landed and found.known_usd.median <= 2.0 and found.most_usd == 2.0


def test_a_run_keeps_its_forecast_and_is_compared_with_it(tmp_path: Path, redis_program: str) -> None:
    """A first run has nothing to go by. The next one is forecast from it, without the tasks that are done."""
    hub = make_repository(tmp_path / "hub", {"README.md": "hello\n"})
    machine = Machine(folder=tmp_path / "m", name="host-1")
    machine.folder.mkdir()
    tasks = [{"id": one, "files": [f"{one}.txt"], "agent": command(f"date > {one}.txt")} for one in "ab"]
    plan = {"name": "p", "target": "t", "checks": [{"name": "readme", "run": "test -f README.md"}], "tasks": tasks}
    written = write_plan(machine.folder, plan)
    found = []
    for more in ([], ["--again"], []):
        ran = machine.run("run", written, "--repo", hub.path, *more)
        assert ran.status == 0, ran
        run = max(machine.runs(), key=lambda one: (machine.home / "runs" / one).stat().st_mtime)
        found += [[one.event for one in machine.journal(run) if one.event.kind == "run.forecast"]]
        if more:
            compared = machine.run("report", run).out.partition("## Forecast")[2].splitlines()
            assert re.fullmatch(r"- time: .* s \(.* s to .* s\) was forecast, .* s was taken", compared[2]), compared
            assert machine.run("report", run, "--json").answer["forecast"] == [compared[2].removeprefix("- ")]
            assert "forecast from 1 earlier run: " in machine.run("events", run).out
    first, (forecast_of_second,), third = found
    assert not first and not third, "nothing was left to be done in the third"
    assert sorted(forecast_of_second.spans) == ["a", "b"] and len(forecast_of_second.runs) == 1
    assert 0 < forecast_of_second.seconds[0] <= forecast_of_second.seconds[1] <= forecast_of_second.seconds[2]
