"""The report on reviews: author, reviewer, what was read, findings kept and dropped, flaky tests, and who is needed."""

import json
from pathlib import Path
from typing import Any

import pytest
from plans import (
    RUN,
    answered,
    awaited,
    begun,
    check_sent,
    course,
    intended,
    landing,
    queued,
    review,
    review_answered,
    review_sent,
    sent,
    task,
    verdict,
)

from forgepool.orchestrator.cli.output.standing import tell_wanted
from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.plan.entries import GateOptions, Wave
from forgepool.orchestrator.reports.event_text import sentence, telling_lines
from forgepool.orchestrator.reports.report import flake_scores, report_lines
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.orchestrator.state.fold import apply
from forgepool.supervisor.findings import ReviewFinding
from forgepool.supervisor.messages.answers import CheckFailure, Flake, ReviewApproval
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack, Spent
from forgepool.workers.workspace.scans.findings import ScanFinding

OF = course(task("a", agent=BuiltinAgent(), attempts=1), gate=GateOptions(wave=Wave()))
BUG = ReviewFinding(severity="high", category="bug", file="a.py", line=3, claim="off by one", evidence="f(1)", fix="<=")
STYLE = ReviewFinding(severity="low", category="style", file="a.py", claim="short name", evidence="x")
SEEN = ScanFinding(rule="test-edited", path="tests/t.py", line=2, weight="attention", said="it was edited")
READ: dict[str, Any] = {"changed": ("a.py", "b.py", "c.py"), "read": ("a.py", "b.py", "else.py")}
MADE = answered("a", models=("claude-x",), families=("claude",))
GREEN = e.CheckAnswered(
    task="a",
    result=verdict("a", findings=(SEEN,), flaky=(Flake(check="test", tests=("t1",)),), red_base=("old1", "old2")),
)
STEPS: list[e.Event] = [
    *(sent("a"), MADE, queued("a", reviewed=True), check_sent("a"), GREEN, awaited("a"), review_sent("a")),
    review_answered("a", findings=(STYLE,), spent=Spent(input_tokens=700, cost_usd=0.2), host="h", **READ),
    intended("a", approval=ReviewApproval(patch_id="patch-a-1", families=("gpt",), models=("gpt-x",))),
    e.LandingAnswered(task="a", result=landing("a")),
]
WAVE: list[e.Event] = [
    e.WaveSent(number=1, message_id="w", token="t", base="m-a-1", since="c0", tasks=("a",), issued_at=1.0),
    e.WaveAnswered(
        result=verdict("a", "base_red", detail="check 'test' is red").model_copy(update={"request_id": "w"})
    ),
]


def reported(folder: Path, *events: e.Event) -> str:
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="d")
    recorded = [Recorded(number, 100.0 + number, event) for number, event in enumerate(events, start=1)]
    return "\n".join(report_lines(KeptRun(folder, options, OF.plan, OF), begun(OF, *events), recorded))


def test_the_report_says_who_wrote_who_reviewed_and_what_was_read_found_and_known(tmp_path: Path) -> None:
    text = reported(tmp_path, *STEPS, *WAVE)
    for line in (
        "  - by builtin, claude-x (claude)",
        "  - scan, attention: tests/t.py:2: test-edited: it was edited",
        "  - review: passed by gpt-x (gpt), who read 2 of 3 changed files",
        "    - dropped: low style, a.py: short name; x",
        "- 2 failures there before this run, not counted: old1, old2",
        "- all checks on m-a-1, after 1 landing since c0: base_red: check 'test' is red",
        "- test t1: 1 of 1 runs (100%)",
        "    - of that, by reviews: gpt-x: 700 tokens in, 0 out, 0.20 USD",
    ):
        assert line in text.split("\n"), text
    assert ", 1 review, 1 landing" in text


def test_the_report_keeps_what_was_held_and_what_was_dropped_of_a_candidate_that_came_back(tmp_path: Path) -> None:
    failed = review_answered("a", "failed", findings=(STYLE, BUG), **READ)
    state = begun(OF, *STEPS[:7], failed)
    text = reported(tmp_path, *STEPS[:7], failed, *decide(OF, state, now=1.0, order_slots=0, draining=False))
    held, dropped = text.index("held: high bug, a.py:3: off by one; f(1); <="), text.index("dropped: low style")
    assert held < dropped and "failed by gpt-x (gpt)" in text


def test_a_persons_word_is_in_the_report(tmp_path: Path) -> None:
    approved = e.TaskApproved(task="a", by="Ada", commit="c-a-1")
    assert "  - approved by Ada, for c-a-1" in reported(tmp_path, *STEPS[:7], approved)


def test_a_flakes_score_counts_the_runs_in_which_it_had_its_say() -> None:
    """Reused results and runs of other checks do not count."""
    flaky = verdict("a", flaky=(Flake(check="test", tests=("t1",)),))
    (certificate,) = flaky.certificates
    reused = flaky.model_copy(update={"flaky": (), "certificates": (certificate.model_copy(update={"reused": True}),)})
    failure = CheckFailure(check="test", how="exit", status=1, log_tail="", log="")
    red = verdict("a", "red", failures=(failure,))
    results = [flaky, reused, verdict("a"), red, verdict("a", "red")]
    recorded = [Recorded(1, 1.0, e.CheckAnswered(task="a", result=one)) for one in results]
    ((score),) = flake_scores(recorded)
    assert (score.check, score.test, score.flakes, score.runs) == ("test", "t1", 1, 3)


def test_status_has_all_of_it_for_programs() -> None:
    (line,) = standing(OF, begun(OF, *STEPS), now=1.0, live=False).tasks
    assert line.author == "builtin, claude-x (claude)" and line.red_base == ("old1", "old2")
    assert line.flaky == ("'test' (t1)",) and line.review is not None
    found = line.review
    assert (found.outcome, found.models, found.read, found.changed) == ("passed", ("gpt-x",), 2, 3)
    assert (found.held, found.dropped) == ((), ("low style, a.py: short name; x",))
    assert standing(OF, begun(OF, *STEPS), now=1.0, live=False).as_json()["tasks"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "waits for a reviewer"),
        ([review_sent("a")], "no reviewer has taken it yet"),
        ([review_sent("a"), e.MessageTaken(message_id=f"{RUN}.a.1.review-1", host="h", pid=7)], "under review on h/7"),
        ([e.GateHalted(why="main is red")], "landing is paused: main is red"),
        (
            [review_sent("a"), review_answered("a", "infrastructure", detail="no disk")],
            "the last review failed: no disk",
        ),
        ([review_sent("a"), review_answered("a", "infrastructure", not_before=900.0)], "for a model's rate limit"),
    ],
)
def test_who_waits_for_a_review_says_for_what(more: list[e.Event], words: str) -> None:
    (line,) = standing(OF, begun(OF, *STEPS[:6], *more), now=1.0, live=True).tasks
    assert line.phase == "reviewing" and words in line.detail


def test_whoever_a_person_is_wanted_for_is_told_with_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    state = begun(OF, *STEPS[:7], review_answered("a", "unreachable", detail="no key"))
    for event in decide(OF, state, now=1.0, order_slots=0, draining=False):
        apply(state, event, number=state.number + 1, at=1.0)
    now = standing(OF, state, now=1.0, live=False)
    assert now.tasks[0].wanted == "review"
    tell_wanted(now)
    said = capsys.readouterr().out
    assert "no key" in said and f"forgepool approve {RUN} a --by NAME" in said


def test_every_event_of_a_review_is_one_line() -> None:
    reason = ReasonPack(attempt=1, kind="rejected", summary="Ada does not let it land: no")
    told: list[e.Event] = [
        *(review_sent("a"), review_answered("a", **READ), review_answered("a", "failed", findings=(BUG,), **READ)),
        *(review_answered("a", "infrastructure", detail="d"), *WAVE[:1]),
        review_answered("a", "infrastructure", detail="d", not_before=5.0),
        e.TaskApproved(task="a", by="Ada", commit="c-a-1"),
        e.TaskRejected(task="a", by="Ada", reason=reason, again=True),
        e.CandidateRestored(task="a"),
        e.WaveAnswered(result=verdict("a")),
        e.WaveAnswered(result=verdict("a", "infrastructure", detail="d")),
    ]
    for event in told:
        said = sentence(event)
        assert said and "\n" not in said, event.kind
    assert sentence(told[1]) == "a: passed by gpt-x (gpt), who read 2 of 3 changed files"
    assert "1 finding" in (sentence(told[2]) or "")


def test_what_a_scan_found_is_told_beneath_what_comes_back() -> None:
    reason = ReasonPack(attempt=1, kind="findings", summary="s", findings=("a.py:1: placeholder: said",))
    assert telling_lines(Recorded(1, 1.0, e.TaskReturned(task="a", reason=reason))) == ("a.py:1: placeholder: said",)


def test_events_of_reviews_are_read_back_and_earlier_ones_too() -> None:
    approved = e.TaskApproved(task="a", by="Ada", commit="c-a-1")
    for event in (*STEPS, *WAVE, approved, e.ReviewAnswered(task="a", result=review("a", findings=(BUG,)))):
        assert e.EVENT.validate_json(event.encode()) == event
    earlier = '{"kind": "entry.queued", "task": "a"}'
    assert e.EVENT.validate_json(earlier) == e.EntryQueued(task="a", reviewed=False)
    old = intended("a").model_dump_json(exclude={"approvals"})
    alone = json.loads(old) | {"approval": None}
    assert e.EVENT.validate_json(json.dumps(alone)) == intended("a")
    landed = json.loads(e.LandingAnswered(task="a", result=landing("a")).encode())
    for told, meant in ((False, ""), (True, "*")):
        landed["result"]["unapproved"] = told
        read = e.EVENT.validate_json(json.dumps(landed))
        assert isinstance(read, e.LandingAnswered) and read.result.unapproved == meant
    assert e.EVENT.validate_json(old) == intended("a").model_copy(update={"approvals": ()})
