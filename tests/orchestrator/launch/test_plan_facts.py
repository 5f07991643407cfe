"""`forgepool check --thorough` compares a plan with a real repository, and tries its acceptance on the base."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from people import Person, person_in

from forgepool.orchestrator.launch import plan_facts
from forgepool.orchestrator.plan.document import parse_plan
from forgepool.orchestrator.run.hub import open_hub
from forgepool.workers.schema.settings import Settings

FILES = {
    "forgepool.yaml": "version: 1\nchecks:\n  test: {run: sh run_tests.sh}\nscans: {protect: [locked/*]}\n",
    "run_tests.sh": "test -e shop.py\n",
    "shop.py": "def total(prices):\n    return sum(prices)\n",
    "test_shop.py": "from shop import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n",
    "locked/rules.txt": "one\n",
}
BASE: dict[str, Any] = {"title": "Round the total of the shop", "files": ["shop.py"], "agent": {"builtin": {}}}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return person_in(tmp_path, FILES)


def thorough(person: Person, *tasks: dict[str, Any], name: str = "p", **said: Any) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit status and the faults of a plan that lies outside the repository."""
    path = person.folder.parent / f"{name}.yaml"
    named = [{**BASE, **task} for task in tasks]
    path.write_text(
        json.dumps(
            {"version": 1, "name": name, "target": "new", "budget": {"usd": 5}, **said, "tasks": named}, indent=1
        )
    )
    before = person.everything()
    answer = person.forgepool("check", str(path), "--thorough", "--json")
    assert answer.err == "", answer.err
    assert person.everything() == before
    return answer.status, json.loads(answer.out)["faults"]


def rules(faults: list[dict[str, Any]]) -> list[str]:
    return [fault["rule"] for fault in faults]


def test_an_honest_plan_has_no_faults(person: Person) -> None:
    tested = "python3 -m pytest -q test_shop.py"
    task = {"id": "a", "acceptance": ["grep -q round shop.py"], "guards": [tested]}
    assert thorough(person, task) == (0, [])


def test_acceptance_that_passes_on_the_base_is_an_error_with_its_line(person: Person) -> None:
    status, faults = thorough(person, {"id": "a", "acceptance": ["grep -q round shop.py", "grep -q sum shop.py"]})
    assert (status, rules(faults)) == (2, ["green-on-base"])
    line = faults[0]["line"]
    assert "grep -q sum" in (person.folder.parent / "p.yaml").read_text().splitlines()[line - 1]


def test_a_command_finds_no_trace_of_the_one_before(person: Person) -> None:
    acceptance = ["touch made; grep -q round shop.py", "test -e made"]
    assert thorough(person, {"id": "a", "acceptance": acceptance}) == (0, [])


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-program --now", "a program is missing in the sandbox"),
        ("python3 -m no_such_module", "Python has no module 'no_such_module' in the sandbox"),
    ],
)
def test_trouble_of_the_machine_is_told_and_is_not_red(person: Person, command: str, why: str) -> None:
    status, (fault,) = thorough(person, {"id": "a", "acceptance": [command]})
    assert (status, fault["rule"], fault["level"]) == (0, "not-tried", "warning")
    assert fault["sentence"].endswith(why)


def test_a_workflow_is_looked_for_on_the_base(person: Person) -> None:
    """A mistake in its file is told with its line, and a task that it does not fit with the reason."""
    person.commit({".forgepool/workflows/odd.yaml": "name: odd\nphases: [{name: a, artifact: change}]\n"})
    for flow, why in (
        (
            "bild",
            "workflow 'bild': it is neither built in nor in .forgepool/workflows/ at the base; did you mean build?",
        ),
        ("odd", ".forgepool/workflows/odd.yaml:1: the file lacks the key 'description'"),
        ("scope", "the workflow 'scope' ends with a report; write 'answers: true', or choose another workflow"),
    ):
        task = {"id": "a", "acceptance": ["grep -q round shop.py"], "agent": {"builtin": {"workflow": flow}}}
        status, (fault,) = thorough(person, task)
        assert (status, fault["rule"]) == (2, "unfit-workflow")
        assert fault["sentence"] == f"task 'a' cannot have its workflow: {why}"
    answers = {"id": "a", "files": [], "answers": True, "agent": {"builtin": {"workflow": "scope"}}}
    assert thorough(person, answers) == (0, [])


def test_the_skills_of_a_workflow_are_looked_for_and_read_on_the_base(person: Person) -> None:
    phases = "[{name: a, artifact: report, skill: nobodys}, {name: b, artifact: change, skill: odd}]"
    person.commit(
        {
            ".forgepool/workflows/own.yaml": f"name: own\ndescription: d\nphases: {phases}\n",
            ".forgepool/skills/odd.md": "---\nname: odd\ndescription: d\nmodle: m\n---\nOdd.\n",
        }
    )
    task = {"id": "a", "acceptance": ["grep -q round shop.py"], "agent": {"builtin": {"workflow": "own"}}}
    status, faults = thorough(person, task)
    assert status == 2 and {fault["rule"] for fault in faults} == {"unknown-skill", "unfit-skill"}
    told = " ".join(fault["sentence"] for fault in faults)
    assert "unknown skill 'nobodys'; skills are: " in told and ".forgepool/skills/odd.md:4: the file has an" in told


def test_a_module_that_the_task_makes_is_red_as_it_should_be(person: Person) -> None:
    task = {"id": "a", "files": ["stock.py"], "acceptance": ["python3 -c 'import stock'"]}
    assert thorough(person, task) == (0, [])


def test_a_set_up_of_the_target_fills_the_folders_that_commands_see(person: Person) -> None:
    made = {"run": "sh run_tests.sh", "setup": "mkdir -p dep && echo 3 > dep/version"}
    made |= {"cache": [{"folder": "dep", "key": "dep.lock"}]}
    person.commit({"forgepool.yaml": json.dumps({"version": 1, "checks": {"test": made}}), "dep.lock": "3\n"})
    person.commit({".gitignore": "dep\n"})
    status, faults = thorough(person, {"id": "a", "acceptance": ["test -e dep/version"]})
    assert (status, rules(faults)) == (2, ["green-on-base"])


@pytest.mark.slow
def test_the_bound_of_a_trial_holds_for_set_ups_too(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planner may have written the set-up, and its time limit."""
    monkeypatch.setattr(plan_facts, "LONGEST_S", 2.0)
    person.commit({"dep.lock": "3\n", ".gitignore": "dep\n"})
    slow = {"run": "true-ish", "setup": "sleep 300", "timeout_s": "1d", "cache": [{"folder": "dep", "key": "dep.lock"}]}
    task = {**BASE, "id": "a", "acceptance": ["grep -q round shop.py"]}
    said = {"version": 1, "name": "p", "checks": {"slow": slow}, "tasks": [task]}
    plan = parse_plan(json.dumps(said), "plan.yaml", tmp_path, list)
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    hub = open_hub(str(person.folder), settings)
    tip = hub.tip_for(plan)
    hub.mirror.ensure(tip)
    base = plan_facts.BaseCheckout(
        plan=plan, mirror=hub.mirror, tip=tip, settings=settings, folder=tmp_path, stop=lambda: False
    )
    began = time.monotonic()
    assert [result.outcome for _, result in base.run_all()] == ["red"]
    assert time.monotonic() - began < 60


def test_files_that_the_gate_protects_want_a_grant(person: Person) -> None:
    accepted = {"acceptance": ["grep -q round shop.py"]}
    paths = ["locked/rules.txt", "run_tests.sh"]
    status, faults = thorough(person, {"id": "a", "files": paths, **accepted})
    assert (status, rules(faults)) == (2, ["protected-path"] * 2)
    assert thorough(person, {"id": "a", "files": paths, "grants": paths, **accepted}) == (0, [])


def test_a_name_of_the_base_needs_no_maker(person: Person) -> None:
    one = {"id": "a", "description": "Add a function `round_up` to the shop.", "acceptance": ["grep -q round shop.py"]}
    two = {"id": "b", "files": ["till.py"], "acceptance": ["test -e till.py"], "title": "Print the total of the shop"}
    status, faults = thorough(person, one, {**two, "description": "Call `round_up` in the till."})
    assert (status, rules(faults)) == (2, ["used-before-made"])
    assert thorough(person, one, {**two, "description": "Call `total` in the till."}) == (0, [])


def test_a_file_that_has_always_changed_with_the_tasks_files_is_asked_about(person: Person) -> None:
    """A past of fewer than 100 commits is too short to say so."""
    task = {"id": "a", "acceptance": ["grep -q round shop.py"]}
    for number in range(120):
        person.commit({"shop.py": f"{FILES['shop.py']}# {number}\n", "api.txt": f"total {number}\n"})
        if number == 50:
            assert thorough(person, task) == (0, [])
    status, (fault,) = thorough(person, task)
    assert (status, fault["rule"], fault["level"]) == (0, "likely-outside", "warning")
    assert "very likely changes 'api.txt' (" in fault["sentence"]


def test_checks_without_a_vote_prove_nothing(person: Person) -> None:
    person.commit({"forgepool.yaml": None})
    told = {"told": {"run": "sh run_tests.sh", "voting": False}}
    status, faults = thorough(person, {"id": "a"}, checks=told)
    assert (status, rules(faults)) == (2, ["no-proof"])
    voting = {"told": {"run": "sh run_tests.sh"}}
    assert rules(thorough(person, {"id": "a"}, checks=voting, name="q")[1]) == ["no-acceptance"]


def test_warnings_alone_leave_the_exit_status_as_it_is(person: Person) -> None:
    status, faults = thorough(person, {"id": "a"})
    assert (status, [(fault["rule"], fault["level"]) for fault in faults]) == (0, [("no-acceptance", "warning")])


def test_requirements_beside_the_plan_are_compared_with_its_tasks(person: Person) -> None:
    (person.folder.parent / "p.why.md").write_text("# Why\n\n| R1 | Totals are round | a |\n| R2 | Fast | |\n")
    status, faults = thorough(person, {"id": "a", "acceptance": ["grep -q round shop.py"]})
    assert (status, rules(faults)) == (2, ["uncovered"])


def test_a_plan_that_cannot_run_is_not_tried(person: Person) -> None:
    path = person.folder.parent / "p.yaml"
    path.write_text(json.dumps({"version": 1, "name": "p", "target": "main", "tasks": [{"id": "a", **BASE}]}))
    answer = person.forgepool("check", str(path), "--thorough")
    assert answer.status == 2 and "no command was run; solve these problems first" in answer.err


def test_a_person_reads_each_fault_on_a_line(person: Person) -> None:
    path = person.folder.parent / "p.yaml"
    task = {"id": "a", **BASE, "acceptance": ["make || true"]}
    path.write_text(json.dumps({"version": 1, "name": "p", "tasks": [task]}, indent=1))
    answer = person.forgepool("check", str(path), "--thorough")
    line = "  line 15: error: task 'a' is accepted by `make || true`, which cannot fail: `|| true` makes it end well"
    assert answer.status == 2 and f"faults:\n{line} [cannot-fail]" in answer.out, answer.out
