"""A plan's options for reviews, the gate's order, and changes of tests and protected files."""

from pathlib import Path
from typing import Any

import pytest

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.launch.prerequisites import unreviewable
from forgepool.orchestrator.plan.document import Plan, dump_plan, parse_plan, read_expanded
from forgepool.orchestrator.plan.entries import GateOptions, PlanReview, Wave
from forgepool.workers.policy.gate_file.document import RULES
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import Limits
from forgepool.workers.schema.settings import Settings

HEAD = "version: 1\nname: p\nchecks: none\n"
TASKS = "tasks: [{id: one, agent: {builtin: {}}}]\n"


def plan(text: str, folder: Path = Path()) -> Plan:
    return parse_plan(HEAD + text, "plan.yaml", folder, list)


def refused(text: str, folder: Path = Path()) -> str:
    with pytest.raises(DocumentWrong) as wrong:
        plan(text, folder)
    return str(wrong.value)


def test_everything_that_can_be_said_of_reviews_is_in_the_expanded_plan_and_read_back() -> None:
    found = plan(
        "review: {by: [gpt-x, gemini-x], reviewers: 2, rounds: 3, fix: must, commands: true,\n"
        "  limits: {turns: 9, wall_s: 5m}}\n"
        "gate: {order: side_by_side, wave: {every: 5}}\n" + TASKS
    )
    assert isinstance(found.review, PlanReview) and found.review.commands
    policy = found.review.policy
    assert (policy.by, policy.reviewers, policy.rounds, policy.threshold) == (("gpt-x", "gemini-x"), 2, 3, "fix")
    assert (policy.limits.turns, policy.limits.wall_s) == (9, 300.0)
    assert found.gate == GateOptions(order="side_by_side", wave=Wave(every=5), integration_review="end")
    assert read_expanded(dump_plan(found)) == found


def test_a_silent_plan_has_models_work_reviewed_cheapest_first_and_no_waves() -> None:
    found = plan(TASKS)
    assert found.review is None and found.gate == GateOptions() and PlanIndex(found, {}).reviewed == {"one"}
    assert found.gate.order == "cheap_first" and found.gate.wave is None


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("gate: {wave: {}}\n", "never"),
        ("review: {by: [x]}\n", "never"),
        ("review: none\ngate: {wave: {}}\n", "never"),
        ("review: {by: [x]}\ngate: {wave: {}}\n", "end"),
        ("review: {by: [x]}\ngate: {wave: {}, integration_review: never}\n", "never"),
        ("review: none\ngate: {wave: {every: 3}, integration_review: each}\n", "each"),
    ],
)
def test_what_lands_is_reviewed_as_a_whole_where_both_a_wave_and_a_review_are_written_or_it_is_said(
    text: str, when: str
) -> None:
    found = plan(text + TASKS)
    assert found.gate.integration_review == when == PlanIndex(found, {}).integration_review
    assert read_expanded(dump_plan(found)) == found


def test_limits_that_are_not_written_are_the_reviewers_own() -> None:
    found = plan("review: {limits: {turns: 9}}\n" + TASKS)
    policy = PlanIndex(found, {}).review_policy
    assert policy.limits.idle_s == 600.0 and policy.limits.wall_s == 1800.0 != Limits().wall_s


def test_reviews_in_one_call_may_go_by_the_batch_lane() -> None:
    found = plan("review: {context_mode: injected, lane: batch, when: night, deadline: 2h}\n" + TASKS)
    policy = PlanIndex(found, {}).review_policy
    assert (policy.context_mode, policy.lane, policy.when, policy.deadline) == ("injected", "batch", "night", 7200.0)
    assert read_expanded(dump_plan(found)) == found
    silent = PlanIndex(plan("review: {by: [x]}\n" + TASKS), {}).review_policy
    assert (silent.lane, silent.deadline) == ("live", 3600.0)
    older = {"context_mode", "lane", "when", "deadline"}
    assert not older & silent.model_dump().keys(), "an older worker could not read it"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("lane: batch", "a reviewer with tools; write 'context_mode: injected'"),
        ("lane: batch, context_mode: injected, reviewers: 2", "takes one reviewer, and there are 2"),
        ("lane: batch, context_mode: injected, scripted: r.yaml", "a script answers at once; leave it out"),
        ("context_mode: injected, rounds: 2", "one that is 'injected' is asked once; leave them out"),
        ("when: night", "'when' is about batches; write 'lane: batch' beside it"),
        ("context_mode: injected, deadline: 1h", "'deadline' is about batches; write 'lane: batch' beside it"),
        ("lane: batch, context_mode: injected, deadline: 0", "deadline"),
        ("lane: bulk", "lane"),
    ],
)
def test_a_lane_that_fits_no_such_review_is_refused_in_one_sentence(written: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("turns: []\n")
    wrong = refused(f"review: {{{written}}}\n{TASKS}", tmp_path)
    assert said in wrong and "plan.yaml:4" in wrong and wrong.count("\n") == 0, wrong


def test_a_plan_that_was_kept_before_there_were_reviews_is_read() -> None:
    old = '{"name": "p", "checks": "none", "tasks": [{"id": "one", "agent": {"kind": "command", "run": "true"}}]}'
    assert read_expanded(old).review is None
    earlier = old.replace('"checks"', '"gate": {"order": "cheap_first", "wave": {"every": 2}}, "checks"')
    assert read_expanded(earlier).gate.integration_review == "never"


def test_a_script_travels_as_its_text(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("turns: []\n")
    found = plan("review: {scripted: r.yaml}\n" + TASKS, tmp_path)
    assert isinstance(found.review, PlanReview) and found.review.policy.script == "turns: []\n"


def test_a_tasks_words_go_before_the_defaults(tmp_path: Path) -> None:
    rule = sorted(RULES)[0]
    found = plan(
        f"defaults: {{agent: {{builtin: {{}}}}, grants: [ci/**], waive: [{rule}], review: none}}\n"
        "tasks:\n"
        "  - {id: one}\n"
        "  - {id: two, grants: [], waive: []}\n"
    )
    one, two = found.tasks
    assert (one.grants, one.waive, one.review) == (("ci/**",), (rule,), "none")
    assert (two.grants, two.waive) == ((), ())


def test_grants_of_a_task_that_is_repeated_are_filled_in() -> None:
    text = (
        "tasks:\n  - id: one\n    for_each: {files: 'src/*.py'}\n"
        "    grants: ['tests/test_{stem}.py']\n    agent: {command: 'x {path}'}\n"
    )
    found = parse_plan(HEAD + text, "plan.yaml", Path(), lambda: ["src/a.py"])
    assert found.tasks[0].grants == ("tests/test_a.py",)


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("review: all\n", 4, "'review' must be 'self-other-model', 'person' or 'none', is 'all'"),
        ("review: {fix: all}\n", 4, "'fix' of 'review' must be 'must' or 'easy', is 'all'"),
        ("review: {reviewers: 0}\n", 4, "'reviewers' of 'review' must be at least 1, is 0"),
        ("review: {bye: [x]}\n", 4, "'review' has an unknown key 'bye'; did you mean 'by'?"),
        ("review:\n  scripted: gone.yaml\n", 5, "script that cannot be used: gone.yaml: there is no such file"),
        ("gate: {order: cheap}\n", 4, "'order' of 'gate' must be 'cheap_first', 'side_by_side' or 'review_first'"),
        ("gate: {wave: {every: 0}}\n", 4, "'every' of 'wave' of 'gate' must be at least 1, is 0"),
        (
            "gate:\n  integration_review: end\n",
            5,
            "is 'end', and there is no 'wave' that it follows; write",
        ),
        ("gate: {integration_review: always}\n", 4, "'integration_review' of 'gate' must be 'never', 'end' or 'each'"),
    ],
)
def test_mistakes_are_sentences_with_their_lines(text: str, line: int, sentence: str) -> None:
    said = refused(text + TASKS)
    assert sentence in said and f"plan.yaml:{line}:" in said


def test_a_script_and_models_at_once_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("turns: []\n")
    assert "both 'by' and 'scripted'" in refused("review: {scripted: r.yaml, by: [x]}\n" + TASKS, tmp_path)


def test_an_unknown_rule_is_refused_with_the_nearest_where_it_is_written() -> None:
    rule = sorted(RULES)[0]
    said = refused(f"tasks:\n  - id: one\n    agent: {{command: make}}\n    waive: [{rule}x]\n")
    assert f"plan.yaml:7: 'waive' names '{rule}x', which is no rule; did you mean '{rule}'?" in said
    said = refused("defaults:\n  waive: [zzzzzz]\n" + TASKS)
    assert "plan.yaml:5: 'waive' names 'zzzzzz', which is no rule; rules are:" in said


def test_a_grant_that_is_no_glob_is_refused() -> None:
    said = refused("tasks: [{id: one, agent: {command: make}, grants: [/etc/x]}]\n")
    assert "'grants' of task 'one' has the glob '/etc/x'" in said


@pytest.mark.parametrize(
    ("keys", "review", "agent", "warned"),
    [
        ({"ANTHROPIC_API_KEY"}, "", "{builtin: {}}", True),
        ({"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}, "", "{builtin: {}}", False),
        (set(), "", "{cli: codex}", True),
        ({"OPENAI_API_KEY"}, "", "{cli: claude}", False),
        (set(), "", "{command: make}", False),
        (set(), "review: none\n", "{builtin: {}}", False),
    ],
)
def test_who_will_find_no_reviewer_is_told_so_beforehand(
    keys: Any, review: str, agent: str, warned: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in keys:
        monkeypatch.setenv(name, "k")
    settings = Settings(home=tmp_path, cache=tmp_path, broker_url=None, models_file=None)
    said = unreviewable(plan(f"{review}tasks: [{{id: one, agent: {agent}}}]\n"), settings)
    assert (said is not None) == warned
    assert said is None or ("review one" in said and "forgepool approve" in said)
    whole = plan(f"review: none\ngate: {{wave: {{}}, integration_review: end}}\ntasks: [{{id: one, agent: {agent}}}]\n")
    said = unreviewable(whole, settings)
    assert (said is not None) == (not keys or (warned and agent == "{builtin: {}}"))
    assert said is None or ("integration review" in said and "forgepool approve --wave" in said)


def test_a_task_that_answers_needs_no_reviewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    settings = Settings(home=tmp_path, cache=tmp_path, broker_url=None, models_file=None)
    agent = "agent: {builtin: {model: claude-opus-5-5}}"
    assert unreviewable(plan(f"tasks: [{{id: one, {agent}, answers: true}}]\n"), settings) is None
    said = unreviewable(plan(f"tasks: [{{id: one, {agent}, answers: true}}, {{id: two, {agent}}}]\n"), settings)
    assert said is not None and "can review two:" in said


def test_criteria_and_lenses_reach_the_plan_and_leave_older_digests_alone() -> None:
    found = plan(
        "review: {reviewers: 2, lenses: [review-security, review-tests]}\n"
        "tasks: [{id: one, agent: {builtin: {}}, criteria: [It is fast.]}]\n"
    )
    assert isinstance(found.review, PlanReview)
    assert found.review.policy.lenses == ("review-security", "review-tests")
    assert found.tasks[0].criteria == ("It is fast.",)
    assert read_expanded(dump_plan(found)) == found
    silent = dump_plan(plan("review: {reviewers: 2}\n" + TASKS))
    assert "lenses" not in silent and "criteria" not in silent


@pytest.mark.parametrize(
    "text",
    [
        "tasks: [{id: one, agent: {builtin: {}}, review: none, criteria: [It is fast.]}]\n",
        "review: none\ntasks: [{id: one, agent: {builtin: {}}, criteria: [It is fast.]}]\n",
        "review: none\ndefaults: {criteria: [It is fast.]}\n" + TASKS,
        "tasks: [{id: one, agent: {command: make}, criteria: [It is fast.]}]\n",
        "tasks: [{id: one, agent: {builtin: {}}, answers: true, criteria: [It is fast.]}]\n",
        "tasks: [{id: one, agent: {builtin: {}}, files: [], criteria: [It is fast.]}]\n",
    ],
)
def test_criteria_without_a_reviewer_are_refused(text: str) -> None:
    assert "has 'criteria', and no reviewer looks at its work; remove them" in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "defaults: {criteria: [It is fast.]}\ntasks: [{id: one, agent: {command: make}}]\n",
        "review: {commands: true}\ntasks: [{id: one, agent: {command: make}, criteria: [It is fast.]}]\n",
    ],
)
def test_criteria_of_all_tasks_or_of_a_reviewed_command_are_no_mistake(text: str) -> None:
    assert plan(text).tasks[0].criteria == ("It is fast.",)
