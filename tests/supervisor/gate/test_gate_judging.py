"""Results by test: failures that the entry adds are new, earlier ones are not its fault, and green needs evidence."""

import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from gates import Gate, check
from shell_suite import RUNNER, TEST, A, B

from forgepool.supervisor.checks.certificates import definition_digest
from forgepool.supervisor.checks.store import open_store
from forgepool.supervisor.messages.answers import CheckResult, Flake
from forgepool.workers.sandbox.layers import choose_level

_ATTEMPTS = count(1)


@pytest.fixture
def tested(gate: Gate) -> Gate:
    """Return a gate whose target has two tests in a file each."""
    tests = {f"tests/{name}.sh": f'test "$(cat {name})" -lt 5\n' for name in "ab"}
    gate.hub.commit({"ci/run-tests.sh": RUNNER, **tests})
    return gate


def asked(gate: Gate, files: dict[str, str | None], *, said: Any = None, **request: Any) -> CheckResult:
    entry = gate.entry("one", files, attempt=next(_ATTEMPTS)).model_copy(update=said or {})
    return gate.examine(gate.request(entry, TEST, **request))


def test_the_tests_that_an_entry_breaks_are_named(tested: Gate) -> None:
    found = asked(tested, {"a": "9\n"})
    assert (found.verdict, found.failures[0].tests) == ("red", (A,))
    assert A in found.detail and "+9" in found.diff_tail


def test_what_runs_its_tests_well_is_green_and_says_how_many(tested: Gate) -> None:
    found = asked(tested, {"a": "2\n"})
    assert (found.verdict, found.certificates[0].tests, found.diff_tail) == ("green", 2, "")


def test_what_failed_before_stands_in_nobodys_way(tested: Gate) -> None:
    tested.hub.commit({"a": "9\n"})
    found = asked(tested, {"b": "2\n"})
    assert (found.verdict, found.red_base) == ("green", (A,))
    assert found.certificates[0].known_failures == (A,)
    request = tested.request(tested.entry("other", {"b": "3\n"}), TEST)
    assert tested.land(tested.landing(request, tested.examine(request))).outcome == "landed"


def test_what_failed_before_does_not_hide_what_an_entry_breaks_besides(tested: Gate) -> None:
    tested.hub.commit({"a": "9\n"})
    found = asked(tested, {"b": "9\n"})
    assert (found.verdict, found.failures[0].tests) == ("red", (B,))


def test_who_mends_the_target_is_let_in(tested: Gate) -> None:
    tested.hub.commit({"a": "9\n"})
    found = asked(tested, {"a": "2\n"})
    assert (found.verdict, found.red_base) == ("green", ())


def test_a_test_that_is_red_and_then_green_is_recorded_by_name(gate: Gate) -> None:
    gate.unconfined()
    counter = gate.folder / "counter"
    shaky = f"test ! -e shaky || {{ echo x >> {counter}; test $(wc -l < {counter}) -ne 1; }}\n"
    gate.hub.commit({"ci/run-tests.sh": RUNNER, "tests/a.sh": shaky, "tests/b.sh": 'test "$(cat b)" -lt 5\n'})
    found = asked(gate, {"shaky": "x\n"})
    assert (found.verdict, found.flaky) == ("green", (Flake(check="test", tests=(A,)),))


def test_a_flake_does_not_excuse_what_fails_every_time(gate: Gate) -> None:
    gate.unconfined()
    counter = gate.folder / "counter"
    shaky = f"test ! -e shaky || {{ echo x >> {counter}; test $(wc -l < {counter}) -ne 1; }}\n"
    gate.hub.commit({"ci/run-tests.sh": RUNNER, "tests/a.sh": shaky, "tests/b.sh": 'test "$(cat b)" -lt 5\n'})
    found = asked(gate, {"shaky": "x\n", "b": "9\n"})
    assert (found.verdict, found.failures[0].tests) == ("red", (B,))
    assert found.flaky == (Flake(check="test", tests=(A,)),)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"ci/run-tests.sh": "exit 0\n"}, "left no report"),
        ({"ci/run-tests.sh": RUNNER.replace("tests/*.sh", "tests/b.sh")}, A),
        ({"ci/run-tests.sh": "mkdir -p out; echo '<testsuite/>' > out/report.xml\n"}, "ran no test"),
        ({"ci/run-tests.sh": "mkdir -p out; echo '<testsuite' > out/report.xml\n"}, "left no report"),
    ],
)
def test_green_that_shows_less_than_the_target_does_is_not_believed(
    tested: Gate, files: dict[str, str | None], said: str
) -> None:
    found = asked(tested, files)
    assert (found.verdict, found.failures[0].how) == ("red", "no_evidence")
    assert said in found.failures[0].reason and "is not taken for green" in found.detail


def test_a_test_that_is_gone_is_missed_and_one_that_a_person_lets_go_is_not(tested: Gate) -> None:
    gone: dict[str, str | None] = {"tests/a.sh": None}
    found = asked(tested, gone, said={"holds": ("b",)})
    assert found.verdict in ("red", "findings")
    assert asked(tested, gone, said={"grants": ("tests/a.sh",)}).verdict == "green"


def test_a_renamed_test_is_not_missed_and_one_under_a_name_that_no_runner_takes_is(tested: Gate) -> None:
    """The rename needs no look although the task declared another file. The runner takes only `*.sh`."""
    renamed: dict[str, str | None] = {"tests/a.sh": None, "tests/core.sh": 'test "$(cat a)" -lt 5\n'}
    assert asked(tested, renamed, said={"holds": ("b",)}).verdict == "green"
    lost: dict[str, str | None] = {"tests/a.sh": None, "tests/core.bak": 'test "$(cat a)" -lt 5\n'}
    found = asked(tested, lost, said={"holds": ("b",)})
    assert (found.verdict, found.failures[0].how) == ("red", "no_evidence") and A in found.failures[0].reason


def test_a_check_that_runs_no_test_anywhere_proves_nothing(gate: Gate) -> None:
    empty = "mkdir -p out; echo '<testsuite/>' > out/report.xml\n"
    gate.hub.commit({"ci/run-tests.sh": empty})
    found = asked(gate, {"a": "2\n"})
    assert found.verdict == "not_configured" and "ran no test" in found.detail
    waived = TEST.model_copy(update={"waive": ("no_tests",)})
    assert gate.examine(gate.request(gate.entry("two", {"a": "2\n"}), waived)).verdict == "green"


EDITED: dict[str, str | None] = {"a": "9\n", "tests/a.sh": "test -e a\n"}


def test_an_expectation_that_is_edited_with_the_code_is_tried_as_it_was(tested: Gate) -> None:
    found = asked(tested, EDITED, said={"holds": ("a",)})
    assert (found.verdict, found.failures[0].tests, found.failures[0].protected) == ("red", (A,), True)
    assert "with the tests and settings of main" in found.detail and found.partner is None


def test_who_may_change_what_is_expected_by_a_persons_leave_may(tested: Gate) -> None:
    assert asked(tested, EDITED, said={"grants": ("tests/a.sh",)}).verdict == "green"


def test_what_a_task_declared_it_would_edit_wants_somebody_to_look(tested: Gate) -> None:
    declared = {"holds": ("a", "tests/a.sh")}
    found = asked(tested, EDITED, said=declared)
    assert (found.verdict, found.failures, found.certificates) == ("findings", (), ())
    assert "tests-changed" in {each.rule for each in found.findings} and A in found.detail
    found = asked(tested, EDITED, said=declared, reviewed=True)
    assert found.verdict == "green"
    assert {each.weight for each in found.findings if each.rule == "tests-changed"} == {"attention"}


def test_a_runner_that_is_swapped_is_not_what_it_is_tried_with(tested: Gate) -> None:
    """The new runner writes the expected report and runs nothing."""
    forged = "mkdir -p out; " + "; ".join(
        [
            "echo '<testsuite>' > out/report.xml",
            *(f'echo \'<testcase classname="tests/{name}.sh" name="it"/>\' >> out/report.xml' for name in "ab"),
            "echo '</testsuite>' >> out/report.xml\n",
        ]
    )
    found = asked(tested, {"ci/run-tests.sh": forged, "a": "9\n"})
    assert found.verdict in ("red", "findings")
    assert asked(tested, {"ci/run-tests.sh": RUNNER + "# more\n"}).verdict in ("green", "findings")


def test_an_entry_that_adds_a_test_is_green_with_one_more(tested: Gate) -> None:
    found = asked(tested, {"tests/c.sh": "test -e c\n", "c": "1\n"}, reviewed=True)
    assert (found.verdict, found.certificates[0].tests) == ("green", 3)


def test_of_three_landings_the_one_with_which_the_test_breaks_is_named(tested: Gate) -> None:
    both = 'test "$(cat p q | wc -c)" -lt 4\n'
    tested.hub.commit({"tests/c.sh": both})
    start = tested.hub.tip()
    younger = tested.entry("younger", {"p": "1\n"}, on=start)
    for task, path in (("before", "x"), ("partner", "q"), ("behind", "y")):
        tested.let_in(tested.entry(task, {path: "1\n"}, on=start), TEST)
    found = tested.examine(tested.request(younger, TEST))
    assert (found.verdict, found.partner) == ("red", "partner")


def test_what_was_green_once_is_judged_by_what_the_target_shows_now(gate: Gate) -> None:
    """The same tree is examined on a target that runs more tests than before."""
    listed = RUNNER.replace("tests/*.sh", "$(cat suite)")
    tests = {f"tests/{name}.sh": f"test -e {name}\n" for name in "ab"}
    gate.hub.commit({"ci/run-tests.sh": listed, "suite": "tests/a.sh\n", **tests})
    first = asked(gate, {"x": "1\n"})
    assert first.verdict == "green"
    gate.hub.commit({"suite": "tests/a.sh tests/b.sh\n"})
    found = asked(gate, {"x": "1\n", "suite": "tests/a.sh\n"})
    assert (found.verdict, found.tree) == ("red", first.tree)
    assert found.failures[0].how == "no_evidence" and B in found.failures[0].reason


@pytest.mark.parametrize(
    ("files", "suspects"),
    [
        ([{"b": "2\n"}, {"tests/c.sh": "false\n"}], ("two",)),
        ([{"tests/c.sh": "false\n"}, {"tests/d.sh": "false\n"}], ("one", "two")),
        ([{"tests/c.sh": "false\n"}, {"a": "9\n"}], ("one",)),
        ([{"b": "2\n"}, {"a": "9\n"}], ()),
    ],
    ids=["one", "both", "one-and-the-targets", "the-targets"],
)
def test_a_red_batch_tells_whose_own_tests_fail(
    tested: Gate, files: list[dict[str, str | None]], suspects: tuple[str, ...]
) -> None:
    one, two = (tested.entry(name, each) for name, each in zip(("one", "two"), files, strict=True))
    found = tested.examine(tested.request(one, TEST, entries=(one, two), decisive=False))
    assert (found.verdict, found.suspects) == ("red", suspects)


def test_a_test_file_that_two_change_makes_neither_a_suspect(tested: Gate) -> None:
    files: list[dict[str, str | None]] = [{"tests/a.sh": "false\n\n\n\ntrue\n"}, {"tests/a.sh": "false\n"}]
    one, two = (tested.entry(name, each) for name, each in zip(("one", "two"), files, strict=True))
    found = tested.examine(tested.request(one, TEST, entries=(two,), decisive=False))
    assert found.suspects == ("two",)


def logs_of(gate: Gate, request: str) -> list[str]:
    return sorted(one.name for one in gate.folder.glob(f"home/runs/r/logs/checks/{request}/*.log"))


def test_a_check_that_is_red_twice_ends_the_trial_and_it_alone_is_run_again(gate: Gate) -> None:
    checks = (
        check("grep 2 b", "cheap", cost_s=1),
        check("! grep -q bad a", "red", cost_s=2),
        check("test -e a", "dear"),
    )
    asking = gate.request(gate.entry("one", {"a": "bad\n", "b": "2\n"}), *checks)
    assert gate.examine(asking).verdict == "red"
    assert logs_of(gate, asking.request_id) == [
        "again-red.log",
        "base-cheap.log",
        "base-red.log",
        "composed-cheap.log",
        "composed-red.log",
    ]


def test_a_red_in_a_test_of_its_own_runs_the_target_no_more(tested: Gate) -> None:
    """All tests of the target passed in that very run, so running the target again would show nothing."""
    assert asked(tested, {"b": "2\n"}).verdict == "green"
    entry = tested.entry("bad", {"tests/c.sh": "false\n"})
    assert tested.examine(tested.request(entry, TEST)).verdict == "red"
    assert logs_of(tested, "r.bad.1.check-1") == ["again-test.log", "composed-test.log"]


@pytest.mark.parametrize(
    "files",
    [{"a": "9\n"}, {"tests/c.sh": "false\n", "a": "9\n"}, {"tests/a.sh": "false\n"}],
    ids=["the-targets", "both", "changed"],
)
def test_a_red_in_a_test_of_the_target_runs_the_target_again(tested: Gate, files: dict[str, str | None]) -> None:
    assert asked(tested, {"b": "2\n"}).verdict == "green"
    entry = tested.entry("bad", files)
    assert tested.examine(tested.request(entry, TEST)).verdict == "red"
    assert "base-test.log" in logs_of(tested, "r.bad.1.check-1")


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Path]:
    """Yield a file beside the programs of this host, where the sandbox shows it."""
    tool = Path(sys.prefix) / "bin" / f"forgepool-test-{os.getpid()}"
    tool.touch()
    yield tool
    tool.unlink(missing_ok=True)


def test_a_host_that_breaks_between_two_runs_returns_nobody(gate: Gate, tool: Path) -> None:
    """The tool that every test needs disappears. The target, which was green a moment ago, is run again."""
    tests = {f"tests/{name}.sh": f'test -e {tool} && test "$(cat {name})" -lt 5\n' for name in "ab"}
    gate.hub.commit({"ci/run-tests.sh": RUNNER, **tests})
    assert asked(gate, {"b": "2\n"}).flaky == () and asked(gate, {"b": "7\n"}).verdict == "red"
    tool.unlink()
    entry = gate.entry("harmless", {"b": "3\n", "tests/c.sh": "true\n"})
    assert gate.examine(gate.request(entry, TEST)).verdict != "red"
    assert "base-test.log" in logs_of(gate, "r.harmless.1.check-1")


def test_a_host_that_breaks_before_the_second_run_returns_nobody(gate: Gate, tool: Path) -> None:
    """The first run showed a sound host. The second run cannot begin, and neither can the target's."""
    tests = {f"tests/{name}.sh": f'test "$(cat {name})" -lt 5\n' for name in "ab"}
    gate.hub.commit({"ci/run-tests.sh": f"test -e {tool} || exit 3\n{RUNNER}", **tests})
    assert asked(gate, {"b": "2\n"}).verdict == "green"
    entry = gate.entry("harmless", {"b": "3\n", "tests/c.sh": "false\n"})
    found = gate.examine(gate.request(entry, TEST), doubt=lambda: tool.unlink(missing_ok=True))
    assert found.verdict == "base_red"


def test_a_batch_that_fails_only_in_what_has_flaked_before_is_run_again(tested: Gate) -> None:
    """A known flaky test is no reason to split a batch."""
    one, two = tested.entry("one", {"a": "2\n"}), tested.entry("two", {"b": "9\n"})
    request = tested.request(one, TEST, entries=(one, two), decisive=False)
    assert tested.examine(request).verdict == "red"
    assert logs_of(tested, "r.one.1.check-1") == ["base-test.log", "composed-test.log"]
    key = definition_digest(TEST, [TEST])
    open_store(tested.settings, choose_level(tested.settings.sandbox), "r").keep_flaky(key, [B])
    again = request.model_copy(update={"request_id": "r.one.1.check-2"})
    assert tested.examine(again).verdict == "red"
    assert logs_of(tested, "r.one.1.check-2") == ["again-test.log", "composed-test.log"]


@pytest.mark.parametrize("diagnose", [True, False])
def test_the_landing_that_brought_the_test_is_named_without_a_search(tested: Gate, diagnose: bool) -> None:
    """The failure names the partner, so the partner is reported without more runs while others wait for the slot."""
    tested.hub.commit({"old": "1\n"})
    younger = tested.entry("younger", {"old": None, "new": "1\n"})
    for task, files in (
        ("before", {"x": "1\n"}),
        ("partner", {"tests/c.sh": "test -e old\n"}),
        ("behind", {"y": "1\n"}),
    ):
        tested.let_in(tested.entry(task, files), TEST)
    found = tested.examine(tested.request(younger, TEST, diagnose=diagnose))
    assert (found.verdict, found.partner) == ("red", "partner")
    searched = [one for one in logs_of(tested, "r.younger.1.check-1") if one.startswith(("alone", "with"))]
    assert searched == ["with-1-test.log"]


@pytest.mark.parametrize(("diagnose", "partner"), [(True, "partner"), (False, None)])
def test_a_landing_to_which_nothing_points_is_searched_where_nobody_waits(
    tested: Gate, diagnose: bool, partner: str | None
) -> None:
    tested.hub.commit({"tests/c.sh": 'test "$(cat p q | wc -c)" -lt 4\n'})
    younger = tested.entry("younger", {"p": "1\n"})
    for task, path in (("before", "x"), ("partner", "q"), ("behind", "y")):
        tested.let_in(tested.entry(task, {path: "1\n"}), TEST)
    found = tested.examine(tested.request(younger, TEST, diagnose=diagnose))
    assert (found.verdict, found.partner) == ("red", partner)


@pytest.mark.parametrize("now", ["cut", "shorten_all"])
def test_the_landing_that_removed_a_quoted_name_is_named(tested: Gate, now: str) -> None:
    """The entry's own test calls what was renamed meanwhile, also where its new name begins with the old one."""
    tested.hub.commit({"names": "shorten\n"})
    calls = {"tests/c.sh": "grep -qw shorten names || { echo \"no 'shorten' here\" >&2; exit 1; }\n"}
    younger = tested.entry("younger", calls)
    for task, files in (("before", {"x": "1\n"}), ("partner", {"names": f"{now}\n"}), ("behind", {"y": "1\n"})):
        tested.let_in(tested.entry(task, files), TEST)
    found = tested.examine(tested.request(younger, TEST, diagnose=False))
    assert (found.verdict, found.partner) == ("red", "partner")


def test_a_name_that_nobody_removed_points_to_nobody(tested: Gate) -> None:
    start = tested.entry("bad", {"tests/c.sh": "echo \"no 'shorten' here\" >&2; exit 1\n"})
    tested.let_in(tested.entry("other", {"x": "1\n"}), TEST)
    found = tested.examine(tested.request(start, TEST, diagnose=False))
    assert (found.verdict, found.partner) == ("red", None)
