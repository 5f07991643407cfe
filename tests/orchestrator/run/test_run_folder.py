"""A run is found by its name or the beginning of it, and uses figures of earlier runs."""

import os
from pathlib import Path

import pytest
from plans import course, result, task

from forgepool.orchestrator.journal.events import OrderAnswered, RunPaused, TaskRetried, TaskReturned
from forgepool.orchestrator.journal.inbox import PersonRequest, discard, leave, waiting
from forgepool.orchestrator.journal.store import Journal, JournalUnreadable
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.run_folder import NoSuchRun, RunOptions, learn_from_runs
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack, Spent
from forgepool.workers.schema.settings import Settings

PLAN: Plan = course(task("a"), task("b", duration_s=5)).plan


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


def keep(
    settings: Settings, run: str, age_s: float = 0.0, *, plan_file: Path | None = None, plan: Plan = PLAN
) -> run_folder.KeptRun:
    file = plan_file or settings.home
    digest = run_folder.file_digest(file) if file.is_file() else ""
    options = RunOptions(run=run, hub="/h", target="t", workers=2, plan_file=str(file), plan_file_digest=digest)
    kept = run_folder.keep(settings, options, plan)
    os.utime(kept.folder / "options.json", (1e9 - age_s, 1e9 - age_s))
    return kept


def test_a_run_is_found_by_its_name_a_beginning_or_for_being_the_latest(settings: Settings) -> None:
    for age, run in enumerate(("p-2", "p-1", "p-11", "q-1")):
        keep(settings, run, age)
    assert list(run_folder.run_names(settings)) == ["p-2", "p-1", "p-11", "q-1"]
    assert run_folder.find(settings, None).options.run == "p-2"
    assert run_folder.find(settings, "q").options.run == "q-1"
    assert run_folder.find(settings, "p-1").options.run == "p-1", "its whole name, though another begins with it"
    with pytest.raises(NoSuchRun, match="several runs 'p'; the latest are: p-2, p-1, p-11"):
        run_folder.find(settings, "p")
    with pytest.raises(NoSuchRun, match="no run 'x'; the latest are: p-2"):
        run_folder.find(settings, "x")


def test_without_any_run_it_is_said_how_to_start_one(settings: Settings) -> None:
    with pytest.raises(NoSuchRun, match="forgepool run PLAN"):
        run_folder.find(settings, None)


def test_a_kept_run_is_read_as_it_was(settings: Settings) -> None:
    kept = keep(settings, "p-1")
    again = run_folder.find(settings, "p-1")
    assert (again.options, again.plan) == (kept.options, PLAN)
    run_folder.with_options(again, again.options.model_copy(update={"workers": 7}))
    assert run_folder.find(settings, "p-1").options.workers == 7


def test_a_run_whose_folder_is_damaged_is_refused(settings: Settings) -> None:
    kept = keep(settings, "p-1")
    (kept.folder / "plan.json").write_text("{")
    with pytest.raises(JournalUnreadable, match="is not a whole run"):
        run_folder.find(settings, "p-1")


def test_a_plan_file_that_was_edited_since_is_noticed(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("one")
    kept = keep(settings, "p-1", plan_file=file)
    assert not kept.plan_file_changed()
    file.write_text("another")
    assert kept.plan_file_changed()


def test_run_ids_begin_with_the_plans_name_and_differ() -> None:
    made = {run_folder.new_run_id("p" * 60) for _ in range(50)}
    assert len(made) > 1 and all(one.startswith("p" * 40 + "-") for one in made)


def test_durations_are_the_median_of_candidates_of_earlier_runs(settings: Settings) -> None:
    for number, seconds in enumerate((1.0, 9.0, 2.0)):
        journal = Journal(keep(settings, f"p-{number}").folder)
        took = result("a").model_copy(update={"started_at": 10.0, "finished_at": 10.0 + seconds})
        failed = result("a", 1, "agent_failed").model_copy(update={"started_at": 0.0, "finished_at": 900.0})
        journal.append([OrderAnswered(task="a", result=took), OrderAnswered(task="a", result=failed)], at=1.0)
        journal.close()
    assert learn_from_runs(settings, PLAN).learned_s == {"a": 2.0}


def test_the_use_of_finished_tasks_is_learned_by_kind_of_work(settings: Settings) -> None:
    """Attempts without a candidate count for nothing, and neither do commands, which use nothing."""
    kinds = [task("a", agent=BuiltinAgent(model="m")), task("d", type="docs", agent=BuiltinAgent()), task("c")]
    plan = course(*kinds, budget=Budget(usd=9.0)).plan
    journal = Journal(keep(settings, "p-1", plan=plan).folder)
    cheap, dear = Spent(input_tokens=5, cost_usd=0.1), Spent(input_tokens=9, cost_usd=0.7)
    results = [result("a", spent=cheap), result("a", 1, "agent_failed", spent=dear), result("d", spent=dear)]
    names = ("a", "a", "d", "c")
    events = [OrderAnswered(task=name, result=one) for name, one in zip(names, [*results, result("c")], strict=True)]
    journal.append(events, at=1.0)
    journal.close()
    assert learn_from_runs(settings, plan).learned_use == {"code m": [cheap], "docs ": [dear]}


def test_use_is_learned_for_the_model_that_a_ladder_had_reached(settings: Settings) -> None:
    """A later plan of the run may have had a longer ladder. A retry begins at the first model again."""
    climbing = task("a", agent=BuiltinAgent(model="m-1"), ladder=("m-1", "m-2"), attempts=3)
    plan = course(climbing, budget=Budget(usd=9.0)).plan
    journal = Journal(keep(settings, "p-1", plan=plan).folder)
    red = ReasonPack(attempt=1, kind="check_failed", summary="red")
    used = [Spent(input_tokens=number, cost_usd=0.1) for number in (1, 2, 3)]
    made = [OrderAnswered(task="a", result=result("a", number, spent=each)) for number, each in enumerate(used, 1)]
    beyond = TaskReturned(task="a", reason=red, rung=9)
    journal.append([made[0], beyond, made[1], TaskRetried(task="a"), made[2]], at=1.0)
    journal.close()
    assert learn_from_runs(settings, plan).learned_use == {"code m-1": [used[0], used[2]], "code m-2": [used[1]]}


def test_durations_are_not_learned_from_another_plan_whose_name_begins_alike(settings: Settings) -> None:
    other = PLAN.model_copy(update={"name": "p-more"})
    for run, plan, seconds in (("p-1", PLAN, 3.0), ("p-more-1", other, 50.0), ("p-more-2", other, 60.0)):
        journal = Journal(keep(settings, run, plan=plan).folder)
        took = result("a").model_copy(update={"started_at": 10.0, "finished_at": 10.0 + seconds})
        journal.append([OrderAnswered(task="a", result=took)], at=1.0)
        journal.close()
    (run_folder.runs_folder(settings) / "p-torn").mkdir()
    assert learn_from_runs(settings, PLAN).learned_s == {"a": 3.0}


def test_a_run_that_cannot_be_read_teaches_nothing_and_hinders_nothing(settings: Settings) -> None:
    (keep(settings, "p-1").folder / "journal.db").write_bytes(b"no database" * 99)
    assert learn_from_runs(settings, PLAN).learned_s == {}


def test_a_run_is_replayed_from_its_journal(settings: Settings) -> None:
    kept = keep(settings, "p-1")
    journal = Journal(kept.folder)
    journal.append([RunPaused(why="x")], at=5.0)
    journal.close()
    state, recorded = kept.replay()
    assert (state.number, state.at, len(recorded)) == (1, 5.0, 1)
    assert set(state.tasks) == {"a", "b"}


def test_a_journal_that_tells_what_cannot_be_is_refused(settings: Settings) -> None:
    kept = keep(settings, "p-1")
    journal = Journal(kept.folder)
    journal.append([OrderAnswered(task="a", result=result("a", 1, "agent_failed"))], at=5.0)
    journal.close()
    with pytest.raises(JournalUnreadable, match="tells what cannot be"):
        kept.state()


def test_a_cancel_that_came_too_late_is_thrown_away_and_what_reopens_the_run_is_kept(tmp_path: Path) -> None:
    assert discard(tmp_path) == 0
    for do in ("cancel", "retry", "answer"):
        leave(tmp_path, PersonRequest.model_validate({"do": do, "task": "a"}))
    assert discard(tmp_path) == 1
    assert sorted(request.do for _, request in waiting(tmp_path)) == ["answer", "retry"]


def test_requests_are_taken_in_the_order_they_were_left(tmp_path: Path) -> None:
    assert list(waiting(tmp_path)) == []
    for number, name in enumerate(("a", "b", None)):
        leave(tmp_path, PersonRequest(do="cancel", task=name))
        for path, request in waiting(tmp_path):
            if request.task == name:
                os.utime(path, (number, number))
    assert [request.task for _, request in waiting(tmp_path)] == ["a", "b", None]
