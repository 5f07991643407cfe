"""The forecast names the limit of a plan's time, in plans where the answer is known."""

from typing import Any

import pytest
from plans import course, task
from virtual import terms

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.entries import GateOptions, PlanReview, Wave
from forgepool.orchestrator.simulate.bounds import BoundsWatch, LockWait, PlanBounds, bounds
from forgepool.orchestrator.simulate.forecast import forecast
from forgepool.orchestrator.simulate.forecast_text import lock_words, path_words
from forgepool.orchestrator.simulate.run import play
from forgepool.supervisor.messages.requests import ReviewPolicy

CHAIN = course(task("a"), task("b", "a"), task("c", "b"))
ONE_FILE = course(*(task(f"t{one}", files=("src/x",)) for one in range(4)))
APART = course(*(task(f"t{one}", files=(f"src/{one}",)) for one in range(8)))
MANY = course(*(task(f"t{one}", files=(f"src/{one}",)) for one in range(16)))


def bound(of: PlanIndex, seed: int = 1, **said: Any) -> PlanBounds:
    told = terms(of, **said)
    look = BoundsWatch(index=of, terms=told)
    return bounds(of, look, play(of, told, seed, watch=look))


def test_a_chain_is_bound_by_its_path() -> None:
    """Every second is work, testing or landing, and the chain is named from its first task to its last."""
    found = bound(CHAIN)
    assert found.by == "path" and found.seconds == {"path": 483.0}
    assert found.path == (("a", 161.0), ("b", 161.0), ("c", 161.0))
    assert found.path_at == {"working": 300.0, "testing": 180.0, "landing": 3.0}
    assert path_words(found).startswith("a (2.7 min) -> b (2.7 min) -> c (2.7 min): 8.1 min")
    assert found.chain == found.path and lock_words(found) == "no task waited for one"


def test_tasks_of_one_file_are_bound_by_its_lock() -> None:
    """Each wait is reported with the task that held the lock, the seconds and the globs."""
    found = bound(ONE_FILE, workers=4)
    assert found.by == "lock" and found.seconds == {"lock": 3 * 161.0, "path": 161.0}
    assert sum(one.seconds for one in found.lock_waits) == (1 + 2 + 3) * 161.0
    assert LockWait(task="t3", holder="t0", seconds=161.0, globs=("src/x", "src/x")) in found.lock_waits
    assert lock_words(found).startswith("3 tasks waited 16.1 min in all")
    assert "'src/x' meets its 'src/x'" in lock_words(found)


def test_many_tasks_of_one_worker_are_bound_by_workers() -> None:
    """The worker is busy until the last attempt is answered, and a second worker saves time."""
    found = bound(APART, workers=1, work_s=1000.0)
    assert found.by == "workers" and found.seconds["workers"] == 7000.0
    assert found.all_busy == pytest.approx(8000.0 / found.makespan_s)
    assert found.crowded == 0.0
    predicted = forecast(APART, terms(APART, workers=1, work_s=1000.0), seeds=20)
    assert predicted.seeds == 1, "nothing is random, so one seed is enough"
    assert (predicted.makespan_s.median, predicted.with_one_more.median) == (8061.0, 4061.0)


def test_short_tasks_with_long_checks_are_bound_by_checks() -> None:
    """All trials run while entries wait, most of the time."""
    found = bound(MANY, workers=16, work_s=10.0, check_s=(1000.0,))
    assert found.by == "checks" and found.seconds["checks"] >= 2000.0
    assert found.crowded > 0.6 and found.all_busy < 0.01


def test_with_enough_workers_and_trials_the_path_binds() -> None:
    """The same plan as above, with as many trials as tasks."""
    found = bound(MANY, workers=16, trials=16, work_s=10.0, check_s=(1000.0,))
    assert found.by == "path"


def test_the_checks_of_the_target_at_the_end_are_part_of_the_path() -> None:
    plan = course(task("a"), gate=GateOptions(wave=Wave()))
    found = bound(plan)
    assert found.seconds == {"path": 100 + 60 + 1 + 60} and found.path_at["wave"] == 60


def test_a_review_of_what_has_landed_comes_behind_these_checks() -> None:
    gate = GateOptions(wave=Wave(), integration_review="end")
    plan = course(task("a"), task("b"), gate=gate, review=PlanReview(policy=ReviewPolicy(script="x")))
    found = bound(plan, review_s=(30.0,))
    assert found.path_at["wave"] == 60 + 30


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_second_of_the_run_is_counted_once(seed: int) -> None:
    """This holds although attempts fail and trials are red."""
    plan = course(
        *(task(f"t{at}", *([f"t{at - 2}"] if at > 2 else []), files=(f"m{at % 4}",)) for at in range(16)),
    )
    found = bound(plan, seed, bad=0.3, fruitless=0.2, workers=2)
    assert sum(found.seconds.values()) == pytest.approx(found.makespan_s)
    assert sum(found.path_at.values()) == pytest.approx(found.path_s)
    assert found.chain_s <= found.makespan_s + 1e-6
    assert 0 <= found.again_s <= found.path_s and 0 <= found.all_busy <= 1 and 0 <= found.crowded <= 1


def test_returned_attempts_are_part_of_the_path() -> None:
    """Their seconds are also reported separately."""
    plan = course(task("a", attempts=2))
    found = bound(plan, bad=1.0)
    assert found.again_s == 100 + 2 * 60 and found.path_s == 2 * (100 + 2 * 60)


def test_the_longest_chain_need_not_be_the_one_that_ends_last() -> None:
    """With too few workers, the task that ends last may be outside it."""
    plan = course(task("a", files=("a",)), task("b", "a", files=("b",)), task("z", files=("z",), priority=-1))
    found = bound(plan, workers=1)
    assert found.chain == (("a", 161.0), ("b", 161.0)) and found.chain_s == 322.0
