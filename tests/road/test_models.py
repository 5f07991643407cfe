"""Agents whose models are asked over HTTP, in whole runs: what lands, what it cost, and what a killed worker costs."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Machine, Repository, events_of, wait_until, write_plan
from processes import in_role
from vendors.answers import Say, Seen
from vendors.server import VendorServer

from orchestrator import events as e

KEY = "ROAD_TEST_KEY"
PRICE = "{input: 1, cached: 0.1, written: 1.25, output: 5}"

NothingLeft = Callable[[Path, Machine], None]


def know(machine: Machine, server: VendorServer) -> None:
    """The machine's model table: one model on each wire, all of them the server's."""
    wires = {"anthropic": server.url, "openai-responses": f"{server.url}/v1", "openai-chat": f"{server.url}/v1"}
    lines = ["accounts:"]
    lines += [f"  {wire}: {{wire: {wire}, key: {KEY}, base_url: '{url}'}}" for wire, url in wires.items()]
    lines += ["models:"]
    lines += [
        f"  model-{wire}: {{account: {wire}, family: {wire}, window_tokens: 100000, max_output_tokens: 4000, "
        f"price: {PRICE}}}"
        for wire in wires
    ]
    route = "{primary: model-anthropic, reason: a test, source: here, date: '2026-11-01'}"
    lines += ["routes:", f"  code: {route}", "budget: model-anthropic"]
    table = machine.folder / "models.yaml"
    table.write_text("\n".join(lines) + "\n")
    machine.variables |= {"FORGEPOOL_MODELS": str(table), KEY: "road-key"}


def planning(seen: Seen) -> bool:
    return "commit_plan" in seen.tools


@pytest.mark.slow
def test_a_killed_worker_costs_one_turn_and_no_work(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    """
    Killed with -9 while the model thinks: another process has its files and its conversation, and goes on from the
    turn that was kept last. No turn is asked for twice but the one that was never answered; no token is counted twice.
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
            "tasks": [{"id": "one", "files": ["src/a.txt"], "agent": {"builtin": {}}}],
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
    report = machine.run("report", machine.the_run(), "--json").answer
    assert report["used"]["turns"] == 4, report["used"]
    nothing_left(ground, machine)
