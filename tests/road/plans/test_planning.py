"""`forgepool plan` and `forgepool do`, with models behind real HTTP: what is sent back, what stops, and what lands."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from kit import Machine, Ran, Repository, wait_until
from models_kit import PRICE
from planning_kit import PLAN, Models, know, objection, read, typed, written
from vendors.answers import Say
from vendors.server import VendorServer

NothingLeft = Callable[[Path, Machine], None]
GOAL = "Write two files, one after the other"
FAULTY = PLAN.replace("needs: [first]", "needs: [frist]")
MISSPELT = "plan.yaml:16: task 'second' needs 'frist', which is not in the plan; tasks are: first, second"
HAND_WRITTEN = "# by hand\n"


class Desk:
    """A machine at which a person plans."""

    def __init__(self, machine: Machine, repository: Repository) -> None:
        self.machine, self.repository = machine, repository

    def run(self, models: Models, *argv: str | Path, critic: bool = True, price: str = PRICE) -> Ran:
        with VendorServer(models, models=["planner-1", "critic-1"]) as server:
            know(self.machine, server, critic=critic, price=price)
            ended = self.machine.run(argv[0], GOAL, "--repo", self.repository.path, *argv[1:])
            assert server.invalid == [], ended.out + ended.err
        return ended

    @property
    def folder(self) -> Path:
        """Return the folder of the one planning."""
        (found,) = (self.machine.home / "plans").iterdir()
        return found


@pytest.fixture
def desk(machine: Machine, repository: Repository) -> Desk:
    return Desk(machine, repository)


@pytest.mark.slow
def test_a_goal_lands_after_its_plan_was_sent_back(desk: Desk, ground: Path, nothing_left: NothingLeft) -> None:
    models = Models([read("README.md"), written(FAULTY), written()], [objection()])
    ended = desk.run(models, "do", "--yes", "--workers", "2", "--budget-usd", "5")
    assert ended.status == 0, ended.out + ended.err + desk.machine.logs()
    assert desk.repository.landed("forgepool/two-files") == ["first", "second"]
    assert MISSPELT in models.planned[2].results[-1]
    assert "critic-1 had no objection." in (desk.folder / "plan.why.md").read_text()
    plan = yaml.safe_load((desk.folder / "plan.yaml").read_text())
    assert 4.9 < plan["budget"]["usd"] < 5.0
    assert (desk.folder / "plan.yaml").read_text().startswith(f"# Goal: {GOAL}\n# Planned ")
    assert f"| R1 | {GOAL} | first, second |" in (desk.folder / "plan.why.md").read_text()
    rows = json.loads(desk.machine.run("spend", "--by", "task", "--json").out)["rows"]
    (planned,) = [row["used"] for row in rows if row["name"] == f"{desk.folder.name} (planning)"]
    assert planned["priced_usd"] == pytest.approx(5.0 - plan["budget"]["usd"], abs=0.01)
    nothing_left(ground, desk.machine)


@pytest.mark.slow
def test_a_lead_collects_the_results_of_the_plan_and_ends_with_a_synthesis(desk: Desk) -> None:
    ended = desk.run(Models([written()]), "do", "--yes", "--no-critic", "--workers", "2")
    assert ended.status == 0, ended.out + ended.err
    assert desk.repository.landed("forgepool/two-files") == ["first", "second"]
    synthesis = (desk.machine.home / "runs" / desk.machine.the_run() / "synthesis.md").read_text()
    assert "> - `first` landed: first.txt is there." in synthesis
    plan = yaml.safe_load((desk.folder / "plan.yaml").read_text())
    assert [task["id"] for task in plan["tasks"]] == ["lead", "first", "second"]


def test_a_plan_that_can_take_no_lead_is_not_run_without_one(desk: Desk) -> None:
    """A person who asked for a lead decides whether the plan runs without it; others are told."""
    head, _, tasks = PLAN.partition("tasks:\n")
    flow = head + f"tasks: {yaml.safe_load(tasks)}\n"
    ended = desk.run(Models([written(flow)]), "do", "--yes", "--lead", "--no-critic")
    assert ended.status == 2 and desk.machine.runs() == [], ended.out + ended.err
    assert "no lead can be added to the plan: its tasks are not written in block style" in ended.err
    assert f"`forgepool run {desk.folder / 'plan.yaml'}" in ended.err
    alone = desk.run(Models([written(flow)]), "do", "--no-critic", "--plan-only", desk.machine.folder / "p.yaml")
    assert alone.status == 0 and "written in block style; there will be no synthesis" in alone.out, alone.err


def test_the_third_refused_plan_ends_the_planning(desk: Desk) -> None:
    models = Models([written(FAULTY), written(FAULTY), written(FAULTY), written()])
    ended = desk.run(models, "plan")
    assert ended.status == 1 and len(models.planned) == 3
    draft = desk.folder / "draft-3.yaml"
    assert f"correct it, then `forgepool run {draft} --repo {desk.repository.path}`" in ended.err
    assert ended.out.count(MISSPELT) == 3 and MISSPELT not in ended.err
    assert (desk.folder / "draft-3.yaml").read_text() == FAULTY and not (desk.folder / "plan.yaml").exists()
    assert "This is the last time" in models.planned[2].results[-1]


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (
            [written(PLAN.partition("tasks:")[0] + "tasks: []\n", {"R1": []})] * 3,
            "'tasks' is empty; write at least one",
        ),
        ([Say(text="There is nothing to do."), Say(text="Done.")], "the model twice answered without calling a tool"),
    ],
)
def test_a_planner_without_tasks_has_failed(desk: Desk, answers: list[Say], sentence: str) -> None:
    ended = desk.run(Models(answers), "do", "--yes")
    assert ended.status == 1 and "there is no plan: " in ended.err and sentence in ended.out + ended.err
    assert desk.machine.runs() == []


def test_a_budget_that_is_too_small_stops_before_a_call(desk: Desk) -> None:
    models = Models([written()])
    ended = desk.run(models, "plan", "--budget-usd", "1", price="{input: 1000, cached: 1, written: 1, output: 5000}")
    assert ended.status == 1 and models.planned == []
    assert "the agent used its 1 USD without finishing" in ended.err


def test_a_model_of_unknown_price_is_named(desk: Desk) -> None:
    models = Models([written()])
    ended = desk.run(models, "plan", "--budget-usd", "1", price="null")
    assert ended.status == 2 and models.planned == []
    assert "; planner-1: its price is not known" in ended.err


def test_ctrl_c_keeps_the_draft_and_says_where(desk: Desk) -> None:
    models = Models([written(FAULTY), Say(pause_s=60)])
    with VendorServer(models, models=["planner-1"]) as server:
        know(desk.machine, server)
        under_way = desk.machine.start("plan", GOAL, "--repo", desk.repository.path)
        wait_until(lambda: len(models.planned) == 2, "the second question")
        under_way.process.send_signal(signal.SIGINT)
        ended = under_way.ended(within_s=30)
    assert ended.status == 130, ended.err
    assert ended.err == f"forgepool: interrupted; the last draft is {desk.folder / 'draft-1.yaml'}\n"
    assert (desk.folder / "draft-1.yaml").read_text() == FAULTY


def test_a_critic_objects_once_and_the_planner_answers(desk: Desk) -> None:
    better = PLAN.replace("after `first`", "after the file of `first`")
    models = Models(
        [written(), written(better, why="the critic is right")], [objection("task second: says too little\x1b[2J")]
    )
    ended = desk.run(models, "plan", "--critic")
    assert ended.status == 0, ended.err
    assert len(models.criticised) == 1 and models.criticised[0].model == "critic-1"
    assert "task second: says too little" in models.planned[1].texts[-1]
    assert better in (desk.folder / "plan.yaml").read_text()
    assert "- task second: says too little\\x1b[2J" in (desk.folder / "plan.why.md").read_text()


def test_a_plan_that_held_stands_where_the_answer_to_the_critic_does_not(desk: Desk) -> None:
    models = Models([written(), *[written(FAULTY)] * 3], [objection("task second: says too little")])
    ended = desk.run(models, "plan", "--critic")
    assert ended.status == 0 and PLAN in (desk.folder / "plan.yaml").read_text()
    assert "the planner's answer to the critic was no plan that holds" in ended.out


def test_only_a_critic_of_another_family_with_a_key_is_asked(desk: Desk) -> None:
    models = Models([written(), written()])
    assert desk.run(models, "do", "--plan-only", desk.machine.folder / "p.yaml", critic=False).status == 0
    ended = desk.run(models, "plan", "--critic", critic=False)
    assert ended.status == 0 and models.criticised == []
    assert "no model of another family than first can be asked to criticise it: set ROAD_CRITIC_KEY" in ended.out


def test_without_a_terminal_or_a_yes_nothing_runs(desk: Desk) -> None:
    ended = desk.run(Models([written()]), "do", "--no-critic")
    assert ended.status == 2 and desk.machine.runs() == []
    assert "no person is at a terminal to say yes, and --yes was not given" in ended.err
    assert f"`forgepool run {desk.folder / 'plan.yaml'} --repo {desk.repository.path}` runs it" in ended.err


def test_a_plan_with_grants_waits_for_a_person_in_spite_of_yes(desk: Desk) -> None:
    granted = PLAN.replace("    files: [first.txt]", "    files: [first.txt]\n    grants: [first.txt]")
    ended = desk.run(Models([written(granted)]), "do", "--yes", "--no-critic")
    assert ended.status == 2 and desk.machine.runs() == []
    assert "task 'first' has 'grants', which a person must read, whatever --yes says" in ended.err


def test_a_plan_with_a_command_of_the_planners_waits_for_a_person_in_spite_of_yes(desk: Desk) -> None:
    """No model reviews what a command does, so a planner could land its own words by writing them into one."""
    commanded = PLAN.replace("agent: {builtin: {}}", 'agent: {command: "echo x > first.txt"}')
    ended = desk.run(Models([written(commanded)]), "do", "--yes", "--no-critic")
    assert ended.status == 2 and desk.machine.runs() == []
    assert "is done by a command that the planner wrote, which a person must read, whatever --yes says" in ended.err


def test_a_file_that_is_there_is_shown_as_a_diff_and_stays(desk: Desk) -> None:
    output = desk.machine.folder / "mine.yaml"
    output.write_text(HAND_WRITTEN)
    ended = desk.run(Models([written()]), "plan", "-o", output)
    assert ended.status == 2 and output.read_text() == HAND_WRITTEN
    assert "-# by hand" in ended.out and "+name: two-files" in ended.out
    assert "give --yes to replace the file" in ended.err
    assert desk.run(Models([written()]), "plan", "-o", output, "--yes").status == 0
    assert PLAN in output.read_text() and output.with_suffix(".why.md").is_file()


@pytest.mark.parametrize(("answer", "status"), [("n", 1), ("y", 0)])
def test_a_person_at_a_terminal_is_asked(desk: Desk, answer: str, status: int) -> None:
    output = desk.machine.folder / "mine.yaml"
    output.write_text(HAND_WRITTEN)
    with VendorServer(Models([written()]), models=["planner-1"]) as server:
        know(desk.machine, server)
        argv = ["plan", GOAL, "--repo", str(desk.repository.path), "-o", str(output)]
        ended, said = typed(desk.machine, argv, f"{answer}\n")
    assert ended == status, said
    assert f"Replace {output}?" in said.replace("\r\n", "")
    assert (output.read_text() == HAND_WRITTEN) == (answer == "n")


def test_a_person_reads_what_the_plan_may_do_before_the_question(desk: Desk) -> None:
    changes = {
        "    files: [first.txt]": "    files: [first.txt]\n    grants: [README.md, first.txt]",
        "    files: [second.txt]": "    files: [second.txt]\n    agent: {command: echo by second > second.txt}",
    }
    plan = PLAN
    for before, after in changes.items():
        plan = plan.replace(before, after)
    with VendorServer(Models([written(plan)]), models=["planner-1"]) as server:
        know(desk.machine, server)
        argv = ["do", GOAL, "--repo", str(desk.repository.path), "--no-critic"]
        ended, said = typed(desk.machine, argv, "n\n")
    before, question, after = said.replace("\r\n", "\n").partition("Run this plan?")
    assert ended == 1 and question, said
    assert f"forgepool: not run; the plan is kept; `forgepool run {desk.folder / 'plan.yaml'} --repo" in after
    assert f"plan: {desk.folder / 'plan.yaml'}\n  check there: `ls README.md`\n" in before
    assert "  task first: accepted by `grep -q 'by first' first.txt`\n    grants: README.md, first.txt\n" in before
    assert "  task second: runs `echo by second > second.txt`; accepted by `grep -q 'by second' second.txt`\n" in before


def test_ctrl_c_at_the_question_ends_with_what_is_kept(desk: Desk) -> None:
    slow = Say(calls=written().calls, pause_s=2.5)
    with VendorServer(Models([slow]), models=["planner-1"]) as server:
        know(desk.machine, server)
        argv = ["do", GOAL, "--repo", str(desk.repository.path), "--no-critic"]
        ended, said = typed(desk.machine, argv, "", interrupt_at="Run this plan? [y/N]")
    assert ended == 130, said
    assert "forgepool: planner-1 thinks ..." in said
    assert "no earlier run tells it (`forgepool simulate plan FILE --from-runs`)" in said
    assert f"forgepool: interrupted; the plan is kept; `forgepool run {desk.folder / 'plan.yaml'} --repo" in said


def test_a_run_that_cannot_start_names_the_kept_plan(desk: Desk) -> None:
    ended = desk.run(Models([written()]), "do", "--yes", "--no-critic", "--notify", "https://")
    assert ended.status == 2 and desk.machine.runs() == [], ended.err
    assert f"; the plan is kept; then: forgepool run {desk.folder / 'plan.yaml'} --repo " in ended.err


def test_a_lead_without_a_model_is_refused_before_planning(desk: Desk) -> None:
    models = Models([written()])
    with VendorServer(models, models=["planner-1"]) as server:
        know(desk.machine, server, critic=False)
        table = desk.machine.folder / "models.yaml"
        text = table.read_text().replace("code: {primary: planner-1", "code: {primary: critic-1")
        table.write_text(text.replace("budget: planner-1", "budget: critic-1"))
        ended = desk.machine.run("do", GOAL, "--repo", desk.repository.path, "--lead", "--yes")
    assert ended.status == 2 and models.planned == []
    assert "no model can be asked to lead: set " in ended.err and "ROAD_CRITIC_KEY" in ended.err


@pytest.mark.parametrize("name", ["folder", "file/plan.yaml"])
@pytest.mark.parametrize("option", [("plan", "-o"), ("do", "--plan-only")])
def test_a_plan_that_cannot_be_written_is_not_begun(desk: Desk, option: tuple[str, str], name: str) -> None:
    (desk.machine.folder / "folder").mkdir()
    (desk.machine.folder / "file").touch()
    models = Models([written()])
    ended = desk.run(models, *option, desk.machine.folder / name)
    assert ended.status == 2 and models.planned == []
    right = "is a folder; name a file in it, such as" if name == "folder" else "is no folder; name another file"
    assert right in ended.err


def test_a_specification_without_requirements_is_told(desk: Desk) -> None:
    specification = desk.machine.folder / "spec.md"
    specification.write_text("Two files are there in the end.\n")
    ended = desk.run(Models([written()]), "plan", "--from", specification)
    assert ended.status == 0, ended.err
    assert f"warning: {specification} has no requirement, so the goal is the only one; list items, " in ended.out


_MORE_KEYS = "needs: [first]\n    waive: [placeholder]\n    env: {PATH: /tmp}\n    unchanged: ok"


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        (
            {
                "version: 1": "version: 1\ntarget: main",
                "needs: [first]": _MORE_KEYS,
                "  there: ls README.md": "  there: {run: ls README.md, voting: false, traced: true}",
                "  agent: {builtin: {}}": "  agent: {cli: claude}",
            },
            [
                "plan.yaml:2: 'target' is a key that only a person writes",
                *(f"'{key}' is a key that only a person writes" for key in ("waive", "env", "unchanged")),
                "'traced' of check 'there' is a person's to write",
                "'voting' of check 'there' is a person's to write",
                "'agent: cli' is a person's to choose",
            ],
        ),
        ({"checks:\n  there: ls README.md": "checks: none"}, ["'checks: none' is a person's to write; name a check"]),
        ({PLAN: f"{PLAN}...\n"}, ["plan.yaml: the plan cannot be continued by a line"]),
        ({"version: 1": "version: 1\nbase: other"}, ["base 'other' is no branch, tag or commit"]),
        ({"name: two-files": "name: taken"}, ["the branch forgepool/taken exists; choose another name"]),
    ],
)
def test_a_planner_cannot_widen_its_own_plan(desk: Desk, changes: dict[str, str], sentences: list[str]) -> None:
    desk.repository.git("branch", "forgepool/taken")
    plan = PLAN
    for old, new in changes.items():
        plan = plan.replace(old, new)
    models = Models([written(plan), written()])
    ended = desk.run(models, "plan")
    assert ended.status == 0, ended.err
    told = models.planned[1].results[-1]
    assert [one for one in sentences if one not in told] == [], told


def test_faults_of_the_validation_are_sent_back(desk: Desk) -> None:
    models = Models([written(PLAN.replace("grep -q 'by first' first.txt", "ls README.md")), written()])
    ended = desk.run(models, "plan")
    assert ended.status == 0, ended.err
    sentence = "plan.yaml:12: task 'first' is accepted by `ls README.md`, which passes without its work"
    assert sentence in models.planned[1].results[-1] and sentence in ended.out


def test_requirements_without_tasks_are_sent_back(desk: Desk) -> None:
    specification = desk.machine.folder / "spec.md"
    specification.write_text("# Files\n\n- first.txt is there\n- second.txt is there\n\n```\n- no item\n```\n")
    whole = {"R1": ["first"], "R2": ["second"]}
    models = Models([written(covers={"R1": ["first"], "R3": ["second"]}), written(covers=whole)])
    ended = desk.run(models, "plan", "--from", specification, "--json")
    assert ended.status == 0, ended.err
    refusal = models.planned[1].results[-1]
    assert "requirement R2 (second.txt is there) has no task" in refusal
    assert "'covers' names R3, which is no requirement" in refusal
    assert ended.answer["covers"] == whole and ended.answer["preview"]["order"] == ["first", "second"]


def test_a_planner_that_learns_nothing_new_is_told_to_write(desk: Desk) -> None:
    models = Models([*[read("README.md"), read("src/a.txt")] * 5, written()])
    models.planner = [*models.planner[:8], read("src/b.txt"), written()]
    ended = desk.run(models, "plan")
    assert ended.status == 0, ended.err
    said = [text for seen in models.planned for text in seen.texts]
    assert any("Exploring has ended" in text for text in said)


def test_without_a_key_one_sentence_says_which(desk: Desk) -> None:
    with VendorServer(Models([]), models=["planner-1"]) as server:
        know(desk.machine, server)
        del desk.machine.variables["ROAD_TEST_KEY"]
        ended = desk.machine.run("plan", GOAL, "--repo", desk.repository.path)
    assert ended.status == 2 and "no model can be asked for a plan: set ROAD_TEST_KEY" in ended.err
    assert ended.err.count("\n") == 1
