"""Agents that ask models over HTTP, in whole runs: what lands, what it costs, and what a killed worker costs."""

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_kit import RECORDINGS, folder_of
from kit import Machine, Repository, events_of, wait_until, write_plan
from models_kit import know, planning, writes
from processes import in_role
from vendors.answers import Say, Seen
from vendors.server import VendorServer

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState

RECORDED = RECORDINGS / "claude" / "claude-success.jsonl"

NothingLeft = Callable[[Path, Machine], None]


AGENTS: dict[str, dict[str, object]] = {
    "anthropic": {"builtin": {"model": "model-anthropic"}},
    "responses": {"builtin": {"model": "model-openai-responses"}},
    "chat": {"builtin": {"model": "model-openai-chat"}},
    "program": {"cli": "claude"},
    "command": {"command": "echo 'by command' > command.txt"},
}


def plan_of(name: str, agents: dict[str, dict[str, object]]) -> dict[str, Any]:
    tasks = [
        {"id": task, "files": [f"{task}.txt"], "acceptance": [f"grep -q 'by {task}' {task}.txt"], "agent": agent}
        for task, agent in agents.items()
    ]
    return {"name": name, "checks": {"there": "ls *.txt"}, "review": "none", "tasks": tasks}


@pytest.mark.slow
def test_five_agents_land_on_one_target(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    """One model on each wire, one command, and one program that replays recorded output of the real one."""
    folder = machine.folder / "bin"
    folder.mkdir()
    stand_in = folder / "claude"
    # The whole program is in the folder on the PATH, where the sandbox lets it be read.
    shutil.copy(RECORDED, folder / "said")
    stand_in.write_text(f"#!/bin/sh\ncat >/dev/null\necho 'by program' > program.txt\ncat '{folder}/said'\n")
    stand_in.chmod(0o755)
    with VendorServer(writes, models=["m"]) as server:
        know(machine, server)
        machine.variables |= {"PATH": f"{folder}:{os.environ['PATH']}", "ANTHROPIC_API_KEY": "road-key"}
        plan = write_plan(ground, plan_of("five", AGENTS))
        ended = machine.run("run", plan, "--repo", repository.path, "--workers", "2")
        assert ended.status == 0, ended.out + ended.err
        assert server.invalid == []
    assert sorted(repository.landed("forgepool/five")) == sorted(AGENTS)
    for task in AGENTS:
        assert repository.file("forgepool/five", f"{task}.txt") == f"by {task}"
    results = {event.task: event.result for event in events_of(machine.journal(), e.OrderAnswered)}
    assert results["responses"].models == ("model-openai-responses",)
    assert {seen.wire for seen in server.seen} == {"anthropic", "openai-responses", "openai-chat"}
    assert all((results[task].spent.cost_usd or 0) > 0 for task in ("anthropic", "responses", "chat"))
    assert results["command"].models == () and results["program"].spent.input_tokens > 0
    nothing_left(ground, machine)


@pytest.mark.slow
def test_a_note_and_another_model_make_the_next_attempt_land(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    """The model writes the wrong text until it reads the person's words, which its task card has."""
    word = "write it exactly as asked"

    def heeds(seen: Seen) -> Say:
        said = writes(seen)
        for name, given in said.calls:
            if name == "write_file" and word not in "".join(seen.texts):
                given["content"] = "otherwise"
        return said

    with VendorServer(heeds, models=["m"]) as server:
        know(machine, server)
        plan = plan_of("noted", {name: {"builtin": {"model": "model-anthropic"}} for name in ("one", "two")})
        plan["checks"] = {"there": "ls"}
        for task in plan["tasks"]:
            task |= {"attempts": 1, "limits": {"turns": 6}}
        ended = machine.run("run", write_plan(ground, plan), "--repo", repository.path, "--workers", "2")
        assert ended.status == 1, ended.out + ended.err
        before = len(server.seen)
        run, model = machine.runs()[0], "model-openai-chat"
        got = machine.run("salvage", run, "one", "--branch", "mine", "--repo", repository.path)
        assert "--agent builtin --family anthropic" in got.out, got.err
        ended = machine.run("retry", run, "--failed", "--note", word, "--model", model)
        assert ended.status == 0, ended.out + ended.err
        assert {seen.wire for seen in server.seen[before:]} == {"openai-chat"}
    assert sorted(repository.landed("forgepool/noted")) == ["one", "two"]
    assert word in machine.run("transcript", run, "one", "--full").out
    assert f"said: {word}" in machine.run("report", run).out


@pytest.mark.slow
@pytest.mark.parametrize("program", ["claude", "codex", "opencode"])
def test_a_real_program_does_a_task_of_a_run(
    program: str, ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    """The installed program runs against the local server. The test is skipped where it is not installed."""
    folder = folder_of(program)
    models = {"claude": "claude-opus-5-5", "codex": "model-1", "opencode": "anthropic/model-1"}
    agent = {"cli": {"program": program, "model": models[program]}}
    with VendorServer(writes, strict=False) as server:
        machine.variables |= {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "ANTHROPIC_API_KEY": "road-key",
            "OPENAI_API_KEY": "road-key",
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_BASE_URL": f"{server.url}/v1",
        }
        plan = write_plan(ground, plan_of("real", {"program": agent}))
        ended = machine.run("run", plan, "--repo", repository.path, "--workers", "1")
        assert ended.status == 0, ended.out + ended.err + machine.logs()
        assert server.invalid == [] and server.seen
    assert repository.file("forgepool/real", "program.txt") == "by program"
    shown = machine.run("transcript", machine.the_run(), "program")
    assert shown.status == 0 and "by program" in shown.out
    nothing_left(ground, machine)


@pytest.mark.soak
@pytest.mark.slow
def test_a_killed_worker_costs_one_turn_and_no_work(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    """
    Kill the worker while the model thinks. Another process continues with its files and conversation from the last
    saved turn.

    Only the unanswered turn is asked again, and no token is counted twice.
    """
    thinking, released = threading.Event(), threading.Event()

    def brain(seen: Seen) -> Say:
        if planning(seen):
            return Say(calls=[("commit_plan", {"plan": "two lines", "files_to_modify": ["src/a.txt"]})])
        if seen.answered == 2 and not thinking.is_set():
            thinking.set()
            released.wait(30)
        lines = [("bash", {"command": f"echo line-{seen.answered} >> src/a.txt"}), ("finish", {"summary": "done"})]
        return Say(calls=[lines[seen.answered // 2]] if seen.answered != 1 else [lines[0]])

    with VendorServer(brain, models=["model-anthropic"]) as server:
        know(machine, server)
        plan = {
            "name": "killed",
            "checks": {"lines": "test $(wc -l < src/a.txt) = 3"},
            "review": "none",
            "tasks": [
                {
                    "id": "one",
                    "files": ["src/a.txt"],
                    "acceptance": ["test $(wc -l < src/a.txt) = 3"],
                    "agent": {"builtin": {}},
                }
            ],
        }
        under_way = machine.start("run", write_plan(ground, plan), "--repo", repository.path, "--workers", "2")
        assert thinking.wait(60), under_way.said()
        kept = f"refs/forgepool/{machine.the_run()}/progress/one/1:files/src/a.txt"
        wait_until(lambda: "line-1" in repository.git("show", kept), "the second turn in the hub")
        (working,) = in_role(ground, "working")
        working.kill()
        machine.wait_for("order.sent", count=2)
        released.set()
        ended = under_way.ended()
        assert ended.status == 0, ended.out + ended.err
        assert server.invalid == []
        asked = list(server.seen)

    assert repository.file("forgepool/killed", "src/a.txt").split() == ["a", "line-0", "line-1"]
    assert sum(planning(seen) for seen in asked) == 1
    assert Counter(seen.answered for seen in asked if not planning(seen)) == {0: 1, 1: 1, 2: 2}
    answers = list(events_of(machine.journal(), e.OrderAnswered))
    (last,) = [answer.result for answer in answers if answer.result.outcome == "candidate"]
    assert last.includes == (1,)
    assert last.spent.turns == 4, "the turn that was never answered is nobody's"
    used = machine.run("status", machine.the_run(), "--json").answer["used"]
    assert used["turns"] == 4, used
    bundle = machine.run("report", machine.the_run(), "--json").answer
    assert [(one["number"], one["landed"]) for one in bundle["cost"]["items"]] == [(1, True), (2, True)], (
        "none is waste"
    )
    assert sum(one["turns"] for one in bundle["cost"]["items"]) == 4
    proof = machine.run("verify", machine.home / "runs" / machine.the_run() / "report.json", "--repo", repository.path)
    assert proof.status == 0, proof.out + proof.err
    nothing_left(ground, machine)


def _climbing(ground: Path) -> Path:
    """Write the plan of one task, whose first model writes what the target's check rejects."""
    task = {"id": "one", "files": ["one.txt"], "agent": {"builtin": {}}}
    ladder = {"ladder": ["model-anthropic", "model-openai-chat"]}
    checks = {"right": "test ! -e one.txt || grep -q 'by one' one.txt"}
    review = {"by": ["model-openai-responses", "model-anthropic"]}
    plan = {"name": "climbing", "checks": checks, "review": review, "tasks": [task | {"attempts": ladder}]}
    return write_plan(ground, plan)


def _climbs(seen: Seen) -> Say:
    """Write it wrongly as the first model, rightly as any other; review whatever there is, and pass it."""
    if "verdict" in seen.tools:
        verdict = {"verdict": "pass", "findings": [], "confidence": 0.9, "summary": "read it"}
        return Say(calls=[("verdict", verdict) if seen.results else ("read_file", {"path": "one.txt"})])
    said = writes(seen)
    for name, given in said.calls:
        if name == "write_file" and seen.wire == "anthropic":
            given["content"] = "otherwise"
    return said


@pytest.mark.slow
def test_the_next_model_of_a_ladder_lands_what_the_check_of_the_first_returned(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    """Each is asked once, and the second one's work is read by one more family than the first one's would be."""
    with VendorServer(_climbs, models=["m"]) as server:
        know(machine, server)
        ended = machine.run("run", _climbing(ground), "--repo", repository.path, "--workers", "2")
        assert ended.status == 0, ended.out + ended.err
        assert server.invalid == []
        asked = [seen.wire for seen in server.seen if planning(seen)]
    assert asked == ["anthropic", "openai-chat"]
    assert repository.file("forgepool/climbing", "one.txt") == "by one"
    (returned,) = events_of(machine.journal(), e.TaskReturned)
    assert (returned.reason.kind, returned.rung) == ("check_failed", 2)
    reviews = [one.result for one in events_of(machine.journal(), e.ReviewAnswered) if one.result.outcome == "passed"]
    assert set(reviews[-1].families) == {"openai-responses", "anthropic"}
    report = machine.run("report", machine.the_run()).out
    assert "model 1 of its ladder (model-anthropic): attempts: 1, landed: 0, 0.0" in report, report
    assert "model 2 of its ladder (model-openai-chat): attempts: 1, landed: 1, 0.0" in report, report
    assert "for each landed task: 0.0" in report
    nothing_left(ground, machine)


@pytest.mark.soak
@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_model_that_its_ladder_had_reached(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    thinking, released = threading.Event(), threading.Event()

    def brain(seen: Seen) -> Say:
        if seen.wire == "openai-chat" and "verdict" not in seen.tools and not thinking.is_set():
            thinking.set()
            released.wait(30)
        return _climbs(seen)

    with VendorServer(brain, models=["m"]) as server:
        know(machine, server)
        under_way = machine.start("run", _climbing(ground), "--repo", repository.path, "--workers", "2")
        assert thinking.wait(60), under_way.said()
        under_way.kill()
        before = len(server.seen)
        released.set()
        ended = machine.run("resume", machine.the_run())
        assert ended.status == 0, ended.out + ended.err
        assert {seen.wire for seen in server.seen[before:] if "verdict" not in seen.tools} == {"openai-chat"}
    assert [one.rung for one in events_of(machine.journal(), e.TaskReturned)] == [2]
    assert repository.file("forgepool/climbing", "one.txt") == "by one"
    nothing_left(ground, machine)


def _racing(ground: Path) -> Path:
    """Write the plan of one task that two models race for, with a check."""
    task = {"id": "one", "files": ["one.txt"], "agent": {"builtin": {}}}
    attempts = {"ladder": ["model-anthropic", "model-openai-chat"], "race": 2}
    plan = {"name": "raced", "checks": {"right": "test ! -e one.txt || grep -q 'by one' one.txt"}, "review": "none"}
    return write_plan(ground, plan | {"tasks": [task | {"attempts": attempts}]})


class _FirstIsSlow:
    """The first model writes its file and then thinks until it is let go. The second begins its work after that."""

    def __init__(self) -> None:
        self.thinking, self.released = threading.Event(), threading.Event()

    def __call__(self, seen: Seen) -> Say:
        said = writes(seen)
        if planning(seen):
            return said
        if seen.wire != "anthropic":
            self.thinking.wait(20)
        elif seen.results:
            self.thinking.set()
            self.released.wait(20)
        for name, given in said.calls:
            if name == "write_file" and seen.wire == "anthropic":
                given["content"] = "by one, slowly\n"
        return said


def _folded(machine: Machine) -> RunState:
    state = RunState.blank(["one"])
    for one in machine.journal():
        apply(state, one.event, number=one.number, at=one.at)
    return state


@pytest.mark.slow
def test_the_first_of_two_models_lands_and_the_other_is_stopped_with_its_work_kept(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    brain = _FirstIsSlow()
    with VendorServer(brain, models=["m"]) as server:
        know(machine, server)
        ended = machine.run("run", _racing(ground), "--repo", repository.path, "--workers", "2")
        assert not brain.released.is_set() and ended.status == 0, ended.out + ended.err
        brain.released.set()
    assert repository.landed("forgepool/raced") == ["one"]
    assert repository.file("forgepool/raced", "one.txt") == "by one"
    run, journal = machine.the_run(), machine.journal()
    (landed,) = [one for one in journal if isinstance(one.event, e.LandingAnswered)]
    (withdrawn,) = [one for one in journal if isinstance(one.event, e.RacerWithdrawn)]
    (kept,) = [one for one in journal if isinstance(one.event, e.WorkKept)]
    assert 0 <= withdrawn.at - landed.at < 1.0, "the loser is withdrawn within a second of the landing"
    assert 0 <= kept.at - landed.at < 5.0, "its worker hears of it"
    use = _folded(machine).tasks["one"].uses[1]
    assert use.spent is not None and use.spent == kept.event.spent and not use.open
    assert "+by one, slowly" in machine.run("salvage", run, "one", "--attempt", "1", "--patch", "-").out
    report = machine.run("report", run).out
    assert "race of attempts 1 and 2 of 'one': attempt 2 landed; the other: 0." in report, report
    nothing_left(ground, machine)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        *("order.sent.journaled", "message.taken.journaled", "order.answered.unjournaled", "order.answered.journaled"),
        *("entry.queued.journaled", "check.answered.journaled", "landing.intended.journaled", "landing.before-push"),
        *("landing.after-push", "landing.answered.unjournaled", "race.withdrawn.unjournaled"),
        *("race.withdrawn.journaled", "work.kept.unjournaled", "work.kept.journaled", "run.ended.unjournaled"),
    ],
)
def test_a_death_at_any_step_of_a_race_lands_the_task_once_and_reserves_nothing(
    point: str, ground: Path, machine: Machine, repository: Repository
) -> None:
    brain = _FirstIsSlow()
    with VendorServer(brain, models=["m"]) as server:
        know(machine, server)
        machine.variables["FORGEPOOL_FAULT"] = f"{point}:{ground / 'died'}"
        ended = machine.run("run", _racing(ground), "--repo", repository.path, "--workers", "2")
        assert (ground / "died").exists(), ended.out + ended.err
        brain.thinking.set()
        brain.released.set()
        if ended.status != 0:
            ended = machine.run("resume", machine.the_run())
        assert ended.status == 0, ended.out + ended.err
    assert repository.landed("forgepool/raced") == ["one"]
    landings = [one.result.outcome for one in events_of(machine.journal(), e.LandingAnswered)]
    assert landings.count("landed") == 1
    state = _folded(machine)
    assert not state.racers and not state.outstanding() and not any(use.open for use in state.uses())
