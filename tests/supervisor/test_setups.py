"""A set-up is run once for each state of its lock file, and no check's leavings reach the next one."""

from pathlib import Path

import pytest
from gates import Gate, check

from supervisor.definitions import CachedFolder, CheckDefinition


@pytest.fixture
def count(tmp_path: Path) -> Path:
    return tmp_path / "set-ups"


def with_setup(count: Path, run: str, *, setup: str = "mkdir -p deps && cp lock deps/of") -> CheckDefinition:
    folders = (CachedFolder(folder="deps", key="lock"),)
    return check(run, setup=f"echo x >> {count} && {setup}", cache=folders)


def runs(count: Path) -> int:
    return len(count.read_text().splitlines())


def test_the_cache_is_filled_once_for_a_lock_file(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n"})
    checked = with_setup(count, "cmp lock deps/of")
    for number in range(3):
        found = gate.examine(gate.request(gate.entry(f"t{number}", {f"f{number}": "x\n"}), checked))
        assert found.verdict == "green", found
    assert runs(count) == 1
    found = gate.examine(gate.request(gate.entry("locked", {"lock": "2\n"}), checked))
    assert found.verdict == "green", found
    assert runs(count) == 2


def test_what_a_check_does_to_a_cached_folder_stays_with_it(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n"})
    dirty = with_setup(count, "test ! -e deps/junk && cmp lock deps/of && touch deps/junk && echo no > deps/of")
    for number in range(3):
        found = gate.examine(gate.request(gate.entry(f"t{number}", {f"f{number}": "x\n"}), dirty))
        assert found.verdict == "green", found
    assert runs(count) == 1


def test_a_set_up_that_fails_is_red_and_leaves_no_cache(gate: Gate, count: Path) -> None:
    """Where the base is set up well: the entry broke the set-up."""
    gate.hub.commit({"lock": "1\n"})
    checked = with_setup(count, "true", setup="test ! -e broken && mkdir -p deps && touch deps/half")
    entry = gate.entry("one", {"broken": "x\n", "lock": "2\n"})
    found = gate.examine(gate.request(entry, checked))
    assert (found.verdict, found.failures[0].check) == ("red", "test")
    assert len(list((gate.settings.cache / "setups").glob("*/"))) == 1, "the base's own, and no half one"


def test_a_set_up_without_a_cache_is_run_every_time(gate: Gate, count: Path) -> None:
    plain = check("test -e ready", setup=f"echo x >> {count} && touch ready")
    for number in range(2):
        assert gate.examine(gate.request(gate.entry(f"t{number}", {f"f{number}": "x\n"}), plain)).verdict == "green"
    assert runs(count) == 2


def test_another_set_up_command_does_not_get_the_cache_of_the_first(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n"})
    entry = gate.entry("one", {"b": "2\n"})
    one = with_setup(count, "grep -q old deps/of", setup="mkdir -p deps && echo old > deps/of")
    other = with_setup(count, "grep -q new deps/of", setup="mkdir -p deps && echo new > deps/of")
    assert gate.examine(gate.request(entry, one)).verdict == "green"
    assert gate.examine(gate.request(entry, other)).verdict == "green"
    assert runs(count) == 2
