"""Deciding from runs alone whether a failure is the entry's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_runs import TESTS, case, told, untold

from forgepool.supervisor.checks.results.evidence import RunEvidence
from forgepool.supervisor.checks.results.flakes import Score, Sighting, scores
from forgepool.supervisor.checks.results.judging import CheckJudgement, Excuse, How, Ran, judge
from forgepool.supervisor.checks.results.reports import ReportedCase, SuiteReport
from forgepool.supervisor.checks.results.touched import Touched

GREEN = told(["a", "b"])
A, B, C = (f"{TESTS}::{name}" for name in "abc")


def touched(cover: str, path: str = TESTS) -> Excuse:
    return Excuse(touched=(Touched(path=path, role="test", cover=cover, gone=frozenset()),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tip", "here", "again", "tip_again", "verdict"),
    [
        (GREEN, GREEN, None, None, "green"),
        (untold(), untold(), None, None, "green"),
        (GREEN, told(["a"], ["b"]), None, None, "again"),
        (GREEN, told(["a"], ["b"]), told(["a"], ["b"]), None, "red"),
        (GREEN, told(["a"], ["b"]), GREEN, None, "green"),
        (untold(), untold(1), None, None, "again"),
        (untold(), untold(1), untold(1), None, "red"),
        (untold(), untold(1), untold(), None, "green"),
        (told(["a"], ["b"]), told(["a"], ["b"]), None, None, "tip_again"),
        (told(["a"], ["b"]), told(["a"], ["b"]), None, told(["a"], ["b"]), "known"),
        (told(["a"], ["b"]), told(["b"], ["a"]), None, told(["a"], ["b"]), "again"),
        (told(["a"], ["b"]), told(["b"], ["a"]), told(["b"], ["a"]), told(["a"], ["b"]), "red"),
        (told(["a"], ["b"]), GREEN, None, None, "green"),
        (untold(1), untold(1), None, None, "tip_again"),
        (untold(1), untold(1), None, untold(1), "tip_red"),
        (untold(1), untold(1), None, untold(), "again"),
        (untold(1), untold(1), untold(1), untold(), "red"),
        (untold(1), untold(), None, None, "green"),
        (untold(1), told(["a"], ["b"]), None, untold(1), "tip_red"),
        (told(["a"], ["b"]), untold(1), None, told(["a"], ["b"]), "again"),
        (told(["a"], ["b"]), untold(1), untold(1), told(["a"], ["b"]), "red"),
        (GREEN, Ran(how="stopped"), None, None, "untold"),
        (Ran(how="not_started"), GREEN, None, None, "untold"),
        (GREEN, Ran(how="timeout"), Ran(how="timeout"), None, "red"),
        (GREEN, Ran(how="refused", status=0), Ran(how="refused", status=0), None, "red"),
    ],
)
def test_the_verdict_is_that_of_the_table(
    tip: Ran, here: Ran, again: Ran | None, tip_again: Ran | None, verdict: str
) -> None:
    """Each row of the table in the module's docstring, and neighbouring cases."""
    assert judge(tip, here, again, tip_again).verdict == verdict


def test_a_red_verdict_names_the_new_failures() -> None:
    """It lists separately those that failed before."""
    red = told(["c"], ["a", "b"])
    judgement = judge(told(["a", "c"], ["b"]), red, red, told(["a", "c"], ["b"]))
    assert (judgement.verdict, judgement.new, judgement.known) == ("red", (A,), (B,))
    assert A in judgement.said and B not in judgement.said


def test_a_new_failure_beside_a_flake_is_red() -> None:
    """A rerun excuses only the tests that turned green in it."""
    judgement = judge(GREEN, told([], ["a", "b"]), told(["a"], ["b"]))
    assert (judgement.verdict, judgement.new, judgement.flaky) == ("red", (B,), (A,))


def test_a_failed_test_that_does_not_run_again_is_red() -> None:
    judgement = judge(GREEN, told(["a"], ["b"]), told(["a"]))
    assert (judgement.verdict, judgement.new) == ("red", (B,))


def test_a_flake_is_reported() -> None:
    """A test that was red and green on one tree is reported, in either order."""
    judgement = judge(GREEN, told(["a"], ["b"]), told(["b"], ["a"]))
    assert (judgement.verdict, judgement.flaky, judgement.flaked) == ("green", (A, B), True)
    assert judge(untold(), untold(1), untold()).flaked
    assert not judge(untold(), untold()).flaked


def test_a_flake_of_the_tip_excuses_no_failure() -> None:
    """A test that passed in one of the tip's runs is not known to fail there."""
    red = told(["a"], ["b"])
    assert judge(red, red, red, GREEN).verdict == "red"
    assert judge(red, red, red, red).verdict == "known"


def test_a_swallowed_failure_is_red() -> None:
    """A test that the report calls failed has failed, whatever the command's exit status."""
    swallowed = told(["a"], ["b"]).model_copy(update={"status": 0})
    assert judge(GREEN, swallowed, swallowed).verdict == "red"
    uncounted = untold(0, tests=2, runners=("mocha",), failing=1)
    assert judge(untold(0, tests=2, runners=("mocha",)), uncounted, uncounted).verdict == "red"


def test_words_about_failures_leave_a_green_check_green() -> None:
    """If the tip passes and its output mentions failures too, they come from a test about tests."""
    noisy = untold(0, tests=2, runners=("mocha",), failing=1)
    assert judge(noisy, noisy).verdict == "green"


def test_a_report_of_half_the_failures_does_not_excuse_the_others() -> None:
    """A report that names fewer failures than the output counts does not excuse the others."""
    half = told(["a"], ["b"])
    half = half.model_copy(update={"evidence": half.evidence.model_copy(update={"failing": 2})})
    whole = told(["a"], ["b"])
    assert judge(whole, half, half, whole).verdict == "red"
    assert judge(half, half, None, half).verdict == "tip_red"


def test_a_crash_is_not_excused_by_known_failures() -> None:
    """The exit status of a signal is not explained by a report of failures."""
    red = told(["a"], ["b"])
    crashed = red.model_copy(update={"status": 139})
    assert judge(red, crashed, crashed, red).verdict == "red"


def test_a_tip_that_stops_early_does_not_vouch_for_what_it_never_ran() -> None:
    """Nothing is known about tests after the failure at which a runner stops."""
    short = told(["a"], ["b"], cut_short=True)
    assert judge(short, short, None, short).verdict == "tip_red"
    assert judge(short, told(["a", "b"], ["c"]), None, short).verdict == "tip_red"
    broken = told(["b"], ["a"], cut_short=True)
    assert judge(short, broken, broken, short).verdict == "red"


@pytest.mark.parametrize(
    ("tip", "here", "word"),
    [
        (GREEN, untold(0), "report"),
        (GREEN, told([]), "no test"),
        (untold(tests=3, runners=("mocha",)), untold(), "mocha"),
        (untold(tests=3, runners=("mocha",)), untold(tests=0), "no test"),
        (untold(tests=3, runners=("jest", "pytest")), untold(tests=3, runners=("pytest",)), "jest"),
        (GREEN, told(["a"]), B),
        (GREEN, told(["a"], skipped=["b"]), B),
        (told(["a[1]", "a[2]"]), told(["a[1]"], skipped=["a[2]"]), f"{A}[2]"),
        (GREEN, GREEN.model_copy(update={"evidence": RunEvidence(report=GREEN.evidence.report, tests=2)}), "pytest"),
        (GREEN, untold(5, tests=0), "no test"),
    ],
)
def test_a_green_run_without_evidence_is_not_believed(tip: Ran, here: Ran, word: str) -> None:
    """Tests that ran on the tip must run here, with evidence as good. The message says what is missing."""
    judgement = judge(tip, here)
    assert judgement.verdict == "no_evidence"
    assert word in judgement.said and not judgement.of_tip


def test_a_lack_of_any_test_is_laid_to_the_tip() -> None:
    """If the tip runs no test either, the message says so. The rule can be waived by name."""
    none = told([])
    assert judge(none, none).of_tip
    assert judge(none, none, waived=("no_tests",)).verdict == "green"
    assert judge(untold(5, tests=0), untold(5, tests=0), waived=("no_tests",)).verdict == "green"
    assert judge(GREEN, none, waived=("no_tests",)).verdict == "no_evidence"


def test_the_reason_is_said_if_a_report_cannot_be_read() -> None:
    unread = Ran(
        how="exit", status=0, evidence=RunEvidence(faults=("the report r.xml is no XML",), runners=("pytest",))
    )
    assert "r.xml is no XML" in judge(GREEN, unread).said


def test_other_parameters_are_no_vanished_test() -> None:
    """Missing tests are compared by function, and failing ones by id."""
    assert judge(told(["a[1]", "a[2]"]), told(["a[3]"])).verdict == "green"
    assert judge(told(["a[1]"]), told(["b[1]"])).vanished == (A,)
    red = told(["a[1]"], ["a[2]"])
    assert judge(told(["a[1]", "a[2]"]), red, red).new == (f"{A}[2]",)


def test_a_vanished_test_is_excused_by_a_grant_or_a_look() -> None:
    """A grant excuses it. If the task declares the file, a person or model must look. Any other file does neither."""
    here = told(["a"])
    assert judge(GREEN, here, excuse=touched("granted")).verdict == "green"
    held = judge(GREEN, here, excuse=touched("held"))
    assert (held.verdict, held.attention, held.vanished) == ("green", (B,), ())
    assert judge(GREEN, here, excuse=touched("none")).verdict == "no_evidence"
    assert judge(GREEN, here, excuse=touched("granted", "tests/test_b.py")).verdict == "no_evidence"


def test_a_failing_test_may_not_vanish() -> None:
    red = told(["a"], ["b"])
    assert judge(red, told(["a"])).vanished == (B,)


def test_a_module_that_loads_again_is_no_vanished_test() -> None:
    """An entry in the report for a module that could not be collected is no test."""
    broken = told(["a"], [])
    lost = case("x", "failed").model_copy(update={"id": "tests/test_b.py", "file": "tests/test_b.py"})
    assert broken.evidence.report is not None
    found = SuiteReport(cases=(*broken.evidence.report.cases, lost), failures=1)
    tip = broken.model_copy(
        update={"status": 1, "evidence": broken.evidence.model_copy(update={"report": found, "failing": 1})}
    )
    mended = SuiteReport(cases=(case("a", "passed"), case("y", "passed", "tests/test_b.py")))
    here = GREEN.model_copy(update={"evidence": RunEvidence(report=mended, runners=("pytest",), tests=2)})
    assert judge(tip, here).verdict == "green"
    assert judge(tip, told(["a"])).vanished == ("tests/test_b.py",)


def test_a_test_that_ran_in_one_of_two_runs_counts_as_run() -> None:
    """A runner that stops at a flake leaves the other tests to the second run."""
    judgement = judge(told(["a", "b", "c"]), told(["a", "c"], ["b"]), told(["a", "b"]))
    assert judgement.verdict == "green"


def test_fewer_tests_are_counted_without_ids() -> None:
    """If only the number of tests is known, the number of missing tests is reported."""
    assert judge(untold(tests=5, runners=("mocha",)), untold(tests=3, runners=("mocha",))).fewer == 2
    assert judge(untold(tests=3, runners=("mocha",)), untold(tests=5, runners=("mocha",))).fewer == 0


NAMES = st.sampled_from(["a", "b", "c", "d[1]", "d[2]"])


@st.composite
def runs(draw: st.DrawFn) -> Ran:
    how: How = draw(st.sampled_from(["exit", "exit", "exit", "timeout", "refused"]))
    if how != "exit":
        return Ran(how=how)
    if draw(st.booleans()) and draw(st.booleans()):
        return untold(draw(st.sampled_from([0, 1, 5])), tests=draw(st.sampled_from([None, 0, 3])))
    states = draw(st.dictionaries(NAMES, st.sampled_from(["passed", "failed", "skipped"])))
    by = {state: [name for name, one in states.items() if one == state] for state in ("passed", "failed", "skipped")}
    ran = told(by["passed"], by["failed"], by["skipped"], cut_short=draw(st.booleans()))
    return ran.model_copy(update={"status": draw(st.sampled_from([0, 1, 139]))})


def ids(ran: Ran, outcome: str) -> frozenset[str]:
    return ran.evidence.report.ids(outcome) if ran.evidence.report else frozenset()  # type: ignore[arg-type]


def driven(tip: Ran, here: Ran, again: Ran, tip_again: Ran, excuse: Excuse) -> CheckJudgement:
    """Judge as the gate does, with each further run only when it is needed."""
    judgement, more = judge(tip, here, excuse=excuse), dict[str, Ran]()
    for _ in range(2):
        if judgement.verdict in ("again", "tip_again"):
            more[judgement.verdict] = again if judgement.verdict == "again" else tip_again
            judgement = judge(tip, here, more.get("again"), more.get("tip_again"), excuse=excuse)
    return judgement


@given(runs(), runs(), runs(), runs(), st.sampled_from(["none", "held", "granted"]))
def test_judging_ends_and_lets_no_new_failure_in(tip: Ran, here: Ran, again: Ran, tip_again: Ran, cover: str) -> None:
    """
    Judging ends after two runs of each. A test that passed on the tip and failed twice is not let in; known failures
    are never blamed.
    """
    judgement = driven(tip, here, again, tip_again, touched(cover))
    assert judgement.verdict not in ("again", "tip_again", "untold")
    let_in = judgement.verdict in ("green", "known")
    if ids(here, "failed") & ids(again, "failed") & ids(tip, "passed"):
        assert not let_in
    if here.how != "exit" and again.how != "exit":
        assert not let_in
    assert not set(judgement.new) & ids(tip, "failed") & ids(tip_again, "failed")
    if judgement.verdict == "known":
        once = ids(tip, "failed") | ids(tip_again, "failed")
        assert judgement.known and set(judgement.known) <= once - ids(tip, "passed")
    if judgement.verdict == "red" and ids(tip, "failed") >= ids(here, "failed") | ids(again, "failed"):
        # By status, or by a test that the tip's other run shows to be sound.
        assert not judgement.new or set(judgement.new) & ids(tip_again, "passed")


@given(runs(), runs())
def test_a_tree_equal_to_the_tip_is_not_blamed(tip: Ran, tip_again: Ran) -> None:
    """Runs equal to the tip's show nothing new."""
    judgement = driven(tip, tip, tip, tip, Excuse())
    assert judgement.verdict in ("green", "known", "tip_red", "no_evidence")
    assert judgement.new == () and judgement.vanished == ()
    if judgement.verdict == "no_evidence":
        assert judgement.of_tip


def test_a_score_leaves_out_what_never_flaked() -> None:
    """A test's score is its flakes among the trials that ran it. A test that never flaked has none."""
    seen = [("t", "a", True), ("t", "a", False), ("t", "b", False), ("u", "a", True), ("t", "", True)]
    found = scores(Sighting(check=check, test=test, flaked=flaked) for check, test, flaked in seen)
    assert found == (
        Score(check="t", test="", flakes=1, runs=1),
        Score(check="u", test="a", flakes=1, runs=1),
        Score(check="t", test="a", flakes=1, runs=2),
    )
    assert found[-1].share == 0.5


# Tests in renamed files.


def renamed(old: str, new: str, *others: Touched) -> Excuse:
    return Excuse(touched=(Touched(path=old, role="test", cover="none", now=new), *others))


def ran(*ids: str, file: str = "", skipped: tuple[str, ...] = ()) -> Ran:
    """Return a run in which these tests passed or were skipped, in this file if the runner reports files."""
    cases = [ReportedCase(id=one, outcome="skipped" if one in skipped else "passed", file=file) for one in ids]
    evidence = RunEvidence(report=SuiteReport(cases=tuple(cases)), runners=("it",), tests=len(ids))
    return Ran(how="exit", status=0, evidence=evidence)


@pytest.mark.parametrize(
    ("before", "file", "after", "old", "new"),
    [
        ("tests/test_m.py::f", "tests/test_m.py", "tests/test_core.py::f", "tests/test_m.py", "tests/test_core.py"),
        ("tests/test_m.py::T::f[1]", "tests/test_m.py", "t/a/test_m.py::T::f[2]", "tests/test_m.py", "t/a/test_m.py"),
        ("test_m.py::f", "test_m.py", "unit/test_m.py::f", "back/test_m.py", "back/unit/test_m.py"),
        ("tests.test_m.T::f", "", "tests.unit.test_core.T::f", "tests/test_m.py", "tests/unit/test_core.py"),
        ("com.acme.ATest$In::f", "", "com.b.BTest$In::f", "src/java/com/acme/ATest.java", "src/java/com/b/BTest.java"),
        ("tests/a.test.ts::f > g", "", "tests/b.test.ts::f > g", "tests/a.test.ts", "tests/b.test.ts"),
        ("a::f", "", "a::f", "tests/a.js", "tests/b.js"),
    ],
)  # fmt: skip
def test_a_test_that_ran_in_its_renamed_file_has_not_vanished(
    before: str, file: str, after: str, old: str, new: str
) -> None:
    """A test that ran under the file's new name has not vanished. One that did not run under it has."""
    tip, here = ran(before, "other", file=file), ran(after, "other", file=new)
    assert judge(tip, here, excuse=renamed(old, new)).vanished == ()
    assert judge(tip, ran("other"), excuse=renamed(old, new)).verdict == "no_evidence"
    assert judge(tip, ran("other", after, skipped=(after,)), excuse=renamed(old, new)).verdict == "no_evidence"
    if before != after:
        assert judge(tip, here).verdict == "no_evidence"


def test_a_test_is_found_under_a_new_name_only_where_one_can_be_meant() -> None:
    """A name counts as a renamed test only if the target did not run it and only one file can be meant."""
    old, new = "tests/test_m.py", "tests/test_core.py"
    before, after = f"{old}::f", f"{new}::f"
    assert judge(ran(before, after), ran(after), excuse=renamed(old, new)).vanished == (before,)
    before, after = "test_m.py::f", "test_core.py::f"
    tip = ran(before, file="test_m.py")
    twice = renamed("a/test_m.py", "a/test_core.py", Touched(path="b/test_m.py", role="test", cover="none"))
    assert judge(tip, ran(after), excuse=renamed("a/test_m.py", "a/test_core.py")).vanished == ()
    assert judge(tip, ran(after), excuse=twice).vanished == (before,)
    assert judge(tip, ran(after), excuse=renamed("a/test_m.py", "test_core.py")).vanished == (before,)
