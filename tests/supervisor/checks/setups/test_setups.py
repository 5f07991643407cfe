"""A set-up runs once for each state of the target's lock file, and nothing of a candidate reaches the next one."""

from pathlib import Path
from typing import Any

import pytest
from gates import Gate, check
from repositories import git

from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.sandbox.layers import why_level_fails
from forgepool.workers.schema.orders import CachedFolder

in_bubblewrap = pytest.mark.skipif(
    why_level_fails("bubblewrap") is not None, reason="folders are mounted by bubblewrap"
)


@pytest.fixture
def count(gate: Gate, tmp_path: Path) -> Path:
    """Return the file in which set-up commands count their runs, outside the checkout and without a sandbox."""
    gate.unconfined()
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
    for number in range(2):
        found = gate.examine(gate.request(gate.entry(f"locked{number}", {"lock": "2\n"}), checked))
        assert found.verdict == "green", found
    assert runs(count) == 3, "of a lock file that is not the target's nothing is kept"
    gate.let_in(gate.entry("locked", {"lock": "2\n"}), checked)
    for number in range(2):
        gate.examine(gate.request(gate.entry(f"u{number}", {f"f{number}": "x\n"}), checked))
    assert runs(count) == 5, "once for the one that lands, once when it has landed"


def test_what_a_check_does_to_a_cached_folder_stays_with_it(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n"})
    dirty = with_setup(count, "test ! -e deps/junk && cmp lock deps/of && touch deps/junk && echo no > deps/of")
    for number in range(3):
        found = gate.examine(gate.request(gate.entry(f"t{number}", {f"f{number}": "x\n"}), dirty))
        assert found.verdict == "green", found
    assert runs(count) == 1


def test_a_set_up_that_fails_is_red_and_leaves_no_cache(gate: Gate, count: Path) -> None:
    """The set-up succeeds on the base, so the entry broke it."""
    gate.hub.commit({"lock": "1\n"})
    checked = with_setup(count, "true", setup="test ! -e broken && mkdir -p deps && touch deps/half")
    entry = gate.entry("one", {"broken": "x\n", "lock": "2\n"})
    found = gate.examine(gate.request(entry, checked))
    assert (found.verdict, found.failures[0].check) == ("red", "test")
    assert found.detail == "the set-up of check 'test' exited with 1 when merged into main"
    assert not list((gate.settings.cache / "setups").glob("*/")), "nothing of it is kept"


def test_a_set_up_without_a_cache_is_run_every_time(gate: Gate, count: Path) -> None:
    """It runs for the entry and the target, because results are not remembered without a sandbox."""
    plain = check("test -e ready", setup=f"echo x >> {count} && touch ready")
    for number in range(2):
        assert gate.examine(gate.request(gate.entry(f"t{number}", {f"f{number}": "x\n"}), plain)).verdict == "green"
    assert runs(count) == 4


def test_another_set_up_command_does_not_get_the_cache_of_the_first(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n"})
    entry = gate.entry("one", {"b": "2\n"})
    one = with_setup(count, "grep -q old deps/of", setup="mkdir -p deps && echo old > deps/of")
    other = with_setup(count, "grep -q new deps/of", setup="mkdir -p deps && echo new > deps/of")
    assert gate.examine(gate.request(entry, one)).verdict == "green"
    assert gate.examine(gate.request(entry, other)).verdict == "green"
    assert runs(count) == 2


def test_a_candidate_that_changes_what_the_set_up_runs_leaves_nothing_to_the_next_one(gate: Gate, count: Path) -> None:
    """The lock file is the target's, but the script that the set-up runs is not."""
    gate.hub.commit({"lock": "1\n", "prepare": "mkdir -p deps && echo good > deps/of\n"})
    checked = with_setup(count, "grep -q good deps/of", setup="sh prepare")
    bad = gate.entry("bad", {"prepare": "mkdir -p deps && echo broken > deps/of\n"})
    found = gate.examine(gate.request(bad, checked))
    assert found.verdict == "red", "what the command names is its input, so it was run"
    assert gate.examine(gate.request(gate.entry("good", {"b": "2\n"}), checked)).verdict == "green"


def test_a_candidates_own_lock_file_keeps_nothing_for_one_that_lands_the_same(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n", "prepare": "mkdir -p deps && echo good > deps/of\n"})
    checked = with_setup(count, "grep -q good deps/of", setup="sh prepare")
    bad = gate.entry("bad", {"lock": "2\n", "prepare": "mkdir -p deps && echo broken > deps/of\n"})
    assert gate.examine(gate.request(bad, checked)).verdict == "red"
    gate.let_in(gate.entry("good", {"lock": "2\n"}), checked)


def test_a_kept_folder_that_has_grown_old_blames_nobody(gate: Gate, count: Path) -> None:
    """The set-up reads an undeclared file. When a check is red, everything is made again before an entry is blamed."""
    gate.hub.commit({"lock": "1\n", "unsaid": "old\n"})
    checked = with_setup(count, "cmp unsaid deps/of", setup="mkdir -p deps && cp un*d deps/of")
    assert gate.examine(gate.request(gate.entry("a", {"b": "2\n"}), checked)).verdict == "green"
    gate.hub.commit({"unsaid": "new\n"})
    assert gate.examine(gate.request(gate.entry("c", {"b": "3\n"}), checked)).verdict == "green"


def test_another_hub_with_the_same_lock_file_has_its_own_folders(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n", "who": "one\n"})
    checked = with_setup(count, "cmp who deps/of", setup="mkdir -p deps && cp who deps/of")
    assert gate.examine(gate.request(gate.entry("a", {"b": "2\n"}), checked)).verdict == "green"
    other = gate.folder / "other.git"
    git(gate.folder, "clone", "-q", "--bare", str(gate.hub.path), str(other))
    gate.hub.commit({"who": "two\n"})
    entry = gate.entry("b", {"b": "3\n"})
    git(other, "fetch", "-q", str(gate.hub.path), "+refs/heads/*:refs/heads/*")
    assert gate.examine(gate.request(entry, checked, hub=str(other))).verdict == "green"


def test_another_check_with_the_same_set_up_has_its_own_folders(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n"})
    one = with_setup(count, "true")
    two = one.model_copy(update={"name": "other"})
    assert gate.examine(gate.request(gate.entry("a", {"b": "2\n"}), one, two)).verdict == "green"
    assert len(list((gate.settings.cache / "setups").glob("*/"))) == 2


def test_a_candidate_without_the_lock_file_that_names_the_cache_is_red(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n"})
    found = gate.examine(gate.request(gate.entry("one", {"lock": None}), with_setup(count, "true")))
    assert found.verdict == "red"
    assert "the set-up of check 'test' is not taken for green" in found.detail
    assert "keeps folders by lock, no regular file of the commit" in found.detail


def test_a_target_without_that_lock_file_is_the_red_one(gate: Gate, count: Path) -> None:
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), with_setup(count, "true")))
    assert found.verdict == "base_red"
    assert "main itself" in found.detail and "keeps folders by lock" in found.detail


def test_a_set_up_that_fails_for_all_is_not_the_candidates_though_folders_are_kept(gate: Gate, count: Path) -> None:
    """The network is away. A candidate with another lock file is the first to need it."""
    gate.hub.commit({"lock": "1\n"})
    network = gate.folder / "network"
    network.touch()
    checked = with_setup(count, "true", setup=f"test -e {network} && mkdir -p deps")
    assert gate.examine(gate.request(gate.entry("a", {"b": "2\n"}), checked)).verdict == "green"
    network.unlink()
    found = gate.examine(gate.request(gate.entry("one", {"lock": "2\n"}), checked))
    assert found.verdict == "base_red"
    assert "the set-up of check 'test' exited with 1 on main itself" in found.detail


def test_what_is_checked_is_the_candidate_though_the_folders_were_made_on_the_target(gate: Gate, count: Path) -> None:
    gate.hub.commit({"lock": "1\n"})
    checked = with_setup(count, "grep -q mine a && test -e deps/of")
    assert gate.examine(gate.request(gate.entry("one", {"a": "mine\n"}), checked)).verdict == "green"
    assert runs(count) == 1


def green(gate: Gate, *checks: CheckDefinition, times: int = 1, **files: str) -> None:
    for number in range(times):
        found = gate.examine(gate.request(gate.entry(f"t{number}", {f"f{number}": "x\n", **files}), *checks))
        assert (found.verdict, found.flaky) == ("green", ()), (found.detail, found.failures)


def set_ups(gate: Gate) -> list[str]:
    """Return the logs of the set-ups that ran."""
    return sorted(path.name for path in gate.settings.home.rglob("*.setup.log"))


def keeping(
    run: str, *, name: str = "test", folder: str = "deps", writable: bool = False, **said: Any
) -> CheckDefinition:
    cached = CachedFolder(folder=folder, key="lock", writable=writable)
    return check(run, name, setup=f"mkdir -p {folder} && cp lock {folder}/of", cache=(cached,), **said)


@in_bubblewrap
@pytest.mark.parametrize("folder", ["deps", "web/deps"])
def test_a_kept_folder_is_there_and_no_check_can_change_it(gate: Gate, folder: str) -> None:
    gate.hub.commit({"lock": "1\n"})
    tried = f"touch {folder}/junk || echo no > {folder}/of || rm -rf {folder}/of || rmdir {folder} || mv {folder} away"
    green(gate, keeping(f"cmp lock {folder}/of && ! ({tried}) 2> tried", folder=folder), times=2)
    assert set_ups(gate) == ["composed-kept-test.setup.log"]
    (place,) = (gate.settings.cache / "checkouts").glob(f"*/slot-1/{folder}")
    assert list(place.iterdir()) == [], "it was mounted, not copied"


@in_bubblewrap
def test_a_folder_said_to_be_written_in_is_each_checks_own(gate: Gate) -> None:
    gate.hub.commit({"lock": "1\n"})
    dirty = "test ! -e deps/junk && cmp lock deps/of && touch deps/junk && echo no > deps/of"
    green(gate, keeping(dirty, writable=True), times=2)
    assert len(set_ups(gate)) == 1


@in_bubblewrap
def test_a_mounted_folder_is_there_for_the_checks_behind(gate: Gate) -> None:
    """It is also there for a check that may write in its own copy."""
    gate.hub.commit({"lock": "1\n"})
    behind = check("cmp lock deps/of && ! touch deps/junk", "behind", uses=("test",))
    own = keeping("cmp lock deps/of && touch deps/junk", name="own", writable=True, uses=("behind",))
    after = check("test -e deps/junk", "after", uses=("own",))
    green(gate, keeping("cmp lock deps/of"), behind, own, after, times=2)


@in_bubblewrap
def test_a_set_up_that_has_to_be_run_may_add_to_a_mounted_folder(gate: Gate) -> None:
    gate.hub.commit({"lock": "1\n"})
    adding = check("test -e deps/of && test -e deps/more", "adding", setup="touch deps/more", uses=("test",))
    green(gate, keeping("cmp lock deps/of && test ! -e deps/more"), adding, times=2)


@in_bubblewrap
def test_files_of_the_commit_in_a_kept_folder_are_not_hidden(gate: Gate) -> None:
    gate.hub.commit({"lock": "1\n"})
    green(gate, keeping("cmp lock deps/of && grep -q mine deps/own"), **{"deps/own": "mine\n"})
    assert set_ups(gate) == ["composed-kept-test.setup.log"]
