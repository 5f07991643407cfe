"""Entries that are green alone and red together do not both land, and a target that is already red is reported."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from semantic import BY_STATUS, BY_TEST, Road, Work, red_without_a_gate, stream

LANDINGS, PAIRS = 40, 10
WRONG = Work(name="wrong", files={"parts/wrong": "use nothing\n"})
MENDED = Work(name="mended", files={"parts/old": "def old\n"})
HARMLESS = Work(name="harmless", files={"parts/harmless": "id 77\n"})
POISON = {"parts/old": "use what-is-gone\n"}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sem-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def by_test(folder: Path) -> Road:
    """Return a target of one part, whose check reports each part as a test."""
    road = Road(folder=folder, check=BY_TEST)
    road.begin(stream(1, 0)[0])
    return road


@pytest.fixture
def by_status(folder: Path) -> Road:
    """Return the same with a check that reports only an exit status."""
    road = Road(folder=folder, check=BY_STATUS)
    road.begin(stream(1, 0)[0])
    return road


def test_no_commit_of_the_target_is_red_with_what_was_green_alone(folder: Path) -> None:
    """The check runs again on every landed commit, outside the gate."""
    start, windows = stream(LANDINGS, PAIRS)
    assert red_without_a_gate(start, windows) > PAIRS, "the stream must be able to make a target red"
    road = Road(folder=folder, check=BY_STATUS)
    road.begin(start)
    road.drive(windows)
    assert road.red_commits() == []
    every = [work for window in windows for work in window]
    assert road.landed == [work.name for work in every if work.partner is None]
    assert len(road.landed) == LANDINGS
    partners = {name: (found.verdict, found.partner) for name, found in road.refused.items()}
    assert partners == {work.name: ("red", work.partner) for work in every if work.partner}


def test_the_count_of_red_commits_can_be_other_than_nought(by_status: Road) -> None:
    """A person pushes a broken commit past the gate, and it is counted."""
    poison = by_status.commit("main", POISON, on=by_status.tip())
    assert by_status.red_commits() == [poison]


def test_a_target_red_by_test_ids_stops_only_what_breaks_more(by_test: Road) -> None:
    by_test.commit("main", POISON, on=by_test.tip())
    harmless = by_test.offer(HARMLESS, on=by_test.tip())
    assert harmless.verdict == "green" and any("old" in name for name in harmless.red_base), harmless
    assert any("old" in name for one in harmless.certificates for name in one.known_failures)
    wrong = by_test.offer(WRONG, on=by_test.tip())
    assert wrong.verdict == "red", wrong
    assert [[name for name in one.tests if "old" in name] for one in wrong.failures] == [[]]
    assert any("wrong" in name for one in wrong.failures for name in one.tests)
    assert by_test.landed == ["harmless"]


def test_who_mends_a_red_target_lands_and_then_it_is_red_no_more(by_test: Road) -> None:
    by_test.commit("main", POISON, on=by_test.tip())
    by_test.offer(MENDED, on=by_test.tip())
    assert by_test.landed == ["mended"]
    after = by_test.offer(HARMLESS, on=by_test.tip())
    assert (after.verdict, after.red_base, by_test.red_commits()[1:]) == ("green", (), [])
    assert [one.known_failures for one in after.certificates] == [()]


def test_a_target_that_turns_red_under_way_blames_nobody_who_did_not_do_it(by_test: Road) -> None:
    """The entry is made on a green tip and examined on a red one."""
    green = by_test.tip()
    by_test.commit("main", POISON, on=green)
    found = by_test.offer(HARMLESS, on=green)
    assert (found.verdict, found.partner, by_test.landed) == ("green", None, ["harmless"])
    assert found.red_base


def test_a_target_red_by_exit_status_alone_lets_nothing_in_and_blames_nobody(by_status: Road) -> None:
    poison = by_status.commit("main", POISON, on=by_status.tip())
    for work in (HARMLESS, WRONG):
        found = by_status.offer(work, on=by_status.tip())
        assert (found.verdict, found.partner) == ("base_red", None), found
        assert "main itself" in found.detail
    assert (by_status.landed, by_status.tip()) == ([], poison)


def test_who_mends_a_target_red_by_exit_status_lands(by_status: Road) -> None:
    by_status.commit("main", POISON, on=by_status.tip())
    by_status.offer(MENDED, on=by_status.tip())
    by_status.offer(HARMLESS, on=by_status.tip())
    assert by_status.landed == ["mended", "harmless"]
