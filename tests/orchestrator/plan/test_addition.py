"""Tasks for a run under way are read like those of a plan file, against the plan that stands."""

from pathlib import Path

import pytest

from forgepool.orchestrator.plan.addition import check_growth, grow_plan, read_addition
from forgepool.orchestrator.plan.document import Plan, PlanWrong, Task, TaskNeed, parse_plan
from forgepool.workers.schema.orders import CommandAgent, ScriptedAgent

TREE = ("src/a.py", "src/b.py")
ENDED = {"bad": "has failed", "gone": "was dropped from the run"}
PLAN = parse_plan(
    "version: 1\nname: p\ndefaults: {agent: {command: make}}\ntasks: [{id: a}, {id: bad}, {id: last, needs: [a]}]\n",
    "plan.yaml",
    Path("absent"),
    lambda: TREE,
)


def read(tasks: str, *, plan: Plan = PLAN, folder: Path = Path("absent")) -> tuple[Task, ...]:
    text = f"defaults: {{agent: {{command: more}}}}\ntasks:\n{tasks}"
    return read_addition(text, plan, folder, lambda: TREE, name="more.yaml", ended=ENDED)


def test_added_tasks_need_the_plans_and_one_another_and_have_defaults_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "turns.yaml").write_text("turns: []\n")
    tasks = (
        "  - {id: '{stem}-x', for_each: {files: 'src/*.py'}, group: all, needs: [a]}\n"
        "  - {id: sum, needs: [all, 'last:full'], agent: {scripted: turns.yaml}}\n"
    )
    first, second, whole = read(tasks, folder=tmp_path)
    assert (first.id, second.id, first.needs) == ("a-x", "b-x", (TaskNeed(id="a"),))
    assert first.agent == CommandAgent(run="more")
    assert [(need.id, need.full) for need in whole.needs] == [("a-x", False), ("b-x", False), ("last", True)]
    assert whole.agent == ScriptedAgent(script="turns: []\n")
    grown = grow_plan(PLAN, (first, second, whole), ("last",))
    assert [task.id for task in grown.tasks] == ["a", "bad", "a-x", "b-x", "sum"]


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        ("  - {id: a}", "3: the run has a task 'a' already; give this one another id"),
        ("  - {id: A}", "3: the run has a task 'A' already (as 'a'; case does not tell ids apart)"),
        ("  - {id: n}\n  - {id: n}", "4: the id 'n' is given twice (first on line 3); change one"),
        ("  - {id: n, needs: [nowhere]}", "3: task 'n' needs 'nowhere', which is not in the run; tasks are:"),
        ("  - {id: n, needs: ['bad:full']}", "3: task 'n' needs 'bad:full', which has failed; need another task"),
        ("  - {id: n, needs: [gone]}", "3: task 'n' needs 'gone', which was dropped from the run; need another task"),
        ("  - {id: n, needs: [m]}\n  - {id: m, needs: [n]}", "3: task 'n' waits for itself: n -> m -> n"),
        ("  - {id: n, agent: {scripted: none.yaml}}", "3: task 'n' has a script that cannot be used: none.yaml"),
        ("  - {id: n, files: ['/etc/passwd']}", "3: 'files' of task 'n' has the glob '/etc/passwd'"),
        ("  []", "2: 'tasks' is empty; write at least one task"),
        ("  - {id: n}\nassets: [x.sh]", "4: the file has an unknown key 'assets'; known keys are: defaults, tasks"),
        ("  - {id: n}\nbudget: {usd: 9}", "4: the file has an unknown key 'budget'; known keys are: defaults, tasks"),
    ],
)
def test_each_mistake_is_one_sentence_with_its_line(tasks: str, sentence: str) -> None:
    with pytest.raises(PlanWrong) as wrong:
        read(tasks)
    assert len(wrong.value.mistakes) == 1
    assert wrong.value.mistakes[0].startswith(f"more.yaml:{sentence}")


def test_a_task_that_takes_the_id_of_a_dropped_one_may_be_needed_and_makes_no_circle() -> None:
    """`last` needs `a`, and an `a` that needs `last` would never start."""
    left = grow_plan(PLAN, (), ("a",))
    with pytest.raises(PlanWrong, match=r"more.yaml:3: task 'a' waits for itself: a -> last -> a"):
        read("  - {id: a, needs: [last]}", plan=left)
    new = read("  - {id: a}", plan=left)
    assert check_growth(PLAN, new, ("a",)) is None
    circle = (new[0].model_copy(update={"needs": (TaskNeed(id="last"),)}),)
    assert "tasks would wait for one another" in (check_growth(PLAN, circle, ("a",)) or "")
    assert check_growth(PLAN, (), ("a",)) == "task 'last' needs 'a', which is to be dropped; drop 'last', too"
