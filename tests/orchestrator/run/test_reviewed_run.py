"""A run without a reviewer ends, says what it needs, and lands the task days later when it has it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from people import Person, person_in

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import read

pytestmark = pytest.mark.slow

_AUTHOR = """
turns:
  - calls: [{tool: write_file, path: a.py, content: "x = 2\\n"}]
  - calls: [{tool: finish, summary: "x is two"}]
"""
_REVIEWER = """
family: another
turns:
  - when: {shown_contains: Review of a wave}
    calls: [{tool: read_file, path: a.py}, {tool: read_file, path: b.py}]
  - when: {shown_contains: Review of task}
    calls: [{tool: read_file, path: a.py}]
FAIL
  - calls: [{tool: verdict, verdict: pass, findings: [], confidence: 0.9, summary: "it is two"}]
"""
_FAIL = """
  - when: {shown_contains: Review of a wave of 1 task}
    attempt: 1
    calls:
      - tool: verdict
        verdict: fail
        findings: [{severity: high, category: bug, file: a.py, line: 1, claim: who uses x is left behind, evidence: x}]
        confidence: 0.9
        summary: it is half done
"""
_PLAN = """
version: 1
name: NAME
checks: {test: "python3 -c 'import a; assert a.x'"}
REVIEW
tasks:
  - {id: one, files: [a.py], agent: {scripted: author.yaml}}
  - {id: two, needs: [one], files: [b.py], agent: {command: "echo 'y = 1' > b.py"}}
"""


@pytest.fixture
def ada(redis_program: str) -> Iterator[Person]:
    folder = Path(tempfile.mkdtemp(prefix="fp-"))
    made = person_in(folder, {"a.py": "x = 1\n", "author.yaml": _AUTHOR})
    made.commit({"reviewer.yaml": _REVIEWER.replace("FAIL\n", ""), "strict.yaml": _REVIEWER.replace("FAIL\n", _FAIL)})
    yield made
    shutil.rmtree(folder)


def run(ada: Person, name: str, review: str = "") -> tuple[int, str, str]:
    (ada.folder / "plan.yaml").write_text(_PLAN.replace("NAME", name).replace("REVIEW", review))
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"), "")
    ran = ada.forgepool("run", "plan.yaml", "--workers", "1", **keys)
    (made,) = (ada.folder.parent / "home" / "runs").glob(f"{name}-*")
    return ran.status, made.name, ran.out + ran.err


def journal(ada: Person, name: str) -> list[e.Event]:
    return [one.event for one in read(ada.folder.parent / "home" / "runs" / name)]


def test_what_was_read_and_passed_lands_and_the_report_says_by_whom(ada: Person) -> None:
    status, name, _ = run(ada, "p", "review: {scripted: reviewer.yaml}\ngate: {wave: {every: 1}}")
    assert status == 0
    (intent, of_command) = [one for one in journal(ada, name) if isinstance(one, e.LandingIntended)]
    assert [one and one.kind for one in intent.approvals] == ["review"] and of_command.approvals == (None,)
    said = ada.forgepool("report", name).out
    assert "by scripted (scripted)" in said and "passed by scripted (another), who read 1 of 1" in said
    assert [one.result.verdict for one in journal(ada, name) if isinstance(one, e.WaveAnswered)] == ["green"] * 3
    assert "- integration review of 2 landings, " in said and "who read 2 of 2 changed files" in said
    assert "Integration review not passed" not in said


def test_what_is_failed_as_a_whole_stays_landed_and_the_run_waits_for_a_person_days_later(ada: Person) -> None:
    each = "review: {scripted: strict.yaml}\ngate: {wave: {every: 1}, integration_review: each}"
    status, name, said = run(ada, "w", each)
    assert status == 1 and f"forgepool approve {name} --wave --by NAME" in said and "who uses x is left behind" in said
    tasks = "--format=%(trailers:key=Forgepool-Task,valueonly,separator=)"
    assert ada.git("log", "--first-parent", tasks, "main..forgepool/w").split() == ["one"]
    report = ada.forgepool("report", name).out
    assert report.index("## Integration review not passed") < report.index("## Landed, in this order")
    assert "  - held: high bug, a.py:1: who uses x is left behind" in report
    assert "landing is paused: " in ada.forgepool("status", name).out
    assert "is not named" in ada.forgepool("approve", name, "--wave").err
    assert ada.forgepool("approve", name, "--wave", "--by", "Ada").status == 0, "the run goes on by itself"
    assert ada.git("log", "--first-parent", tasks, "main..forgepool/w").split() == ["two", "one"]
    answers = [one.result.outcome for one in journal(ada, name) if isinstance(one, e.WaveReviewAnswered)]
    assert answers == ["failed", "passed"]


def test_a_run_that_nobody_can_review_waits_for_a_word_and_lands_on_it_after_it_has_ended(ada: Person) -> None:
    status, name, said = run(ada, "q")
    assert (
        status == 1
        and "waits for a person: no model may review it" in said
        and f"forgepool approve {name} one --by NAME" in said
    )
    assert "two: blocked" in said
    refused = ada.forgepool("approve", name, "one")
    assert refused.status == 2 and "give a name" in refused.err and refused.err.count("\n") == 1
    assert "wants no approval" in ada.forgepool("approve", name, "two", "--by", "Ada").err
    given = ada.forgepool("approve", name, "one", "--by", "Ada", "--no-resume")
    assert given.status == 0 and given.out.endswith(f"continue with: forgepool resume {name}\n")
    assert "approved already, by Ada" in ada.forgepool("approve", name, "one", "--by", "Bob").err
    assert ada.forgepool("resume", name).status == 0
    tasks = "--format=%(trailers:key=Forgepool-Task,valueonly,separator=)"
    assert ada.git("log", "--first-parent", tasks, "main..forgepool/q").split() == ["two", "one"]
    assert "a landing is not taken back" in ada.forgepool("reject", name, "one", "--by", "Ada").err


def test_a_target_that_wants_reviews_has_commands_wait_for_a_word_though_the_plan_wants_none(ada: Person) -> None:
    """A reviewer is available, landing is not paused, and the person's approval counts."""
    ada.commit({"forgepool.yaml": "version: 1\nchecks: {own: test -e a.py}\nreview: required\n"})
    status, name, said = run(ada, "s", "review: none\ndefaults: {agent: {command: 'echo x = 3 > a.py'}}")
    assert status == 1 and f"forgepool approve {name} one --by NAME" in said, said
    assert not [one for one in journal(ada, name) if isinstance(one, e.GateHalted)]
    ada.forgepool("approve", name, "one", "--by", "Ada")
    landed = [one for one in journal(ada, name) if isinstance(one, e.LandingAnswered)]
    assert [(one.task, one.result.outcome) for one in landed] == [("one", "landed")]


def test_a_rejected_candidate_is_made_again_with_the_reason(ada: Person) -> None:
    _, name, _ = run(ada, "r")
    given = ada.forgepool("reject", name, "one", "two is not what was meant", "--by", "Ada")
    assert given.status == 1 and "Ada does not let it land: two is not what was meant" in given.out
    sent = [one for one in journal(ada, name) if isinstance(one, e.OrderSent) and one.task == "one"]
    assert [one.attempt for one in sent] == [1, 2]


_THREE = """
version: 1
name: NAME
checks: {test: "python3 -c 'import a; assert a.x'"}
review: person
tasks:
  - {id: one, files: [a.py], agent: {scripted: author.yaml}}
  - {id: two, files: [b.py], agent: {scripted: other.yaml}}
  - {id: broken, files: [a.py, c.py], agent: {scripted: broken.yaml}}
"""


def test_all_that_is_green_is_approved_at_once_and_the_run_goes_on_by_itself(ada: Person) -> None:
    ada.write(
        {
            "other.yaml": _AUTHOR.replace("a.py", "b.py"),
            "broken.yaml": _AUTHOR.replace("x = 2", "x = 0"),
            "plan.yaml": _THREE.replace("NAME", "g"),
        }
    )
    assert ada.forgepool("run", "plan.yaml", "--workers", "1").status == 1
    (made,) = (ada.folder.parent / "home" / "runs").glob("g-*")
    waiting = ada.forgepool("status", made.name).out
    assert waiting.count("says `review: person`") == 2, waiting
    assert "give a name" in ada.forgepool("approve", made.name, "--all-green").err
    given = ada.forgepool("approve", made.name, "--all-green", "--by", "Ada")
    assert given.status == 1 and "2 of 3 landed" in given.out, "a red check is made up for by no word"
    approved = [one.task for one in journal(ada, made.name) if isinstance(one, e.TaskApproved)]
    assert sorted(approved) == ["one", "two"]
    again = ada.forgepool("approve", made.name, "--all-green", "--by", "Ada")
    assert again.status == 2 and "waits for a person with passing checks" in again.err


def test_a_target_says_who_reviews_for_plans_that_do_not(ada: Person) -> None:
    ada.commit({"forgepool.yaml": "version: 1\nchecks: {own: test -e a.py}\nreview: none\n"})
    status, _, said = run(ada, "t")
    assert status == 0, said
