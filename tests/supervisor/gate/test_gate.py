"""The gate's verdict about an entry, and the entry it blames, on real repositories."""

import subprocess
from pathlib import Path

import pytest
from gates import Gate, check
from repositories import git

from forgepool.supervisor.checks.certificates import Inputs, unproven
from forgepool.supervisor.messages.answers import CheckResult, Flake
from forgepool.worktrees.git.git import TreeId

GREP = check("! grep -q bad a b")


def counted(gate: Gate, *statuses: int, name: str = "test") -> str:
    """Return a command that exits with the first status on its first run, and so on. The last status repeats."""
    gate.unconfined()
    counter = gate.folder / f"counter-{name}"
    cases = " ".join(f"{at}) exit {status};;" for at, status in enumerate(statuses, start=1))
    return f'echo x >> {counter}; case $(wc -l < {counter} | tr -d " ") in {cases} *) exit {statuses[-1]};; esac'


def test_a_green_entry_has_a_certificate_for_each_check_on_exactly_the_composed_tree(gate: Gate) -> None:
    entry = gate.entry("one", {"a": "good\n"})
    gate.hub.commit({"b": "meanwhile\n"})
    checks = (check("grep good a", "first"), check("grep meanwhile b", "second"))
    found = gate.examine(gate.request(entry, *checks))
    assert found.verdict == "green", found
    assert found.tree is not None and [one.check for one in found.certificates] == ["first", "second"]
    inputs = Inputs(git=gate.mirror.git, tree=TreeId(found.tree), checks=checks)
    assert unproven(checks, inputs, found.certificates) == ()
    assert gate.hub.tip() != found.commit, "examining does not land"


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("grep good b", "exited with 1"),
        ("no-such-program --at-all", "exited with 127"),
        ("kill -9 $$", "exited with"),
        ("exit 3", "exited with 3"),
    ],
)
def test_an_entry_that_breaks_a_check_by_itself_is_red(gate: Gate, run: str, said: str) -> None:
    """The base is green, because the file that makes the check fail is missing there."""
    entry = gate.entry("one", {"marker": "x\n"})
    found = gate.examine(gate.request(entry, check(f"test ! -e marker || {{ {run}; }}")))
    assert (found.verdict, found.partner, found.certificates) == ("red", None, ())
    assert said in found.detail


@pytest.mark.parametrize("task", ["breaks", "conflicts"])
def test_the_command_that_shows_it_again_does_so_in_any_clone(gate: Gate, tmp_path: Path, task: str) -> None:
    """The command needs only the hub, because no clone has the composed commit."""
    start = gate.hub.tip()
    entry = gate.entry(task, {"marker" if task == "breaks" else "a": "mine\n"}, on=start)
    gate.let_in(gate.entry("older", {"a": "theirs\n"}, on=start), check("true"))
    found = gate.examine(gate.request(entry, check("test ! -e marker || { echo seen; exit 3; }")))
    assert found.verdict == ("red" if task == "breaks" else "conflict")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(gate.hub.path), str(clone))
    shown = subprocess.run(["/bin/sh", "-c", found.reproduce], cwd=clone, capture_output=True, text=True)
    if task == "breaks":
        assert (shown.returncode, shown.stdout.splitlines()[-1]) == (3, "seen")
    else:
        assert "CONFLICT" in shown.stdout


def test_a_check_that_does_not_end_is_red(gate: Gate) -> None:
    entry = gate.entry("one", {"marker": "x\n"})
    slow = check("test ! -e marker || sleep 60", timeout_s=0.3)
    found = gate.examine(gate.request(entry, slow))
    assert (found.verdict, found.failures[0].how) == ("red", "timeout")


def test_the_log_tail_of_the_failing_check_comes_with_the_verdict(gate: Gate) -> None:
    entry = gate.entry("one", {"a": "bad\n"})
    found = gate.examine(gate.request(entry, check("echo looking; ! grep -n bad a")))
    assert "looking" in found.failures[0].log_tail and "1:bad" in found.failures[0].log_tail
    assert Path(found.failures[0].log).is_file()


def test_of_three_landings_in_between_the_one_it_is_red_with_is_named(gate: Gate) -> None:
    """
    The check fails where both `left` and `right` exist. The entry brings one, and the second of three landings the
    other.
    """
    apart = check("! { test -e left && test -e right; }")
    start = gate.hub.tip()
    younger = gate.entry("younger", {"left": "x\n"}, on=start)
    for task, path in (("before", "p"), ("partner", "right"), ("behind", "q")):
        gate.let_in(gate.entry(task, {path: "x\n"}, on=start), apart)
    found = gate.examine(gate.request(younger, apart))
    assert (found.verdict, found.partner) == ("red", "partner")
    assert "'partner'" in found.detail


def test_of_a_conflict_the_other_entry_and_the_path_are_named(gate: Gate) -> None:
    start = gate.hub.tip()
    younger = gate.entry("younger", {"a": "mine\n"}, on=start)
    gate.let_in(gate.entry("older", {"a": "theirs\n"}, on=start), check("true"))
    gate.let_in(gate.entry("other", {"b": "other\n"}, on=start), check("true"))
    found = gate.examine(gate.request(younger, check("true")))
    assert (found.verdict, found.partner, found.conflict_paths) == ("conflict", "older", ("a",))
    assert found.commit is None and found.certificates == ()


def test_what_is_red_without_the_entry_is_nobodys_failure(gate: Gate) -> None:
    gate.hub.commit({"a": "bad\n"})
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), GREP))
    assert found.verdict == "base_red"
    assert "main itself" in found.detail


def test_a_check_that_is_red_once_and_then_green_is_a_flake_and_no_failure(gate: Gate, tmp_path: Path) -> None:
    entry = gate.entry("one", {"b": "2\n"})
    found = gate.examine(gate.request(entry, check(counted(gate, 1, 0))))
    assert (found.verdict, found.flaky) == ("green", (Flake(check="test"),))
    assert found.certificates


def test_a_failure_must_come_twice_to_be_the_entrys(gate: Gate, tmp_path: Path) -> None:
    entry = gate.entry("one", {"b": "2\n"})
    found = gate.examine(gate.request(entry, check(counted(gate, 1, 0, 1))))
    assert (found.verdict, found.flaky) == ("red", ())


@pytest.mark.parametrize(
    ("runs", "decisive", "told"),
    [((1, 0), True, ["doubt", "green"]), ((), True, ["green"]), ((1, 0), False, ["red"])],
)
def test_a_first_red_is_told_where_another_run_decides_and_only_there(
    gate: Gate, runs: tuple[int, ...], decisive: bool, told: list[str]
) -> None:
    said = list[str]()
    request = gate.request(gate.entry("one", {"b": "2\n"}), check(counted(gate, *runs)) if runs else GREP)
    request = request.model_copy(update={"decisive": decisive})
    said.append(gate.examine(request, doubt=lambda: said.append("doubt")).verdict)
    assert said == told


def test_behind_a_flake_another_check_is_judged_for_itself(gate: Gate, tmp_path: Path) -> None:
    """The flake hid a check that fails on the target itself, so no entry is blamed."""
    gate.hub.commit({"a": "bad\n"})
    flake = check(counted(gate, 1, 0), "flake")
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), flake, GREP))
    assert (found.verdict, found.failures[0].check) == ("base_red", "test")


def test_a_landing_that_makes_the_gate_stricter_does_not_blame_the_next_entry(gate: Gate) -> None:
    """The landing passed the checks of its time. If the new checks fail on the target, the target is red."""
    gate.hub.commit({"forgepool.yaml": "version: 1\nchecks: {test: test -e a}\n"})
    stricter = {"forgepool.yaml": "version: 1\nchecks: {test: 'test -e docs'}\n"}
    gate.let_in(gate.entry("stricter", stricter).model_copy(update={"grants": ("forgepool.yaml",)}))
    found = gate.examine(gate.request(gate.entry("next", {"b": "2\n"})))
    assert found.verdict == "base_red"


def test_a_base_that_is_red_once_is_a_flake_and_shuts_no_gate(gate: Gate, tmp_path: Path) -> None:
    """The composed tree and the base are red once each, and both are green when run again."""
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check(counted(gate, 1, 1, 0))))
    assert (found.verdict, found.flaky) == ("green", (Flake(check="test"),))


def test_without_any_check_nothing_is_green(gate: Gate) -> None:
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"})))
    assert found.verdict == "not_configured"
    assert "`checks: none`" in found.detail


def test_a_plan_that_uses_a_check_nobody_has_is_not_configured(gate: Gate) -> None:
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check("test -e a", "mine", uses=("theirs",))))
    assert found.verdict == "not_configured"
    assert found.detail == "check 'mine' uses 'theirs', which is no check; checks are: mine"
    gate.hub.commit({"forgepool.yaml": "version: 1\nchecks: {theirs: test -e b}\n"})
    request = gate.request(gate.entry("two", {"b": "2\n"}), check("test -e a", "mine", uses=("theirs",)))
    assert gate.examine(request).verdict == "green"


def test_checks_waived_in_so_many_words_need_no_certificate(gate: Gate) -> None:
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), checks_waived=True))
    assert (found.verdict, found.certificates) == ("green", ())


@pytest.mark.parametrize("text", ["version: 1\nchecks: {}\n", "checks: [", "version: 9\nchecks: {a: b}\n"])
def test_a_gate_file_that_cannot_be_read_lets_nothing_in(gate: Gate, text: str) -> None:
    gate.hub.commit({"forgepool.yaml": text})
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check("true")))
    assert found.verdict == "not_configured"
    assert "main:forgepool.yaml" in found.detail


@pytest.mark.parametrize("own", ["version: 1\nchecks: {test: 'true'}\n", None, "version: 1\nchecks: {other: 'true'}\n"])
def test_a_candidate_cannot_change_its_own_gate(gate: Gate, own: str | None) -> None:
    gate.hub.commit({"forgepool.yaml": "version: 1\nchecks: {test: '! grep -q bad a'}\n"})
    entry = gate.entry("one", {"a": "bad\n", "forgepool.yaml": own})
    found = gate.examine(gate.request(entry, check("true")))
    assert (found.verdict, found.failures[0].check) == ("red", "test")


def test_a_hub_that_is_away_blames_nobody(gate: Gate) -> None:
    request = gate.request(gate.entry("one", {"b": "2\n"}), check("true"))
    gate.hub.path.rename(gate.folder / "away.git")
    found = gate.examine(request)
    assert (found.verdict, found.certificates) == ("infrastructure", ())
    assert found.detail


def test_a_candidate_that_is_in_no_ref_is_infrastructure(gate: Gate) -> None:
    entry = gate.entry("one", {"b": "2\n"}).model_copy(update={"commit": "1" * 40})
    assert gate.examine(gate.request(entry, check("true"))).verdict == "infrastructure"


@pytest.mark.parametrize("at", [1, 2, 3])
def test_checks_that_were_stopped_blame_nobody(gate: Gate, tmp_path: Path, at: int) -> None:
    """Any of the runs may be stopped: of the composed tree, of the base, or the composed tree again."""
    gate.unconfined()
    counter = tmp_path / "counter"
    run = f"echo x >> {counter}; test $(wc -l < {counter}) -lt {at} || sleep 60; test ! -e marker"
    entry = gate.entry("one", {"marker": "x\n"})

    def stop() -> bool:
        return counter.exists() and len(counter.read_text().splitlines()) >= at

    assert gate.examine(gate.request(entry, check(run)), stop=stop).verdict == "infrastructure"


def test_a_check_whose_log_cannot_be_written_blames_nobody(gate: Gate) -> None:
    request = gate.request(gate.entry("one", {"b": "2\n"}), check("true"))
    logs = gate.settings.home / "runs" / "r" / "logs" / "checks" / request.request_id
    (logs / "composed-test.log").mkdir(parents=True)
    assert gate.examine(request).verdict == "infrastructure"


def test_a_check_sees_a_clean_checkout_of_the_composed_commit(gate: Gate) -> None:
    """Neither files left by an earlier request nor the person's own checkout are there."""
    entries = [gate.entry(f"t{number}", {f"f{number}": "x\n"}) for number in range(2)]
    (gate.hub.work / "unsaved").write_text("x")
    dirty = check("test ! -e left-behind && test ! -e unsaved && touch left-behind")
    for entry in entries:
        found = gate.examine(gate.request(entry, dirty))
        assert found.verdict == "green", found.failures


def test_the_same_request_gives_the_same_commit_on_another_host(gate: Gate, tmp_path: Path) -> None:
    request = gate.request(gate.entry("one", {"b": "2\n"}), check("true"))
    elsewhere = Gate(gate.hub, tmp_path / "elsewhere")
    one, other = gate.examine(request), elsewhere.examine(request)
    assert one.commit == other.commit and one.commit is not None


def test_squash_gives_one_plain_commit(gate: Gate) -> None:
    request = gate.request(gate.entry("one", {"b": "2\n"}), check("true"), style="squash")
    found = gate.examine(request)
    gate.land(gate.landing(request, found))
    assert git(gate.hub.path, "rev-list", "--parents", "-1", "main").split() == [found.commit, request.base]


def test_a_verdict_survives_the_wire(gate: Gate) -> None:
    found = gate.examine(gate.request(gate.entry("one", {"a": "bad\n"}), GREP))
    assert CheckResult.model_validate_json(found.encode()) == found
