"""`answers`, `context` and `files: []` in a plan: what they stand for, and a sentence for each mistake."""

from pathlib import Path

import pytest

from forgepool.orchestrator.plan.document import Plan, PlanWrong, TaskNeed, dump_plan, parse_plan, read_expanded

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
