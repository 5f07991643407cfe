"""Runs that share hosts share their order slots by weight, and tell one another what they have under way."""

from collections.abc import Sequence
from typing import Any

import pytest
from plans import answered, begun, course, sent, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.journal.events import PathsAsked, PathsGranted
from forgepool.orchestrator.plan.overlap import Globs
from forgepool.orchestrator.run.neighbours.other_runs import (
    describe_run,
    find_paths_elsewhere,
    name_hub,
    share_of_slots,
)
from forgepool.workers.queue.run_presence import RunPresence


def run(name: str, *, weight: int = 1, running: int = 0, waiting: int = 0, **said: Any) -> RunPresence:
    fields = {"hub": "/hub", "target": "t"} | said
    return RunPresence(run=name, weight=weight, running=running, waiting=waiting, **fields)


def shares(slots: int, *runs: RunPresence) -> list[int]:
    """Return the share of each of the runs, as each finds it."""
    return [share_of_slots(slots, one.run, one.weight, runs) for one in runs]


@pytest.mark.parametrize(
    ("weights", "slots", "expected"),
    [
        ((1,), 8, [8]),
        ((3, 1), 8, [6, 2]),
        ((3, 1), 4, [3, 1]),
        ((1, 1), 5, [3, 2]),
        ((1, 1, 1), 2, [1, 1, 1]),
        ((1000, 1), 4, [3, 1]),
        ((5, 3, 1), 100, [56, 33, 11]),
        ((3, 1), 0, [0, 0]),
    ],
)
def test_slots_are_shared_by_weight_and_each_run_has_one(
    weights: Sequence[int], slots: int, expected: list[int]
) -> None:
    runs = [run(name, weight=weight, waiting=1000) for name, weight in zip("abc", weights, strict=False)]
    assert shares(slots, *runs) == expected


def test_a_run_alone_has_all_slots_and_so_it_has_beside_runs_that_want_none() -> None:
    assert share_of_slots(8, "a", 1, [run("idle", weight=9), run("ended", weight=9)]) == 8
    assert share_of_slots(8, "a", 1, [run("busy", weight=9, running=2)]) == 6, "what it uses is not taken from it"


def test_the_part_of_a_share_that_a_run_cannot_use_goes_to_the_others_by_weight() -> None:
    runs = [run("a", weight=6, running=1, waiting=1), run("b", weight=2, waiting=99), run("c", weight=1, waiting=99)]
    assert share_of_slots(11, "b", 2, runs) == 6 and share_of_slots(11, "c", 1, runs) == 3


def test_a_run_that_has_more_than_its_share_keeps_it_and_starts_nothing_more() -> None:
    first = run("a", running=8)
    assert shares(8, first, run("b", waiting=8)) == [4, 4]
    of = course(*(task(f"t{at}", files=[f"f{at}"]) for at in range(9)))
    state = begun(of, *(sent(f"t{at}") for at in range(8)))
    assert decide(of, state, now=100.0, order_slots=4, check_slots=0, draining=False) == []


@pytest.mark.parametrize("slots", range(1, 40))
def test_all_runs_together_use_every_slot_and_no_more(slots: int) -> None:
    runs = [run(name, weight=weight, waiting=1000) for name, weight in (("a", 7), ("b", 2), ("c", 1), ("d", 4))]
    found = shares(slots, *runs)
    assert sum(found) == max(slots, 4) and min(found) >= 1


def test_a_run_tells_what_it_has_under_way_and_nothing_of_what_only_waits() -> None:
    of = course(task("a", files=["src/*.py"]), task("b", files=["odd [x]"]), task("c", files=["c"]), scope="extend")
    ask = {"task": "a", "attempt": 1, "number": 1, "paths": ("docs/[x].md",)}
    asked = (PathsAsked.model_validate(ask), PathsGranted.model_validate(ask))
    state = begun(of, sent("a"), sent("b"), *asked, answered("b", paths=["odd x"]))
    said = describe_run(of, state, weight=3, waiting=7)
    assert (said.weight, said.running, said.waiting) == (3, 1, 7)
    assert said.paths == ("src/*.py", "docs/[[]x].md", "odd [x]")
    assert find_paths_elsewhere(state, [said]) == {}, "it is its own"
    (paths,) = find_paths_elsewhere(begun(of), [said.model_copy(update={"run": "other"})]).values()
    assert paths.covers("docs/[x].md") and paths.covers("src/a.py") and not paths.covers("c")


def test_paths_count_on_the_same_target_of_the_same_hub_only_and_what_is_no_glob_is_left_out() -> None:
    state = begun(course(task("a")))
    runs = [
        run("same", paths=("x", "../out", "", "y")),
        run("target", target="main", paths=("x",)),
        run("hub", hub="/elsewhere", paths=("x",)),
        run("idle"),
    ]
    assert find_paths_elsewhere(state, runs) == {"same": Globs.of(["x", "y"])}


@pytest.mark.parametrize(
    "url",
    ["ssh://git@host/a/b.git", "ssh://host/a/b", "git@host:a/b.git", "host:/a/b/", "ssh://user:secret@host/a/b.git/"],
)
def test_one_hub_has_one_name_whatever_way_it_is_written(url: str) -> None:
    assert name_hub(url) == "ssh://host/a/b"
    assert name_hub("file:///srv/a.git") == "/srv/a" == name_hub("/srv/a.git/")
    assert name_hub("https://t:x@host:8443/a.git") == "https://host:8443/a"
