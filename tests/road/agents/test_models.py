"""Agents that ask models over HTTP, in whole runs: what lands, what it costs, and what a killed worker costs."""

import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_kit import RECORDINGS, folder_of
from kit import Machine, Repository, events_of, wait_until, write_plan
from models_kit import KEY, know, planning, writes
from processes import in_role
from vendors.answers import Fault, Say, Seen
from vendors.server import VendorServer

from forgepool.orchestrator.journal import events as e
from forgepool.workers.llm.messages import Text, user
from forgepool.workers.llm.provider import ModelFailed, ModelRequest
from forgepool.workers.llm.routing.open import open_models
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.queue.broker import Redis
from forgepool.workers.schema.settings import Settings

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


@pytest.mark.soak
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


@pytest.mark.soak
@pytest.mark.slow
def test_a_task_waits_for_the_end_of_its_accounts_limit_and_the_wait_costs_no_attempt(
    ground: Path,
    new_machine: Callable[..., Machine],
    repository: Repository,
    redis_url: str,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another run's call is refused for an hour: from then on no order is sent that could only be refused as well."""
    limited = threading.Event()
    limited.set()
    refusal = Fault(kind="rate_limit", headers={"retry-after": "3600"})
    monkeypatch.setenv(KEY, "road-key")
    host, desk = (new_machine(name, broker=redis_url) for name in ("host", "desk"))
    with VendorServer(lambda seen: refusal if limited.is_set() else writes(seen)) as server:
        know(host, server)
        know(desk, server)
        settings = Settings(broker_url=redis_url)
        chain = open_models(read_table(host.folder / "models.yaml"), task_type="code", phase="plan", settings=settings)
        with pytest.raises(ModelFailed):
            chain.ask(ModelRequest(system=(), tools=(), turns=(user(Text(text="hello")),)), stop=lambda: False)
        worker = host.start("worker", "--concurrency", "1")
        tasks = plan_of("limited", {"anthropic": AGENTS["anthropic"]}) | {"checks": {"readme": "ls README.md"}}
        plan = write_plan(ground, tasks)
        started = desk.start("run", plan, "--repo", repository.path)
        assert isinstance(desk.wait_for("models.shut").event, e.ModelsShut)
        shown = desk.run("status").out
        assert re.search(r"waits until \d\d:\d\d.* for the model's rate limit", " ".join(shown.split())), shown
        assert len(server.seen) == 1 and not [*events_of(desk.journal(), e.OrderSent)]
        limited.clear()
        redis.delete(*redis.keys("forgepool:pace:*"), *redis.keys("forgepool:breaker:*"))  # The hour is over.
        ended = started.ended()
        worker.process.terminate()
        worker.ended()
    assert ended.status == 0, ended.out + ended.err
    assert [one.attempt for one in events_of(desk.journal(), e.OrderSent)] == [1]
    assert repository.landed("forgepool/limited") == ["anthropic"]
