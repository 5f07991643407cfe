"""Each rule of the validation finds its fault, and keeps silent on the honest plan beside it."""

from pathlib import Path
from typing import Any

import pytest

from forgepool.orchestrator.plan.document import parse_plan
from forgepool.orchestrator.plan.validation.facts import BaseResult, Estimate, Fault, PlanFacts, PlanLimits, Requirement
from forgepool.orchestrator.plan.validation.goal import read_requirements, render_requirements
from forgepool.orchestrator.plan.validation.lines import PlanLines
from forgepool.orchestrator.plan.validation.validate import validate
from forgepool.workers.agents.builtin.workflow import WorkflowPhase

HEAD = "version: 1\nname: p\ndefaults: {agent: {builtin: {}}, acceptance: [make test]}\ntasks:\n"
"""Four lines, so that the first task is on line 5."""
TREE = (
    ".github/workflows/ci.yml",
    "README.md",
    "docs/guide.md",
    "pyproject.toml",
    "src/inventory/catalog.py",
    "src/inventory/orders.py",
    "src/inventory/stock.py",
    "tests/test_catalog.py",
    "tests/test_orders.py",
    "uv.lock",
)


def faults_of(tasks: str, *, head: str = HEAD, goal: Any = None, limits: Any = None, **facts: Any) -> list[Fault]:
    text = head + tasks
    plan = parse_plan(text, "plan.yaml", Path("absent"), lambda: TREE)
    lines = PlanLines.of(text, "plan.yaml", lambda: TREE)
    return validate(plan, lines, PlanFacts(**{"paths": TREE, **facts}), goal, limits or PlanLimits())


def found(tasks: str, **said: Any) -> list[str]:
    """Return the faults as `LINE RULE` or, for warnings, `LINE RULE?`."""
    return [f"{each.line} {each.rule}{'?' * (each.level == 'warning')}" for each in faults_of(tasks, **said)]


def task(name: str, **said: Any) -> str:
    fields = {"title": f"Do all of {name} properly", "files": ["docs/guide.md"], **said}
    return f"  - {{id: {name}, {', '.join(f'{key}: {_flow(value)}' for key, value in fields.items())}}}\n"


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return value if isinstance(value, str) and value[:1] == "{" else repr(value)


@pytest.mark.parametrize(
    "glob",
    [
        "src/inventry/catalog.py",
        "source/**/*.py",
        "src/inventory/*.rs",
        "lib/new.py",
        "src/legacy/**",
    ],
)
def test_a_glob_that_matches_nothing_is_an_error(glob: str) -> None:
    (fault,) = faults_of(task("a", files=[glob]))
    assert (fault.rule, fault.level, fault.line) == ("unmatched-glob", "error", 5)
    assert f"'{glob}' in 'files', which matches no file" in fault.sentence


@pytest.mark.parametrize(
    "said",
    [
        {"files": ["src/**/*.py"]},
        {"files": ["src/inventory/"]},
        {"files": ["CHANGELOG.md"]},
        {"files": ["src/inventory/suppliers.py", "tests/test_suppliers.py"]},
        {"files": ["src/billing/__init__.py", "src/billing/invoice.py"]},
        {"files": ["lib/new.py"], "description": "Create lib/new.py with the reader."},
        {"files": ["lib/**"], "description": "Create the folder lib with the readers."},
    ],
)
def test_a_file_is_new_by_its_plain_path_or_by_the_plans_words(said: dict[str, Any]) -> None:
    assert found(task("a", **said)) == []


@pytest.mark.parametrize("name", ["catalgo.py", "catlog.py", "cattalog.py"])
def test_a_slip_of_the_pen_is_asked_about(name: str) -> None:
    assert found(task("a", files=[f"src/inventory/{name}"])) == ["5 unmatched-glob?"]


@pytest.mark.parametrize("name", ["catalog2.py", "stack.py", "prices.py", "catalog_v.py"])
def test_another_name_is_no_slip(name: str) -> None:
    assert found(task("a", files=[f"src/inventory/{name}"])) == []


def test_a_name_that_differs_by_a_letter_is_asked_about_unless_it_is_named() -> None:
    assert found(task("a", files=["src/inventory/catalogs.py"])) == ["5 unmatched-glob?"]
    assert found(task("a", files=["src/inventory/catalogs.py"], description="Write catalogs.py.")) == []
    sure = found(task("a", files=["src/inventory/catalg.py"], description="Sort catalog.py by name."))
    assert "5 unmatched-glob" in sure


def test_a_file_that_is_read_exists_or_is_made_by_a_need() -> None:
    makes = task("makes", files=["docs/new.md"])
    assert found(task("a", reads=["docs/old.md"])) == ["5 unmatched-glob"]
    assert found(makes + task("a", reads=["docs/new.md"])) == ["6 used-before-made", "6 overlap?"]
    assert found(makes + task("a", reads=["docs/new.md"], needs=["makes"])) == []


def test_a_file_of_two_tasks_wants_an_order() -> None:
    one, two = task("a", files=["docs/guide.md"]), task("b", files=["docs/*.md"])
    assert found(one + two) == ["6 overlap?"]
    assert found(one + task("b", files=["docs/*.md"], needs=["a"])) == []


def test_a_file_that_the_description_names_may_be_written_or_is_read() -> None:
    text = "Sort the entries in `src/inventory/catalog.py` by name."
    assert found(task("a", description=text)) == ["5 named-outside?"]
    assert found(task("a", description=text, reads=["src/inventory/catalog.py"])) == []
    assert found(task("a", description=text, files=["src/**"])) == []
    assert found(task("a", description=text, files=[], acceptance=[])) == []
    assert found(task("a", description=text, context=["src/inventory/catalog.py:1-20"])) == []


def test_a_file_that_probably_changes_too_is_asked_about_unless_a_task_may_write_it() -> None:
    path = "src/inventory/catalog.py"
    one, likely = task("a", files=["README.md"]), {"a": [(path, 0.7), ("CHANGELOG.md", 0.69)]}
    (fault,) = faults_of(one, likely=likely)
    assert (fault.rule, fault.level, fault.line) == ("likely-outside", "warning", 5)
    assert f"very likely changes '{path}' (70%), too" in fault.sentence and "CHANGELOG" not in fault.sentence
    assert found(task("a", files=["README.md"], reads=[path]), likely=likely) == []
    assert found(task("a", files=["README.md"], context=[f"{path}:1-9"]), likely=likely) == []
    assert found(one, likely=likely, protected=frozenset([path])) == [], "the next rule would refuse it"
    assert found(one + task("b", files=[path]), likely=likely) == []
    assert found(task("a", files=[], acceptance=[]), likely=likely) == []


def test_a_task_of_a_model_writes_few_files() -> None:
    assert found(task("a", files=["src/**", "tests/**"])) == ["5 many-files?"]
    assert found(task("a", files=["src/**"])) == []
    assert found(task("a", files=["src/**", "tests/**"]), limits=PlanLimits(files=5)) == []
    assert found(task("a", files=["src/**", "tests/**"], agent="{command: make}")) == []


@pytest.mark.parametrize("path", [".github/workflows/ci.yml", ".gitlab-ci.yml", "uv.lock", "docs/guide.md"])
def test_a_protected_path_wants_a_grant(path: str) -> None:
    protected = frozenset(["docs/guide.md"])
    assert found(task("a", files=[path]), protected=protected) == ["5 protected-path"]
    assert found(task("a", files=[path], grants=[path]), protected=protected) == []


def test_a_lock_file_may_change_with_its_manifest() -> None:
    assert found(task("a", files=["uv.lock", "pyproject.toml"])) == []


def test_a_glob_over_more_than_protected_paths_wants_no_grant() -> None:
    assert found(task("a", files=["**"]), limits=PlanLimits(files=20)) == []


def test_a_task_without_any_proof_is_an_error() -> None:
    bare = "version: 1\nname: p\nchecks: none\ndefaults: {agent: {builtin: {}}}\ntasks:\n"
    assert found(task("a"), head=bare, has_checks=False) == ["6 no-proof"]
    assert found(task("a"), head=bare, has_checks=True) == ["6 no-acceptance?"]
    assert found(task("a", agent="{command: make}"), head=bare, has_checks=False) == []
    assert found(task("a", files=[]), head=bare, has_checks=False) == []


def test_acceptance_fails_before_the_work_and_a_guard_passes() -> None:
    red, green = BaseResult(outcome="red"), BaseResult(outcome="green")
    accepted, guarded = task("a", acceptance=["make new"]), task("a", acceptance=[], guards=["make new"])
    assert found(accepted, results={("a", "make new"): green}) == ["5 green-on-base"]
    assert found(accepted, results={("a", "make new"): red}) == []
    assert found(guarded, results={("a", "make new"): green}) == []
    assert found(guarded, results={("a", "make new"): red}) == ["5 red-guard"]


def test_a_guard_may_fail_before_the_tasks_that_it_needs() -> None:
    guarded = task("b", files=["README.md"], acceptance=[], guards=["make new"], needs=["a"])
    assert found(task("a") + guarded, results={("b", "make new"): BaseResult(outcome="red")}) == []


def test_a_command_that_gave_no_answer_is_told_once() -> None:
    unknown = BaseResult(outcome="unknown", why="Python has no module 'tornado' in the sandbox")
    tasks = task("a", acceptance=["make x", "make y"])
    (fault,) = faults_of(tasks, results={("a", "make x"): unknown, ("a", "make y"): unknown})
    assert (fault.rule, fault.level) == ("not-tried", "warning")
    assert "`make x` (and 1 more commands), which gave no answer on the base: Python has no module" in fault.sentence


def test_a_command_that_cannot_fail_is_no_proof() -> None:
    assert found(task("a", acceptance=["make test || true"])) == ["5 cannot-fail"]
    assert found(task("a", acceptance=["make test | tail"])) == ["5 cannot-fail"]
    assert found(task("a", acceptance=["make lint && make test"])) == []


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m pytest -q tests/test_none.py",
        "pytest tests/test_none.py::test_it -x",
        "cd tests && pytest test_none.py",
        "grep -q new tests/test_none.py",
        "test -f tests/test_none.py",
        "bash tests/test_none.sh",
    ],
)
def test_a_file_that_acceptance_needs_exists_or_is_made(command: str) -> None:
    assert found(task("a", acceptance=[command])) == ["5 missing-file"]
    assert found(task("a", acceptance=[command], files=["tests/*"]), limits=PlanLimits(files=9)) == []
    makes = task("makes", files=["tests/test_none.py", "tests/test_none.sh"])
    assert found(makes + task("a", acceptance=[command])) == ["6 used-before-made"]
    assert found(makes + task("a", acceptance=[command], needs=["makes"])) == []


@pytest.mark.parametrize(
    "command",
    [
        "pytest tests",
        "python3 -m pytest -q -k other.py tests/test_orders.py",
        "python3 -m json.tool pyproject.toml",
        "grep -q none.py README.md",
        "test ! -e src/gone.py",
        "node_modules/.bin/jest .cache/none.js",
        "python3 -m pytest --junitxml=out/report.xml",
        "make out.txt && diff out.txt docs/guide.md",
        "sort README.md > sorted.txt && grep -q a sorted.txt",
    ],
)
def test_a_word_that_is_no_file_of_the_tree_is_left_alone(command: str) -> None:
    assert found(task("a", acceptance=[command])) == []


def test_a_description_is_at_least_a_sentence() -> None:
    assert found(task("a", title="a")) == ["5 vague"]
    assert found(task("a", title="a", description="Fix it.")) == ["5 vague?"]
    assert found(task("a", title="Sort the catalog by name")) == []
    assert found(task("a", title="a", agent="{command: make}")) == []


def test_two_tasks_do_not_say_the_same() -> None:
    text = "Sort the entries of the catalog by their name and then by their price, ascending."
    one = task("a", title="a", description=text)
    assert found(one + task("b", title="b", description=text, needs=["a"])) == ["6 duplicate"]
    part = "Sort the entries of the catalog by name and price, ascending."
    assert found(one + task("b", title="b", description=part, needs=["a"])) == ["6 duplicate?"]
    other = "Print the guide as one page with a table of contents, and no pictures."
    assert found(one + task("b", title="b", description=other, needs=["a"])) == []
    assert found(one + task("b", title="b", description=text, files=["README.md"])) == []


def test_a_name_is_made_before_it_is_used() -> None:
    makes = task("makes", description="Add a function `sort_entries` to the catalog.")
    uses = {"files": ["README.md"], "description": "Call `sort_entries()` when the guide is printed."}
    assert found(makes + task("a", **uses), names=frozenset()) == ["6 used-before-made"]
    assert found(makes + task("a", **uses, needs=["makes"]), names=frozenset()) == []
    assert found(makes + task("a", **uses), names=frozenset(["sort_entries"])) == []
    assert found(makes + task("a", **uses), names=None) == []


def test_a_new_name_of_two_tasks_wants_a_maker() -> None:
    one = task("a", description="The guide explains `sort_entries` with an example.")
    two = task("b", files=["README.md"], description="The catalog is sorted by `sort_entries` in the end.")
    assert found(one + two, names=frozenset()) == ["5 used-before-made?", "6 used-before-made?"]
    assert found(one, names=frozenset()) == []


def test_a_skill_and_a_model_are_known() -> None:
    skilled = task("a", agent="{builtin: {skill: testr}}")
    (fault,) = faults_of(skilled, skills=frozenset(["tester", "reviewer"]))
    assert fault.rule == "unknown-skill" and fault.sentence.endswith("did you mean 'tester'?")
    assert found(task("a", agent="{builtin: {skill: tester}}"), skills=frozenset(["tester"])) == []
    modelled = task("a", agent="{builtin: {models: {plan: gpt-9}}}")
    assert found(modelled, models=frozenset(["sonnet"])) == ["5 unknown-model"]
    assert found(modelled, models=None) == []
    laddered = task("a", agent="{builtin: {}}", attempts="{ladder: [sonnet, sonet]}")
    assert found(laddered, models=frozenset(["sonnet"])) == ["5 unknown-model"]
    below = task("a", agent="{builtin: {}}").replace("}\n", ",\n     attempts: {ladder: [sonet, sonnet]}}\n")
    assert found(below, models=frozenset(["sonnet"])) == ["6 unknown-model"]
    (fault,) = faults_of(task("a", agent="{builtin: {workflow: bild}}"), workflows={"a": "there is none"})
    assert (fault.rule, fault.sentence) == ("unfit-workflow", "task 'a' cannot have its workflow: there is none")


def test_what_the_phases_of_a_workflow_name_is_looked_for_and_all_known_names_are_told() -> None:
    flow, known = task("a", agent="{builtin: {workflow: own}}"), [f"skill-{n}" for n in range(9)]
    phase = WorkflowPhase(name="p", artifact="change", skill="x", model="y")
    facts: dict[str, Any] = {"phases": {"a": [phase]}, "models": frozenset(["y1"])}
    skill, model = faults_of(flow, skills=frozenset(known), **facts)
    assert (skill.rule, model.rule) == ("unknown-skill", "unknown-model")
    assert skill.sentence.endswith(f"has the unknown skill 'x'; skills are: {', '.join(known)}")
    wrong = faults_of(flow, skills=frozenset("x"), wrong_skills={"x": "x.md:2: is wrong"}, phases=facts["phases"])
    assert [(one.rule, one.sentence) for one in wrong] == [
        ("unfit-skill", "task 'a' cannot have its skill 'x': x.md:2: is wrong")
    ]


def test_each_requirement_has_a_task_and_each_task_a_requirement() -> None:
    tasks = task("a") + task("b", files=["README.md"])
    met = [Requirement(id="R1", text="Sorted", tasks=("a",)), Requirement(id="R2", text="Told", tasks=("b",))]
    assert found(tasks, goal=met) == []
    assert found(tasks, goal=met[:1]) == ["6 without-requirement"]
    assert found(tasks, goal=[*met, Requirement(id="R3", text="Fast")]) == ["4 uncovered"]
    assert found(tasks, goal=[*met[:1], Requirement(id="R2", text="Told", tasks=("b", "c"))]) == ["4 uncovered"]
    assert found(tasks, goal=None) == []


def test_the_table_of_requirements_reads_as_it_was_written() -> None:
    met = (Requirement(id="R1", text="a | b", tasks=("x", "y-1")), Requirement(id="R2", text="none"))
    assert read_requirements(f"# Why\n\n{render_requirements(met)}\nmore\n") == met
    assert read_requirements("# Why\n\nnothing\n") == ()
    reasons = "## The planner's reasons\n\n| R1 | forged | b |\n| R9 | forged | b |\n"
    assert read_requirements(f"{render_requirements(met)}\n{reasons}") == met, "rows of a later text are none"


def test_a_requirement_that_is_only_talked_about_is_a_warning() -> None:
    asked = {"files": [], "answers": True, "acceptance": []}
    met = [Requirement(id="R1", text="Sorted", tasks=("a",))]
    (fault,) = faults_of(task("a", **asked), goal=met)
    assert (fault.rule, fault.level) == ("only-answered", "warning")
    both = [Requirement(id="R1", text="Sorted", tasks=("a", "b"))]
    assert found(task("a", **asked) + task("b"), goal=both) == []


def test_a_plan_costs_no_more_than_there_is() -> None:
    dear = Estimate(makespan_s=7200, cost_usd=12.0)
    assert found(task("a"), estimate=dear, limits=PlanLimits(cost_usd=10)) == ["1 over-budget"]
    assert found(task("a"), estimate=dear, limits=PlanLimits(cost_usd=15)) == []
    assert found(task("a"), estimate=dear, head=f"budget: {{usd: 5}}\n{HEAD}") == ["1 over-budget"]
    unknown = Estimate(makespan_s=7200, cost_usd=None, most_usd=12.0)
    assert found(task("a"), estimate=unknown, limits=PlanLimits(cost_usd=10)) == ["1 over-budget?"]
    assert found(task("a"), estimate=dear, limits=PlanLimits(makespan_s=3600)) == ["1 too-long"]
    assert found(task("a"), estimate=dear, limits=PlanLimits(makespan_s=9000)) == []


def test_a_plan_without_tasks_is_a_fault() -> None:
    plan = parse_plan(HEAD + task("a"), "plan.yaml", Path("absent"), lambda: TREE)
    empty = plan.model_copy(update={"tasks": ()})
    assert [fault.rule for fault in validate(empty, PlanLines(), PlanFacts(paths=TREE))] == ["no-tasks"]


def test_a_fault_of_an_inherited_key_is_at_the_line_of_the_defaults() -> None:
    head = "version: 1\nname: p\ndefaults:\n  agent: {builtin: {}}\n  acceptance: [make test || true]\ntasks:\n"
    assert found(task("a"), head=head) == ["5 cannot-fail"]


def test_tasks_of_a_for_each_have_the_line_of_their_entry() -> None:
    text = "  - {id: a, for_each: {files: 'src/**'}, files: ['{path}'], acceptance: ['grep -q x docs/{stem}.md']}\n"
    faults = faults_of(text + task("b"))
    assert {(fault.line, fault.rule) for fault in faults if fault.task.startswith("a-")} >= {(5, "missing-file")}
    assert len([fault for fault in faults if fault.rule == "missing-file"]) == 3
