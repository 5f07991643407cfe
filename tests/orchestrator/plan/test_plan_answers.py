"""`answers`, `context` and `files: []` in a plan: what they stand for, and a sentence for each mistake."""

from pathlib import Path

import pytest

from forgepool.orchestrator.launch.preflight import warn_unread_survey, warn_unused_verify
from forgepool.orchestrator.plan.document import Plan, PlanWrong, TaskNeed, dump_plan, parse_plan, read_expanded
from forgepool.orchestrator.plan.validation.lines import PlanLines
from forgepool.workers.schema.orders import BuiltinAgent

HEAD = "version: 1\nname: p\ndefaults: {agent: {builtin: {}}}\ntasks:\n"
"""Four lines, so that the first task is on line 5."""
TREE = ("src/a.py", "README.md")


def plan(tasks: str) -> Plan:
    return parse_plan(HEAD + tasks, "plan.yaml", Path("absent"), lambda: TREE)


def test_a_task_that_answers_declares_no_file_and_keeps_its_context() -> None:
    read = plan(
        "  - {id: ask, answers: true, context: [README.md, 'src/a.py:3-9']}\n"
        "  - {id: use, needs: [ask], context: ['ask:full', made-later.md]}\n"
    )
    ask, use = read.tasks
    assert (ask.answers, ask.files, ask.context) == (True, (), ("README.md", "src/a.py:3-9"))
    assert (use.needs, use.context) == ((TaskNeed(id="ask", full=True),), ("made-later.md",))
    assert read_expanded(dump_plan(read)) == read
    assert (
        "answers" not in dump_plan(plan("  - {id: one}\n"))
        and "context" not in plan("  - {id: a}\n").tasks[0].model_dump()
    )


def test_a_task_that_writes_nothing_is_done_without_a_change() -> None:
    nothing, some = plan("  - {id: a, files: []}\n  - {id: b, files: [x]}\n").tasks
    assert (nothing.files, nothing.unchanged, some.unchanged) == ((), "ok", "fail")


def test_context_is_filled_in_for_each_file() -> None:
    (one,) = plan("  - {id: ask, answers: true, for_each: {files: 'src/*'}, context: ['{path}:1-2']}\n").tasks
    assert one.context == ("src/a.py:1-2",)


@pytest.mark.parametrize(
    ("task", "wrong"),
    [
        (
            "{id: ask, answers: true, files: [a.py]}",
            "task 'ask' answers and changes nothing; remove its 'files', or 'answers'",
        ),
        (
            "{id: ask, answers: true, acceptance: ['true']}",
            "task 'ask' answers and changes nothing; remove its 'acceptance', or 'answers'",
        ),
        (
            "{id: ask, answers: true, agent: {command: make}}",
            "task 'ask' answers, which only a 'builtin' or a 'scripted' agent can; give it one",
        ),
        (
            "{id: one, context: [src/b.py]}",
            "'context' of task 'one' has 'src/b.py', which is no file of the repository",
        ),
        ("{id: one, context: ['src/b.py:2']}", "'context' of task 'one' has 'src/b.py:2', which is no file"),
        (
            "{id: one, context: [two]}\n  - {id: two}",
            "'context' of task 'one' has 'two', which it does not need; add it",
        ),
    ],
)
def test_a_mistake_has_its_sentence_and_line(task: str, wrong: str) -> None:
    with pytest.raises(PlanWrong) as caught:
        plan(f"  - {task}\n")
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(f"plan.yaml:5: {wrong}")


SURVEYED = "version: 1\nname: p\nsurvey: true\n"


def surveyed(rest: str, survey: str = "true") -> Plan:
    head = SURVEYED.replace("survey: true", f"survey: {survey}")
    return parse_plan(head + rest, "plan.yaml", Path("absent"), lambda: TREE)


def test_a_survey_is_one_answering_task_that_all_tasks_of_models_need() -> None:
    """It takes the model and the limits of the defaults, and neither their work nor their skill and workflow."""
    agent = "{builtin: {model: m, skill: tester, workflow: build}}"
    defaults = f"defaults: {{agent: {agent}, acceptance: [make], limits: {{turns: 9}}}}\n"
    tasks = "tasks:\n  - {id: a}\n  - {id: b, needs: [a], agent: {cli: claude}}\n  - {id: c, agent: {command: make}}\n"
    read = surveyed(defaults + tasks, "{about: Where are dates parsed?}")
    a, b, c, survey = read.tasks
    assert (survey.id, survey.answers, survey.surveys, survey.files, survey.acceptance) == (
        "survey",
        True,
        True,
        (),
        (),
    )
    assert survey.agent == BuiltinAgent(model="m") and survey.limits.turns == 9
    assert survey.description.endswith("Where are dates parsed?")
    need = TaskNeed(id="survey", full=True)
    assert (a.needs, b.needs, c.needs) == ((need,), (need, TaskNeed(id="a")), ())
    assert read_expanded(dump_plan(read)) == read and "surveys" not in dump_plan(plan("  - {id: one}\n"))


def test_a_survey_that_no_task_reads_is_warned_about() -> None:
    read = "defaults: {agent: {builtin: {}}}\ntasks:\n  - {id: a}\n"
    assert warn_unread_survey(surveyed(read)) is None and warn_unread_survey(plan("  - {id: a}\n")) is None
    alone = warn_unread_survey(surveyed("tasks:\n  - {id: a, agent: {command: make}}\n"))
    assert alone == "no task of plan p reads its survey, because commands do all its work; remove 'survey'"


def test_checks_before_the_gate_for_a_command_are_warned_about() -> None:
    written = "  - {id: a, agent: {command: make}, verify: checks}\n"
    said = "'verify' is for the built-in agent, and does nothing for 'a'; remove it there"
    assert warn_unused_verify(plan(written)) == said
    assert warn_unused_verify(plan("  - {id: a, agent: {cli: codex}, verify: checks}\n")) == said
    own = "  - {id: b, agent: {builtin: {}}, verify: checks}\n"
    assert warn_unused_verify(plan(own)) is None and warn_unused_verify(plan(written + own)) is None


def test_without_a_usable_default_the_survey_is_the_builtin_agents() -> None:
    task = "defaults: {agent: {command: make}}\ntasks:\n  - {id: a}\n"
    assert surveyed(task).tasks[-1].agent == BuiltinAgent()
    assert surveyed(task.replace("command: make", "builtin: {red_first: true}")).tasks[-1].agent == BuiltinAgent()
    assert [task.id for task in surveyed(task, "false").tasks] == ["a"]


@pytest.mark.parametrize(
    ("tasks", "survey", "wrong"),
    [
        (
            "  - {id: survey}\n",
            "true",
            "plan.yaml:3: 'survey' adds a task 'survey', and line 6 has one; give that another id",
        ),
        (
            "  - {id: a}\n",
            "{agent: {cli: claude}}",
            "plan.yaml:3: task 'survey' answers, which only a 'builtin' or a 'scripted' agent can; give it one",
        ),
        ("  - {id: a}\n", "yes", "plan.yaml:3: 'survey' must be `true` or a mapping; its keys are"),
        ("  - {id: a}\n", "[a]", "plan.yaml:3: 'survey' must be `true` or a mapping; its keys are"),
    ],
)
def test_a_mistake_about_the_survey_has_its_sentence_and_line(tasks: str, survey: str, wrong: str) -> None:
    with pytest.raises(PlanWrong) as caught:
        surveyed(f"defaults: {{agent: {{builtin: {{}}}}}}\ntasks:\n{tasks}", survey)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(wrong)


def test_the_lines_of_a_surveyed_plan_are_those_of_its_tasks() -> None:
    text = f"{SURVEYED}defaults: {{agent: {{builtin: {{}}}}}}\ntasks:\n  - id: a\n    title: A\n"
    lines = PlanLines.of(text, "plan.yaml", lambda: TREE)
    assert (lines.of_task("a"), lines.of_task("a", "title"), lines.of_plan("survey")) == (6, 7, 3)
    assert (lines.of_task("survey"), lines.of_task("survey", "agent"), lines.of_task("absent")) == (3, 3, 0)
