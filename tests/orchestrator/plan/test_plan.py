"""A plan is read into complete tasks, or refused with a sentence for each mistake."""

import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.document import (
    Plan,
    PlanWrong,
    Task,
    TaskNeed,
    dump_plan,
    load_plan,
    parse_plan,
    plan_digest,
    read_expanded,
)
from forgepool.orchestrator.plan.fan_out import CannotFanOut, TaskEntry, for_each
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.globs import parse
from forgepool.workers.schema.orders import (
    AcpAgent,
    BuiltinAgent,
    CliAgent,
    CommandAgent,
    HintSettings,
    Limits,
    ScriptedAgent,
)
from forgepool.workers.schema.policy_rules import VerifyTerms
from forgepool.workers.workspace import assets as plan_assets
from forgepool.workers.workspace.assets import AssetsChanged, assets_in, copy_assets

HEAD = "version: 1\nname: p\ndefaults: {agent: {command: make}}\ntasks:\n"
"""Four lines, so that the first task is on line 5."""
TREE = ("src/a.py", "src/b c.py", "src/sub/d.py", "README.md")


def plan(tasks: str, files: Sequence[str] = TREE, head: str = HEAD) -> Plan:
    return parse_plan(head + tasks, "plan.yaml", Path("absent"), lambda: files)


def mistakes(tasks: str, files: Sequence[str] = TREE, head: str = HEAD) -> list[str]:
    with pytest.raises(PlanWrong) as caught:
        plan(tasks, files, head)
    return [each.removeprefix("plan.yaml:") for each in caught.value.mistakes]


def test_every_key_of_a_plan(tmp_path: Path) -> None:
    (tmp_path / "turns").mkdir()
    (tmp_path / "turns" / "one.yaml").write_text("turns: []\n")
    (tmp_path / "plan.yaml").write_text(
        """\
version: 1
name: spring-clean
target: cleanups
base: v1.2
checks:
  test: {run: pytest -q, timeout_s: 15m}
undeclared: exclusive
scope: strict
reads: ignore
landing: squash
defaults:
  agent: {command: ruff check --fix src}
  attempts: 3
  limits: {wall_s: 1h, turns: 9}
  env: {A: "1", B: "2"}
  acceptance: [pytest -q tests/fast]
tasks:
  - id: lint
  - id: types
    title: Add types
    description: |
      Add annotations.
    type: refactor
    needs: [lint, "docs:full"]
    files: [src/**/*.py]
    reads: [pyproject.toml]
    acceptance: [mypy src]
    agent: {scripted: turns/one.yaml}
    priority: 5
    attempts: 1
    limits: {idle_s: 90s, turns: 4}
    env: {B: "3"}
    duration_s: 5m
  - id: docs
"""
    )

    def no_files() -> Sequence[str]:
        raise AssertionError("the tree is asked for only when there is a for_each")

    found = load_plan(tmp_path / "plan.yaml", files=no_files)
    lint, types, docs = found.tasks
    assert found.model_copy(update={"tasks": ()}) == Plan(
        name="spring-clean",
        target="cleanups",
        base="v1.2",
        checks=(CheckDefinition(name="test", run="pytest -q", timeout_s=900.0),),
        undeclared="exclusive",
        scope="strict",
        reads="ignore",
        landing="squash",
        tasks=(),
    )
    assert lint == Task(
        id="lint",
        title="lint",
        agent=CommandAgent(run="ruff check --fix src"),
        acceptance=("pytest -q tests/fast",),
        attempts=3,
        unchanged="ok",
        limits=Limits(wall_s=3600, turns=9),
        env={"A": "1", "B": "2"},
    )
    assert types == Task(
        id="types",
        title="Add types",
        description="Add annotations.\n",
        type="refactor",
        needs=(TaskNeed(id="lint"), TaskNeed(id="docs", full=True)),
        files=("src/**/*.py",),
        reads=("pyproject.toml",),
        acceptance=("mypy src",),
        agent=ScriptedAgent(script="turns: []\n"),
        priority=5,
        attempts=1,
        limits=Limits(wall_s=3600, idle_s=90, turns=4),
        env={"A": "1", "B": "3"},
        duration_s=300.0,
    )
    assert docs.files is None


def test_what_a_short_plan_leaves_out() -> None:
    found = plan("  - id: a\n")
    assert (found.target, found.base, found.checks) == ("forgepool/p", None, None)
    assert (found.undeclared, found.scope, found.reads, found.landing) == (
        "optimistic",
        "extend",
        "block",
        "merge",
    )
    assert found.tasks == (Task(id="a", agent=CommandAgent(run="make"), attempts=1, unchanged="ok"),)
    assert found.tasks[0].title == "a"


@pytest.mark.parametrize(
    ("written", "agent"),
    [
        ("{builtin: {}}", BuiltinAgent()),
        (
            "{builtin: {model: m, models: {plan: p}, red_first: true, hints: false, skill: tester}}",
            BuiltinAgent(model="m", models={"plan": "p"}, red_first=True, hints=False, skill="tester"),
        ),
        ("{builtin: {workflow: scope}}", BuiltinAgent(workflow="scope")),
        ("{cli: claude}", CliAgent(program="claude")),
        ("{acp: gemini --acp}", AcpAgent(run="gemini --acp")),
        ("{cli: {program: codex, model: m}}", CliAgent(program="codex", model="m")),
        ("{command: make}", CommandAgent(run="make")),
    ],
)
def test_an_agent_is_written_in_one_of_these_ways(written: str, agent: object) -> None:
    assert plan(f"  - id: a\n    agent: {written}\n").tasks[0].agent == agent


def test_the_targets_checks_run_in_verify_where_a_task_or_the_defaults_say_so() -> None:
    head = HEAD.replace("{agent: ", "{verify: checks, agent: ")
    usual, own, none = plan(
        "  - id: a\n  - {id: b, verify: {within_s: 2m}}\n  - {id: c, verify: null}\n", head=head
    ).tasks
    assert (usual.verify, own.verify, none.verify) == (VerifyTerms(), VerifyTerms(within_s=120.0), None)
    assert "verify" not in none.model_dump()


def test_file_hints_are_left_out_where_a_task_says_so() -> None:
    head = HEAD.replace("{command: make}", "{builtin: {}}")
    hinted, bare = plan("  - id: a\n  - {id: b, disable_file_hints: true}\n", head=head).tasks
    assert (hinted.agent, bare.agent) == (BuiltinAgent(), BuiltinAgent(hints=False))


def test_hints_are_settled_for_an_agent() -> None:
    """An unwritten setting keeps its default. A task that turns hints off gets none."""
    written = "{builtin: {hints: {threshold: 0.7, most: 5, model: small}}}"
    hinted, bare, usual = plan(
        f"  - id: a\n    agent: {written}\n"
        f"  - id: b\n    disable_file_hints: true\n    agent: {written}\n"
        "  - id: c\n    agent: {builtin: {hints: {}}}\n"
    ).tasks
    assert hinted.agent == BuiltinAgent(hints=HintSettings(threshold=0.7, most=5, model="small"))
    assert (bare.agent, usual.agent) == (BuiltinAgent(hints=False), BuiltinAgent())


def test_what_may_be_used_is_said_for_a_task_and_for_the_run() -> None:
    head = HEAD.replace("tasks:", "budget: {usd: 20, tokens: 5000000}\ntasks:")
    found = plan("  - id: a\n    limits: {tokens: 9000, cost_usd: 0.5}\n", head=head)
    assert found.budget == Budget(usd=20.0, tokens=5_000_000)
    assert found.tasks[0].limits == Limits(tokens=9000, cost_usd=0.5)
    assert plan("  - id: a\n").budget == Budget()
    assert read_expanded(dump_plan(found)) == found


def test_labels_of_hosts_are_written_as_one_or_several_and_change_no_digest_of_plans_without_them() -> None:
    one, two, none = plan("- {id: a, runs_on: gpu}\n- {id: b, runs_on: [gpu, big-disk]}\n- {id: c}\n").tasks
    assert (one.runs_on, two.runs_on, none.runs_on) == (("gpu",), ("gpu", "big-disk"), ())
    assert "runs_on" not in none.model_dump(mode="json")
    (told,) = mistakes("- {id: a, runs_on: [a b]}\n")
    assert told.startswith("5: ") and "forgepool worker --label gpu" in told, told


def test_checks_none_is_told_from_silence() -> None:
    assert plan("  - id: a\n", head=HEAD.replace("tasks:", "checks: none\ntasks:")).checks == "none"
    assert plan("  - id: a\n").checks is None


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        ("  - id: a\n    need: [b]\n", "6: task 'a' has an unknown key 'need'; did you mean 'needs'?"),
        (
            "  - id: a\n    workflow: build\n",
            "6: task 'a' has an unknown key 'workflow'; write it under 'agent: {builtin: {workflow: NAME}}'",
        ),
        (
            "  - id: a\n  - id: b\n  - id: a\n",
            "7: the id 'a' is given twice (first on line 5); change one",
        ),
        (
            "  - id: a\n  - id: A\n",
            "6: the id 'A' is given twice (first on line 5 as 'a'; case does not tell ids apart); change one",
        ),
        (
            "  - id: build\n  - id: test\n  - id: deploy\n    needs:\n      - build\n      - tests\n",
            "10: task 'deploy' needs 'tests', which is not in the plan; tasks are: test, build, deploy",
        ),
        ("  - id: a\n    needs: [a]\n", "6: task 'a' needs itself; remove the need"),
        ("  - id: a\n  - id: b\n    needs: ['a:ful']\n", "7: task 'b' needs 'a:ful'; write 'a' or 'a:full'"),
        (
            "  - {id: a, needs: [c]}\n  - {id: b, needs: [a]}\n  - {id: c, needs: [b]}\n",
            "5: task 'a' waits for itself: a -> c -> b -> a; remove one of these needs",
        ),
        (
            "  - id: a\n    files:\n    - src/**\n    - 'src/[a'\n",
            "8: 'files' of task 'a' has the glob 'src/[a': '[' is not closed; write [[] for a real one",
        ),
        (
            "  - id: a\n    files: [/etc/passwd]\n",
            "6: 'files' of task 'a' has the glob '/etc/passwd': it begins at",
        ),
        (
            "  - id: a\n    reads: [../b]\n",
            "6: 'reads' of task 'a' has the glob '../b': '..' leaves the folder",
        ),
        ("  - id: a.lock\n", "5: the id of task 'a.lock' must be letters"),
        ("  - id: a..b\n", "5: the id of task 'a..b' must be letters"),
        ("  - id: a/b\n", "5: the id of task 'a/b' must be letters"),
        ("  - id: '{stem}'\n", "5: the id of task '{stem}' must be letters"),
        ("  - id: a\n    attempts: 11\n", "6: 'attempts' of task 'a' must be at most 10, is 11"),
        ("  - id: a\n    limits: {wall_s: ~}\n", "6: 'wall_s' of 'limits' of task 'a' must be a duration"),
        (
            "  - id: a\n    limits: {turn: 1}\n",
            "6: 'limits' of task 'a' has an unknown key 'turn'; did you mean 'turns'?",
        ),
        (
            "  - id: a\n    env: {A-B: x}\n",
            "6: 'A-B' of 'env' of task 'a' is not the name of an environment variable",
        ),
        (
            "  - id: a\n    agent: {command: x, scripted: y}\n",
            "6: 'agent' of task 'a' must have one of the keys",
        ),
        ("  - id: a\n    agent: {}\n", "6: 'agent' of task 'a' must have one of the keys"),
        (
            "  - id: a\n    agent: {scripted: no.yaml}\n",
            "6: task 'a' has a script that cannot be used: no.yaml: there is no such file",
        ),
        (
            "  - id: a\n    agent: {cli: cluade}\n",
            "6: 'cli' of 'agent' of task 'a' must be 'claude', 'codex', 'opencode' or 'aider', is 'cluade'",
        ),
        ("  - id: a\n    agent: {cli: {model: m}}\n", "6: 'cli' of 'agent' of task 'a' lacks the key 'program'"),
        (
            "  - id: a\n    agent: {builtin: opus}\n",
            "6: 'builtin' of 'agent' of task 'a' must be a mapping of keys to values, is 'opus'",
        ),
        (
            "  - id: a\n    agent: {builtin: {hints: {treshold: 0.5, most: 0}}}\n",
            "6: 'hints' of 'builtin' of 'agent' of task 'a' has an unknown key 'treshold'; did you mean 'threshold'?",
        ),
        (
            "  - id: a\n    agent: {builtin: {models: {paln: x}}}\n",
            "6: 'models' of 'builtin' of 'agent' of task 'a' has an unknown key 'paln'; did you mean 'plan'?",
        ),
        (
            "  - id: a\n    agent: {builtin: {workflow: scope, red_first: true}}\n",
            "6: 'builtin' of 'agent' of task 'a' has both 'workflow' and 'red_first'; remove 'red_first'",
        ),
        (
            "  - id: a\n    agent: {builtin: {}, cli: codex}\n",
            "6: 'agent' of task 'a' must have one of the keys 'builtin',",
        ),
        ("  - id: a\n    limits: {tokens: 0}\n", "6: 'tokens' of 'limits' of task 'a' must be greater than 0, is 0"),
        (
            "  - id: a\n    disable_file_hints: no\n",
            "6: 'disable_file_hints' of task 'a' must be true or false, is 'no'",
        ),
        (
            "  - id: a\n    verify: tests\n",
            "6: 'verify' of task 'a' must be `checks` or a mapping, is 'tests'; its keys are 'rounds' and 'within_s'",
        ),
        (
            "  - id: a\n    verify: {rounds: 0}\n",
            "6: 'rounds' of 'verify' of task 'a' must be at least 1, is 0",
        ),
        (
            "  - id: a\n    agent:\n",
            "5: task 'a' has no agent; write 'agent: {builtin: {}}' there or in 'defaults'",
        ),
        ("  - id: a\n    group: g\n", "6: task 'a' has a 'group' without a 'for_each'; remove it"),
        (
            "  - id: a\n    for_each: {files: 'lib/**'}\n",
            "6: task 'a' is repeated for 'lib/**', which matches no file of the repository",
        ),
        (
            "  - id: a\n    for_each: {files: '**.py'}\n",
            "6: 'for_each' of task 'a' has the glob '**.py': '**' must",
        ),
        (
            "  - id: a\n  - id: b\n    group: a\n    for_each: {files: '**'}\n",
            "7: the group 'a' has the name of a task or group on line 5; give it another",
        ),
        (
            "  - id: a\n    group: g\n    for_each: {files: '**'}\n    needs: [g]\n",
            "8: task 'a-src-a.py' needs itself; remove the need",
        ),
        ("  []\n", "4: 'tasks' is empty; write at least one task"),
    ],
)
def test_a_mistake_in_a_task_is_told_with_its_line(tasks: str, sentence: str) -> None:
    assert any(each.startswith(sentence) for each in mistakes(tasks)), mistakes(tasks)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("target: a..b", "3: 'target' is 'a..b', which git takes for no branch; 'forgepool/p' would be one"),
        ("target: refs/heads/main", "3: 'target' must be a branch's short name, such as 'main'"),
        ("base: --upload-pack=x", "3: 'base' is '--upload-pack=x'; it must be a branch, a tag or a commit"),
        (
            "base: forgepool/p",
            "3: 'base' would be the target, too; write 'target: forgepool/p' if that is meant",
        ),
        ("checks: nothing", "3: 'checks' must be a list or a mapping or none, is 'nothing'"),
        ("checks: []", "3: 'checks' is empty; name at least one command that must pass"),
        ("budget: 5", "3: 'budget' must be a mapping of keys to values, is 5"),
        ("defaults: {duration_s: 999999d}", "3: 'duration_s' of 'defaults' is too much: '999999d'; at most 10000d"),
        (f"defaults: {{attempts: {'9' * 400}}}", "3: 'attempts' of 'defaults' is too much: '999"),
        (
            f"progress: {'9' * 400}",
            f"3: 'progress' must be turn, phase, off or a duration such as 30s, is '{'9' * 60}'",
        ),
        (f"{'k' * 400}: 1", f"3: the file has an unknown key '{'k' * 99}...{'k' * 38}';"),
        ("progress: often", "3: 'progress' must be turn, phase, off or a duration such as 30s, is 'often'"),
        ("progress: [30s]", "3: 'progress' must be turn, phase, off or a duration such as 30s, is a list"),
        ("progress: 0", "3: 'progress' must be turn, phase, off or a duration such as 30s, is 0"),
        ("budget: {usd: 0}", "3: 'usd' of 'budget' must be greater than 0.0, is 0"),
        ("budget: {eur: 1}", "3: 'budget' has an unknown key 'eur'; known keys are: tokens, usd"),
        ("landing: cherry", "3: 'landing' must be 'merge', 'squash' or 'rebase', is 'cherry'"),
        ("defaults: {id: x}", "3: 'defaults' has an unknown key 'id'; known keys are: "),
        (
            "defaults: {agent: {comand: x}}",
            "3: 'agent' of 'defaults' has an unknown key 'comand'; did you mean 'command'?",
        ),
        ("defaults: {files: ['[a']}", "3: 'files' of task 'a' has the glob '[a': '[' is not closed"),
    ],
)
def test_a_mistake_about_the_whole_plan_is_told_with_its_line(key: str, sentence: str) -> None:
    found = mistakes("  - {id: a, agent: {command: x}}\n", head=f"version: 1\nname: p\n{key}\ntasks:\n")
    assert any(each.startswith(sentence) for each in found), found


def test_a_target_may_be_the_base_when_that_is_said() -> None:
    head = HEAD.replace("name: p", "name: p\nbase: main\ntarget: main")
    assert plan("  - id: a\n", head=head).target == "main"


BRANCHES = [
    "a",
    "a/b",
    "feature/x.y",
    "a@b",
    "@",
    "HEAD",
    "-a",
    "a b",
    "a..b",
    "a.lock",
    "a.lock/b",
    "a/.b",
    ".a",
]
BRANCHES += [
    "a.",
    "a/",
    "/a",
    "a//b",
    "a~1",
    "a^",
    "a:b",
    "a?",
    "a*",
    "a[b",
    "a\\b",
    "a@{1}",
    "a.b/c",
    "é",
    "x@",
    "a/@",
]


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_target_is_a_branch_exactly_when_git_says_so(branch: str) -> None:
    known = subprocess.run(["git", "check-ref-format", "--branch", branch], capture_output=True, check=False)
    head = HEAD.replace("name: p", f"name: p\ntarget: '{branch}'")
    if known.returncode == 0 and branch != "@":
        assert plan("  - id: a\n", head=head).target == branch
    else:
        assert mistakes("  - id: a\n", head=head)[0].startswith(f"3: 'target' is '{branch}', which git takes for")


def test_the_order_of_mistakes_is_that_of_the_lines() -> None:
    found = mistakes("  - {id: a, needs: [zz]}\n  - {id: b, files: ['[']}\n  - {id: a}\n  - {id: c, needs: [c]}\n")
    assert [int(each.split(":")[0]) for each in found] == [5, 6, 7, 8]


def test_every_tangle_of_needs_is_told() -> None:
    found = mistakes(
        "  - {id: free}\n  - {id: behind, needs: [a2, free]}\n"
        "  - {id: a1, needs: [a2]}\n  - {id: a2, needs: [a1]}\n"
        "  - {id: b1, needs: [b2, free]}\n  - {id: b2, needs: [b1]}\n"
    )
    assert [each.split("; ")[0] for each in found] == [
        "7: task 'a1' waits for itself: a1 -> a2 -> a1",
        "9: task 'b1' waits for itself: b1 -> b2 -> b1",
    ]


def test_a_long_circle_of_needs_is_told_in_short() -> None:
    tasks = "".join(f"  - {{id: t{at}, needs: [t{(at + 1) % 5000}]}}\n" for at in range(5000))
    (found,) = mistakes(tasks)
    assert found == (
        "5: task 't0' waits for itself: t0 -> t1 -> t2 -> t3 -> t4 -> t5 -> t6 -> t7 -> ... -> t4999 -> t0; "
        "remove one of these needs"
    )


def test_a_chain_of_five_thousand_tasks_is_no_circle() -> None:
    tasks = "".join(f"  - {{id: t{at}, needs: [{f't{at - 1}' if at else ''}]}}\n" for at in range(5000))
    assert len(plan(tasks).tasks) == 5000


@given(st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=1, max_size=8))
def test_a_plan_is_accepted_exactly_when_its_needs_can_be_met(graph: list[set[int]]) -> None:
    edges = {at: {need % len(graph) for need in needs} for at, needs in enumerate(graph)}
    tasks = "".join(f"  - {{id: t{at}, needs: [{', '.join(f't{n}' for n in needs)}]}}\n" for at, needs in edges.items())
    met: set[int] = set()
    while more := {at for at, needs in edges.items() if needs <= met} - met:
        met |= more
    if len(met) == len(edges):
        assert len(plan(tasks).tasks) == len(edges)
        return
    for each in mistakes(tasks):
        if "waits for itself: " in each:
            path = [int(name[1:]) for name in each.split("itself: ")[1].split(";")[0].split(" -> ")]
            assert path[0] == path[-1]
            assert all(after in edges[before] for before, after in pairwise(path))
        else:
            assert "needs itself" in each


def test_for_each_makes_one_task_for_each_file() -> None:
    found = plan(
        """\
  - id: fix
    title: Fix {name}
    for_each: {files: "src/**/*.py"}
    description: "{path} in {dir}"
    files: ["{path}", "tests/test_{stem}.py"]
    reads: ["{dir}/*.pyi"]
    acceptance: ["python -m py_compile {path}"]
    agent: {command: "sed -i s/a/b/ {path} && echo ${HOME} {a,b} | awk '{print}'"}
    env: {TARGET: "{path}"}
  - id: last
    needs: ["fix:full"]
    agent: {command: "echo {path}"}
"""
    )
    first, second, third, last = found.tasks
    assert [each.id for each in found.tasks] == ["fix-src-a.py", "fix-src-b-c.py", "fix-src-sub-d.py", "last"]
    assert first.title == "Fix a.py"
    assert third.description == "src/sub/d.py in src/sub"
    assert second.files == ("src/b c.py", "tests/test_b c.py")
    assert third.reads == ("src/sub/*.pyi",)
    assert second.acceptance == ("python -m py_compile 'src/b c.py'",)
    assert second.agent == CommandAgent(run="sed -i s/a/b/ 'src/b c.py' && echo ${HOME} {a,b} | awk '{print}'")
    assert second.env == {"TARGET": "src/b c.py"}
    assert last.needs == tuple(TaskNeed(id=each.id, full=True) for each in (first, second, third))
    assert last.agent == CommandAgent(run="echo {path}"), "templates are nothing special outside for_each"


def test_tasks_of_two_for_each_can_need_one_another_file_by_file() -> None:
    found = plan(
        """\
  - {id: fix, for_each: {files: "src/**"}}
  - {id: "type-{path}", group: types, for_each: {files: "src/**"}, needs: ["fix-{path}"]}
  - {id: end, needs: [types]}
"""
    )
    needs = {each.id: [need.id for need in each.needs] for each in found.tasks}
    assert needs["type-src-b-c.py"] == ["fix-src-b-c.py"]
    assert needs["end"] == ["type-src-a.py", "type-src-b-c.py", "type-src-sub-d.py"]


def test_ids_of_files_whose_names_look_alike_differ() -> None:
    files = (
        "src/a/b.py",
        "src/a-b.py",
        "src/A-B.py",
        "src/uv.lock",
        "src/..x",
        "src/" + "long" * 60,
        "src/ä/é",
    )
    ids = [each.id for each in plan("  - {id: f, for_each: {files: 'src/**'}}\n", files).tasks]
    assert len({each.lower() for each in ids}) == len(files)
    again = [each.id for each in plan("  - {id: f, for_each: {files: 'src/**'}}\n", files).tasks]
    assert ids == again


def test_two_files_that_give_one_id_are_told() -> None:
    (found,) = mistakes("  - {id: 'f-{stem}', for_each: {files: '**'}}\n", ("a/init.py", "b/init.py"))
    assert found == "5: task 'f-{stem}' would be 'f-init' for both 'a/init.py' and 'b/init.py'; use {path} in its id"


def test_a_glob_filled_in_means_that_file_alone() -> None:
    files = ("pages/[id].tsx", "pages/i.tsx", "pages/{a,b}.tsx", "pages/*.tsx", "pages/a?.tsx")
    found = plan("  - {id: f, for_each: {files: 'pages/**'}, files: ['{path}']}\n", files)
    for path, task in zip(files, found.tasks, strict=True):
        assert task.files is not None
        assert [other for other in files if parse(task.files[0]).matches(other)] == [path]


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a'b",
    'a"b',
    "-rf",
    "a\nb",
    "a b",
    "\\",
    "#x",
    "~",
    "*",
]
COMMANDS = [
    "printf %s {path}",
    "printf %s ./{path}",
    'x={path}; printf %s "$x"',
    "printf %s $(printf %s {path})",
    "printf %s '{path}'",
    'printf %s "{path}"',
    'printf %s "$(printf %s "{path}")"',
    "printf %s `printf %s {path}`",
    "cat <<END\n{path}\nEND",
    "# it's {path}\nprintf %s {path}",
    '# "\nprintf %s "{path}"',
    "printf %s \\{path}",
    "printf %s 'open {path}",
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_name_becomes_a_command(command: str, name: str, tmp_path: Path) -> None:
    """A name inserted into a command stays one word with its exact characters, or the plan is refused."""
    entry = TaskEntry.model_validate(
        {"id": "t", "for_each": {"files": "**"}, "acceptance": [command], "agent": {"command": command}}
    )
    try:
        (task,) = for_each(entry, (name,))
    except CannotFanOut as refused:
        assert "within quotes" in refused.sentence
        assert command not in COMMANDS[:2]
        return
    done = subprocess.run(["sh", "-c", task.acceptance[0]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not (tmp_path / "pwned").exists()
    if command in COMMANDS[:2]:
        assert done.stdout.removeprefix("./").removeprefix("./") == name


def test_quotes_around_a_template_are_no_matter_for_harmless_names() -> None:
    found = plan("""  - {id: f, for_each: {files: 'src/a.py'}, acceptance: ['grep x "{path}"']}\n""")
    assert found.tasks[0].acceptance == ('grep x "src/a.py"',)


def test_a_file_name_that_is_not_utf_8_is_told() -> None:
    (found,) = mistakes("  - {id: f, for_each: {files: '**'}}\n", ("a\udcff.py",))
    assert found == "5: task 'f' is repeated for 'a?.py', whose name is not UTF-8; exclude it"


def test_a_title_is_one_line() -> None:
    (task,) = plan("  - {id: f, title: 'Do {name}', for_each: {files: '**'}}\n", ("a\nb\x1b[31m.py",)).tasks
    assert task.title == "Do a b?[31m.py"


def test_a_failed_fan_out_does_not_make_its_group_unknown() -> None:
    found = mistakes("  - {id: f, for_each: {files: 'none/**'}}\n  - {id: g, needs: [f]}\n")
    assert len(found) == 1


def test_an_expanded_plan_is_read_back_as_it_was() -> None:
    written = plan("  - {id: f, for_each: {files: '**'}, duration_s: 5m}\n  - {id: g, needs: ['f:full']}\n")
    assert read_expanded(dump_plan(written)) == written
    assert plan_digest(read_expanded(dump_plan(written))) == plan_digest(written)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "name": "x", "tasks": [{"id": "a"}]}'])
def test_a_damaged_expanded_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanWrong, match="expanded plan"):
        read_expanded(text)


def test_a_digest_tells_meaning_and_not_writing() -> None:
    one = plan("  - {id: a, priority: 0}\n")
    assert plan_digest(one) == plan_digest(plan("  # a note\n  - id: a\n    title: a\n"))
    assert plan_digest(one) != plan_digest(plan("  - {id: a, priority: 1}\n"))


def test_a_missing_plan_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlanWrong, match="there is no such file"):
        load_plan(tmp_path / "plan.yaml", files=lambda: ())


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("l/key", "must lie below the plan's folder, and not behind a link"),
        ("kept/l/key", "must lie below the plan's folder, and not behind a link"),
        ("l", "must lie below the plan's folder, and not behind a link"),
        ("file", "must lie below the plan's folder, and not behind a link"),
        ("kept", "holds kept/l, which is no regular file"),
        ("kept/../../outside/key", "must lie below the plan's folder"),
        ("mixed", "holds mixed/key, which is no regular file"),
    ],
)
def test_no_asset_comes_from_outside_through_a_link(tmp_path: Path, named: str, why: str) -> None:
    """Otherwise a plan from another person could carry this person's keys into the hub."""
    outside, folder = tmp_path / "outside", tmp_path / "plans"
    outside.mkdir()
    for name in ("kept", "mixed"):
        (folder / name).mkdir(parents=True)
    (outside / "key").write_text("secret\n")
    for link in (folder / "file", folder / "mixed" / "key"):
        link.symlink_to(outside / "key")
    for link in (folder / "l", folder / "kept" / "l"):
        link.symlink_to(outside)
    with pytest.raises(PlanWrong) as caught:
        parse_plan(f"assets: [{named}]\n{HEAD}  - {{id: one}}\n", "plan.yaml", folder, lambda: TREE)
    assert [each.partition(", which ")[2] for each in caught.value.mistakes] == [why]


@pytest.mark.parametrize(
    ("limit", "most", "said"),
    [
        ("MOST_FILES", 2, "3: 'assets' has more than 2 files; name those that are needed"),
        ("MOST_BYTES", 5, "3: 'assets' has more than 0 MB; commit what is large, or fetch it"),
    ],
)
def test_assets_have_a_limit(limit: str, most: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / name).write_text("a\n")
    text = HEAD.replace("name: p\n", "name: p\nassets: [a, b, c]\n") + "  - {id: one}\n"
    assert len(parse_plan(text, "plan.yaml", tmp_path, lambda: TREE).assets) == 3
    monkeypatch.setattr(plan_assets, limit, most)
    with pytest.raises(PlanWrong) as caught:
        parse_plan(text, "plan.yaml", tmp_path, lambda: TREE)
    assert [each.removeprefix("plan.yaml:").lstrip() for each in caught.value.mistakes] == [said]


def test_a_plan_in_a_folder_that_is_reached_by_a_link_may_have_assets(tmp_path: Path) -> None:
    (tmp_path / "real" / "kept").mkdir(parents=True)
    (tmp_path / "real" / "kept" / "a").write_text("a\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for named in ("kept", "kept/a", "."):
        read = parse_plan(f"assets: [{named}]\n{HEAD}  - {{id: one}}\n", "plan.yaml", tmp_path / "link", lambda: TREE)
        assert [each.path for each in read.assets] == ["kept/a"]


def test_a_folder_that_became_a_link_after_reading_is_not_followed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "plans", tmp_path / "elsewhere"
    (folder / "kept").mkdir(parents=True)
    (folder / "kept" / "a").write_text("a\n")
    assets = tuple(assets_in(folder, "kept"))
    (folder / "kept").rename(elsewhere)
    (folder / "kept").symlink_to(elsewhere)
    with pytest.raises(AssetsChanged, match="behind a link"):
        copy_assets(assets, folder, tmp_path / "copies")
    assert not (tmp_path / "copies").exists()


def test_a_guard_is_an_acceptance_command_that_is_known_to_pass_before() -> None:
    one, two = plan("  - {id: a, acceptance: [make a], guards: [make b]}\n  - {id: b, acceptance: [make a]}\n").tasks
    assert (one.acceptance, one.guards) == (("make a", "make b"), ("make b",))
    assert "guards" not in two.model_dump(mode="json")
    (spread,) = plan("  - {id: a, for_each: {files: README.md}, guards: ['lint {path}']}\n").tasks
    assert spread.acceptance == spread.guards == ("lint README.md",)
