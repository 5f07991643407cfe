"""When a verdict counts: the files that must be read, the form of a finding, and the answer to a void verdict."""

import pytest
from review_kit import Desk, calls, finding, read, script, verdict

from forgepool.workers.context.transcript.entries import Finished

PASS = verdict("pass")
TWO = {"a": "2\n"}


def test_what_is_read_and_found_good_passes(desk: Desk) -> None:
    found = desk.review(TWO, script(read("a"), PASS))
    assert (found.outcome, found.findings, found.voids) == ("passed", (), ()), found
    assert (found.changed, found.read, found.confidence, found.summary) == (("a",), ("a",), 0.9, "read it all")
    assert (found.models, found.families) == (("scripted",), ("critic",))
    assert found.tree and found.patch_id and found.spent.turns == 2
    assert (desk.folder() / "1-critic.log").read_text().startswith("=== REVIEW of r.one.1.review-1")


def test_a_finding_that_must_be_mended_fails_it(desk: Desk) -> None:
    found = desk.review(TWO, script(read("a"), verdict("fail", finding("a", 1))))
    assert (found.outcome, [one.file for one in found.findings]) == ("failed", ["a"])


def test_what_was_not_read_is_told_once_and_may_be_read_then(desk: Desk) -> None:
    found = desk.review({"a": "2\n", "b": "2\n"}, script(read("a"), PASS, read("b"), PASS))
    assert (found.outcome, found.read, len(found.voids)) == ("passed", ("a", "b"), 1)
    assert found.voids[0].endswith("read_file has not shown you the changed lines of: b")


def test_two_verdicts_without_reading_end_as_void(desk: Desk) -> None:
    found = desk.review(TWO, script(PASS, PASS, read("a"), PASS))
    assert (found.outcome, found.read, len(found.voids)) == ("void", (), 2)
    ends = [entry for entry in desk.transcripts()["1-critic"] if isinstance(entry, Finished)]
    assert len(ends) == 1, "nothing is asked after the second"


def test_a_verdict_in_the_turn_that_reads_was_given_before_anything_was_seen(desk: Desk) -> None:
    both = calls({"tool": "read_file", "path": "a"}, *PASS["calls"])
    found = desk.review(TWO, script(both, say_nothing(), say_nothing()))
    assert (found.outcome, found.read, len(found.voids)) == ("void", (), 1)
    seen = desk.review(TWO, script(both, PASS), request_id="r.one.1.review-2")
    assert (seen.outcome, seen.read) == ("passed", ("a",)), "by then it was shown"


def say_nothing() -> dict[str, str]:
    return {"say": "It looks fine to me."}


@pytest.mark.parametrize(
    "looking",
    [
        calls({"tool": "grep", "pattern": ".", "path": "a", "context": 20}),
        calls({"tool": "glob", "pattern": "a"}),
        read("b"),
        read("nowhere"),
        calls({"tool": "read_file", "path": "a", "start": 1, "lines": 3}),
    ],
)
def test_looking_elsewhere_or_by_a_search_is_no_reading(desk: Desk, looking: dict[str, object]) -> None:
    """The change is in the file's fifth line."""
    desk.gate.hub.commit({"a": "1\n1\n1\n1\n1\n"})
    found = desk.review({"a": "1\n1\n1\n1\n2\n"}, script(looking, PASS, looking, PASS))
    assert (found.outcome, found.read) == ("void", ())


def test_a_page_with_one_of_the_changed_lines_is_reading(desk: Desk) -> None:
    desk.gate.hub.commit({"a": "1\n1\n1\n1\n1\n"})
    page = calls({"tool": "read_file", "path": "./a", "start": 5, "lines": 1})
    assert desk.review({"a": "1\n1\n1\n1\n2\n"}, script(page, PASS)).outcome == "passed"


def test_a_page_that_could_not_be_shown_was_not_read(desk: Desk) -> None:
    """For a file that only lost lines any page counts, but a page beyond its end shows nothing."""
    desk.gate.hub.commit({"a": "1\n2\n3\n"})
    beyond = calls({"tool": "read_file", "path": "a", "start": 99})
    found = desk.review({"a": "1\n2\n"}, script(beyond, PASS, read("a"), PASS))
    assert (found.outcome, len(found.voids)) == ("passed", 1)


@pytest.mark.parametrize(
    ("files", "seen", "outcome"), [(8, 8, "passed"), (8, 7, "void"), (9, 5, "passed"), (9, 4, "void")]
)
def test_of_up_to_eight_files_all_are_read_and_of_more_half(desk: Desk, files: int, seen: int, outcome: str) -> None:
    changed = {f"f{number}": f"{number}\n" for number in range(files)}
    found = desk.review(changed, script(read(*sorted(changed)[:seen]), PASS, PASS))
    assert (found.outcome, len(found.read)) == (outcome, seen)


def test_of_what_is_gone_or_binary_nothing_can_be_read(desk: Desk) -> None:
    desk.gate.hub.commit({"gone": "x\n", "bin": "\0\1"})
    found = desk.review({"a": "2\n", "gone": None, "bin": "\0\2"}, script(read("a"), PASS))
    assert (found.outcome, found.changed, found.read) == ("passed", ("a", "bin", "gone"), ("a",))


def test_where_nothing_can_be_read_something_must_have_been_looked_at(desk: Desk) -> None:
    request = desk.request(desk.entry({"a": None}), script(PASS, PASS))
    assert desk.conduct(request).outcome == "void"
    looked = script(calls({"tool": "grep", "pattern": "import a"}), PASS)
    policy = request.policy.model_copy(update={"script": looked})
    assert desk.conduct(request.model_copy(update={"policy": policy})).outcome == "passed"


VOID = {
    "fail without a finding": (verdict("fail"), "without a finding"),
    "pass with one that must be mended": (verdict("pass", finding("a")), "passes with a high bug finding"),
    "a file that is not there": (verdict("fail", finding("nowhere")), "there is no file 'nowhere'"),
    "a file outside": (verdict("fail", finding("../a")), "there is no file '../a'"),
    "a line beyond the end": (verdict("fail", finding("a", 2)), "has 1 lines"),
    "more than certain": (verdict("pass", confidence=1.5), "confidence is 1.5"),
    "less than nothing": (verdict("pass", confidence=-0.1), "confidence is -0.1"),
    "words": (say_nothing(), "without calling a tool"),
}


@pytest.mark.parametrize("kind", VOID)
def test_what_is_no_verdict_is_void_the_second_time(desk: Desk, kind: str) -> None:
    turn, why = VOID[kind]
    found = desk.review(TWO, script(read("a"), turn, turn))
    assert found.outcome == "void", found
    assert why in found.detail and found.findings == ()


@pytest.mark.parametrize("kind", VOID)
def test_what_is_no_verdict_may_be_mended_once(desk: Desk, kind: str) -> None:
    found = desk.review(TWO, script(read("a"), VOID[kind][0], PASS))
    assert found.outcome == "passed", found


def test_prose_after_a_void_verdict_is_no_verdict_either(desk: Desk) -> None:
    found = desk.review(TWO, script(PASS, say_nothing(), say_nothing()))
    assert found.outcome == "void" and len(found.voids) == 1


def test_a_form_that_is_filled_in_wrongly_is_refused_by_its_schema(desk: Desk) -> None:
    wrong = calls({"tool": "verdict", "verdict": "approved", "summary": "fine"})
    found = desk.review(TWO, script(read("a"), wrong, PASS))
    assert found.outcome == "passed"
    assert desk.review(TWO, script(read("a"), wrong), request_id="r.one.1.review-2").outcome != "passed"


def test_a_line_of_the_old_side_may_be_named_where_the_file_is_changed(desk: Desk) -> None:
    """Both lines existed only before the change."""
    desk.gate.hub.commit({"a": "1\n2\n3\n", "gone": "1\n2\n"})
    fail = verdict("fail", finding("a", 3), finding("gone", 2))
    found = desk.review({"a": "1\n", "gone": None}, script(read("a"), fail))
    assert (found.outcome, len(found.findings)) == ("failed", 2), found


def test_a_fail_of_which_nothing_is_held_passes_and_says_so(desk: Desk) -> None:
    fail = verdict("fail", finding("a", severity="medium", category="style"), finding("a", category="theory"))
    found = desk.review(TWO, script(read("a"), fail))
    assert (found.outcome, len(found.findings)) == ("passed", 2)
    assert "nothing of what it found has to be mended" in found.summary


@pytest.mark.parametrize(("threshold", "outcome"), [("fix", "passed"), ("fix_if_easy", "failed")])
def test_the_plan_says_what_is_held(desk: Desk, threshold: str, outcome: str) -> None:
    fail = verdict("fail", finding("a", category="reliability"))
    entry = desk.entry(TWO)
    request = desk.request(entry, script(read("a"), fail))
    policy = request.policy.model_copy(update={"threshold": threshold})
    assert desk.conduct(request.model_copy(update={"policy": policy})).outcome == outcome


def test_small_remarks_go_with_a_pass(desk: Desk) -> None:
    found = desk.review(TWO, script(read("a"), verdict("pass", finding("a", severity="low"))))
    assert (found.outcome, len(found.findings), found.summary) == ("passed", 1, "read it all")


def test_a_finding_may_be_about_a_file_that_was_not_changed(desk: Desk) -> None:
    found = desk.review(TWO, script(read("a"), verdict("fail", finding("b"))))
    assert (found.outcome, found.findings[0].file) == ("failed", "b")


def test_a_path_in_full_is_the_file_it_names(desk: Desk) -> None:
    found = desk.review(TWO, script(read("a"), verdict("fail", finding("./a"))))
    assert found.findings[0].file == "a"


def test_an_empty_difference_is_nothing_to_pass(desk: Desk) -> None:
    found = desk.review({}, script(PASS))
    assert (found.outcome, found.changed) == ("void", ()) and "nothing to review" in found.detail


CRITERIA = ("a holds two", "nothing else changed")


def answers(*met: bool, start: int = 1) -> list[dict[str, object]]:
    return [{"number": at, "met": one, "evidence": "a:1"} for at, one in enumerate(met, start=start)]


def judged(word: str, *found: dict[str, object], criteria: list[dict[str, object]]) -> dict[str, object]:
    turn = verdict(word, *found)
    turn["calls"][0]["criteria"] = criteria
    return turn


def test_every_criterion_is_answered_and_told(desk: Desk) -> None:
    good = judged("pass", criteria=answers(True, True))
    found = desk.review(TWO, script(read("a"), good), criteria=CRITERIA)
    assert (found.outcome, found.voids) == ("passed", ()), found
    assert found.summary.endswith("criterion 1 met: a:1\ncriterion 2 met: a:1")
    assert "1. a holds two" in desk.told() and "2. nothing else changed" in desk.told()


@pytest.mark.parametrize(
    ("criteria", "why"),
    [
        (answers(True), "criterion 2 is answered 0 times"),
        (answers(True, True) + answers(True), "criterion 1 is answered 2 times"),
        (answers(True, True, True), "there is no criterion 3; the task has 2"),
        (answers(True, False), "it passes although criterion 2 is not met"),
    ],
)
def test_a_pass_that_leaves_a_criterion_open_does_not_count(
    desk: Desk, criteria: list[dict[str, object]], why: str
) -> None:
    wrong = judged("pass", criteria=criteria)
    found = desk.review(TWO, script(read("a"), wrong, wrong), criteria=CRITERIA)
    assert found.outcome == "void" and why in found.voids[0]


def test_a_criterion_that_is_not_met_fails_the_change(desk: Desk) -> None:
    open_one = judged("fail", finding("a", category="requirement"), criteria=answers(True, False))
    found = desk.review(TWO, script(read("a"), open_one), criteria=CRITERIA)
    assert found.outcome == "failed" and "criterion 2 NOT met: a:1" in found.summary
