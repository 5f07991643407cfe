"""A goal's requirements, and the plan format as a planner is told it."""

import re
from pathlib import Path

import pytest
import yaml

from forgepool.orchestrator.cli.planning.draft import PlanDraft
from forgepool.orchestrator.cli.planning.files import with_lead
from forgepool.orchestrator.cli.planning.goal import Goal, read_goal
from forgepool.orchestrator.plan.document import parse_plan
from forgepool.orchestrator.plan.entries import PlanSource
from forgepool.orchestrator.plan.fan_out import TaskEntry
from forgepool.orchestrator.plan.validation.facts import PlanFacts, Requirement
from forgepool.orchestrator.plan.validation.lines import PlanLines
from forgepool.orchestrator.plan.validation.validate import validate
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.agents.briefing.system_prompt import builtin_skill
from forgepool.workers.schema.mistakes import Mistake

SPECIFICATION = """\
# Export
Some words that ask for nothing.
## 1. Formats
The command must write CSV.
- one item
  that goes on
* [ ] another
  1. an item below it
## Notes
```
- code is no requirement, and must not count
```
It SHALL end with status 0.
"""


def test_a_goal_without_a_specification_is_its_own_requirement() -> None:
    goal = read_goal("  Write\nit down ", None)
    assert goal.requirements == {"R1": "Write it down"}


def test_items_numbered_headings_and_musts_are_requirements(tmp_path: Path) -> None:
    (tmp_path / "spec.md").write_text(SPECIFICATION)
    goal = read_goal("Export", tmp_path / "spec.md")
    assert list(goal.requirements.items()) == [
        ("R1", "1. Formats"),
        ("R2", "The command must write CSV."),
        ("R3", "one item that goes on"),
        ("R4", "another"),
        ("R5", "an item below it"),
        ("R6", "It SHALL end with status 0."),
    ]


def test_prose_alone_leaves_the_goal_as_the_requirement(tmp_path: Path) -> None:
    (tmp_path / "spec.md").write_text("An export would be nice.\n")
    goal = read_goal("Export", tmp_path / "spec.md")
    assert goal.requirements == {"R1": "Export"} and goal.specification == "An export would be nice.\n"


@pytest.mark.parametrize(
    ("words", "text", "sentence"),
    [
        (" ", "- x\n", "the goal is empty; say in a sentence what is to be done"),
        ("Export", "x" * 60_001, "has more than 60,000 characters; plan it in parts"),
        ("Export", "- x\n" * 101, "has 101 requirements; plan at most 100 at once"),
    ],
)
def test_a_goal_that_cannot_be_planned_is_refused(words: str, text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "spec.md").write_text(text)
    with pytest.raises(CannotRun, match=re.escape(sentence)):
        read_goal(words, tmp_path / "spec.md")


def test_the_skill_names_only_keys_that_exist() -> None:
    """The planner is told the format in short; a key that is renamed must be renamed there, too."""
    plan, task = builtin_skill("planner").text.split("Keys of the plan:")[1].split("Keys of a task:")
    named = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
    assert set(named.findall(plan)) <= PlanSource.model_fields.keys() and len(named.findall(plan)) >= 4
    assert set(named.findall(task)) <= TaskEntry.model_fields.keys() and len(named.findall(task)) >= 12


def test_the_skills_example_is_a_plan_without_errors(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", builtin_skill("planner").text, re.DOTALL)
    paths = ("src/converter/core.py", "src/converter/cli.py", "docs/usage.md", "tests/test_core.py")
    plan = parse_plan(text, "plan.yaml", tmp_path, lambda: paths)
    met = [Requirement(id="R1", text="the goal", tasks=tuple(task.id for task in plan.tasks))]
    facts = PlanFacts(paths=paths, names=frozenset({"convert", "main"}))
    faults = validate(plan, PlanLines.of(text, "plan.yaml", lambda: paths), facts, met)
    assert [fault.sentence for fault in faults if fault.level == "error"] == []


def test_a_lead_is_put_before_all_tasks_and_moves_the_lines_of_later_faults() -> None:
    text = "version: 1\nname: p\ntasks:\n  # the first\n  - id: a\n    title: A\n"
    draft = PlanDraft(text=text, covers={}, why="x", faults=(Mistake(2, "early"), Mistake(6, "late")))
    led = with_lead(draft, Goal(words='Say "yes"', requirements={"R1": "Say it"}), "lead")
    assert led is not None
    first, second = yaml.safe_load(led.text)["tasks"]
    assert first["leads"] is True and first["title"] == 'Lead: Say "yes"' and "R1: Say it" in first["description"]
    assert second == {"id": "a", "title": "A"}
    assert led.warnings() == ["plan.yaml:2: early", "plan.yaml:11: late"]
    assert led.text.splitlines()[10] == "    title: A"


def test_a_list_in_flow_style_has_no_place_for_a_lead() -> None:
    draft = PlanDraft(text="version: 1\nname: p\ntasks: [{id: a}]\n", covers={}, why="x")
    assert with_lead(draft, Goal(words="Say it", requirements={"R1": "Say it"}), "lead") is None
