"""Context profiles in whole runs: what is reported, what a killed worker costs, and a switch by a person."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, Repository, events_of, make_repository, wait_until, write_plan
from processes import in_role
from vendors.answers import Body, Say, Seen
from vendors.server import VendorServer

from forgepool.orchestrator.journal import events as e
from forgepool.workers.context.transcript.entries import Answered, Profiled, Rebuilt, read_transcript

KEY = "ROAD_CONTEXT_KEY"
LINES = 250
READS = 14


@pytest.fixture
def repository(ground: Path) -> Repository:
    files = {f"src/b{number}.py": _text(number) for number in range(READS)}
    return make_repository(ground / "repo", {"src/a.txt": "a\n", **files})


def _text(number: int) -> str:
    return "".join(f"value_{number}_{line} = compute_{number}()\n" for line in range(LINES))


def _transcript(machine: Machine, attempt: int) -> Path:
    return machine.home / f"runs/{machine.the_run()}/logs/orders/one/{attempt}/transcript.jsonl"


@pytest.mark.slow
def test_a_person_switches_the_profile_of_a_task_that_is_worked_on(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    """
    Switch a scripted agent from `off` to `ledger`. Its next view is shortened; the journal, the run's output and the
    transcript report it.
    """
    gate = ground / "gate"
    reads: list[dict[str, Any]] = [
        {"calls": [{"tool": "read_file", "path": f"src/b{number}.py"}]} for number in range(READS)
    ]
    wait = {"calls": [{"tool": "bash", "command": f"until test -e {gate}; do sleep 0.05; done; echo b >> src/a.txt"}]}
    script = [*reads, wait, {"calls": [{"tool": "finish", "summary": "done"}]}]
    (ground / "script.yaml").write_text(json.dumps({"turns": script}))
    plan = {
        "name": "switched",
        "checks": "none",
        "review": "none",
        "tasks": [{"id": "one", "files": ["src/a.txt"], "agent": {"scripted": "script.yaml"}}],
    }
    # It waits for a file outside its folder, which no sandbox would let it see.
    machine.variables |= {"FORGEPOOL_CONTEXT": "off", "FORGEPOOL_SANDBOX": "off"}
    under_way = machine.start("run", write_plan(ground, plan), "--repo", repository.path, "--workers", "1")
    transcript = wait_until(lambda: machine.runs() and _transcript(machine, 1), "the run")
    wait_until(lambda: transcript.exists() and "until test -e" in transcript.read_text(), "the gate")
    run = machine.the_run()
    asked = machine.run("context", "use", "ledger", run, "one")
    assert asked.status == 0, asked.err
    inbox = machine.home / "runs" / run / "inbox"
    wait_until(lambda: not list(inbox.iterdir()), "the request to be taken in")
    gate.touch()
    ended = under_way.ended()
    assert ended.status == 0, ended.out + ended.err

    (chosen,) = events_of(machine.journal(), e.ProfileChosen)
    assert (chosen.task, chosen.profile) == ("one", "ledger")
    told, *_ = (one for one in events_of(machine.journal(), e.ContextRebuilt) if one.changed)
    rebuilt, *_ = (entry for entry in read_transcript(transcript) if isinstance(entry, Rebuilt))
    assert rebuilt.cause == "switch" and rebuilt.edit is not None
    assert (told.profile, told.attempt, told.dropped) == ("ledger", 1, rebuilt.dropped)
    assert (told.before_tokens, told.after_tokens) == (rebuilt.before_tokens, rebuilt.after_tokens)
    assert told.after_tokens < told.before_tokens / 2
    assert "one: context profile is now 'ledger'" in ended.out
    line = f"one: context rebuilt (ledger): {told.before_tokens:,} -> {told.after_tokens:,} tokens, "
    assert line in ended.out and f"{len(told.dropped)} steps left out" in ended.out

    shown = machine.run("transcript", run, "one")
    text = " ".join(shown.out.split())
    assert shown.status == 0 and "(context profile off)" in text
    assert "(context profile ledger, chosen by a person)" in text
    assert f"context rebuilt (ledger, switch): {told.before_tokens:,} -> {told.after_tokens:,} tokens" in text
    assert "of the window): the profile was changed" in text
    assert f"steps 1-{max(told.dropped)} can be read in {told.archive}" in text


class Brain:
    """
    A model that reads file after file. Once its history is shortened, it reads the first result again from the path it
    is given.

    Then it thinks until the worker is killed, reads that result once more, writes and finishes.
    """

    def __init__(self) -> None:
        self.thinking, self.released = threading.Event(), threading.Event()
        self.reads, self.looks, self.wrote = 0, 0, False

    def __call__(self, seen: Seen) -> Say:
        if "commit_plan" in seen.tools:
            return Say(calls=[("commit_plan", {"plan": "one line", "files_to_modify": ["src/a.txt"]})])
        steps = re.findall(r"(/[^\s:;]*/outputs/steps)", "\n".join(seen.texts))
        if not steps:
            self.reads += 1
            return Say(calls=[("read_file", {"path": f"src/b{self.reads - 1}.py"})])
        if self.looks == 0:
            self.looks += 1
            return self._look(steps)
        if not self.thinking.is_set():
            self.thinking.set()
            self.released.wait(60)
            return Say(text="nobody hears this")
        if self.looks == 1:
            self.looks += 1
            return self._look(steps)
        if not self.wrote:
            self.wrote = True
            return Say(calls=[("bash", {"command": "echo b >> src/a.txt"})])
        return Say(calls=[("finish", {"summary": "done"})])

    def _look(self, steps: list[str]) -> Say:
        return Say(calls=[("read_file", {"path": f"{steps[-1]}/step-1.txt", "lines": LINES + 9})])


def _blocks(body: Body) -> list[Any]:
    return [
        (message["role"], {key: value for key, value in block.items() if key != "cache_control"})
        for message in body["messages"]
        for block in message["content"]
    ]


@pytest.mark.soak
@pytest.mark.slow
def test_a_killed_workers_view_is_gone_on_with_byte_for_byte(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    """The new process sends the same view as the killed one, and can read the dropped results at the paths it names."""
    brain = Brain()
    with VendorServer(brain, models=["m"]) as server:
        _know(machine, server)
        plan = {
            "name": "killed",
            "checks": "none",
            "review": "none",
            "tasks": [{"id": "one", "files": ["src/a.txt"], "agent": {"builtin": {"context": "ledger-cheap"}}}],
        }
        under_way = machine.start("run", write_plan(ground, plan), "--repo", repository.path, "--workers", "2")
        assert brain.thinking.wait(60), under_way.said()
        asked = server.seen[-1]
        kept = f"refs/forgepool/{machine.the_run()}/progress/one/1:transcript.jsonl"
        wait_until(lambda: "step-1.txt" in repository.git("show", kept), "the newest turn in the hub")
        (working,) = in_role(ground, "working")
        working.kill()
        machine.wait_for("order.sent", count=2)
        brain.released.set()
        ended = under_way.ended()
        assert ended.status == 0, ended.out + ended.err
        assert server.invalid == []
        again = server.seen[server.seen.index(asked) + 1]

    before = _blocks(asked.body)
    assert _blocks(again.body)[: len(before)] == before
    assert (again.body["tools"], again.body["system"]) == (asked.body["tools"], asked.body["system"])
    (moved,) = _blocks(again.body)[len(before) :]
    assert "The process that led you was interrupted" in moved[1]["text"]
    assert repository.file("forgepool/killed", "src/a.txt") == "a\nb"
    entries = read_transcript(_transcript(machine, 2))
    assert [entry.profile for entry in entries if isinstance(entry, Profiled)] == ["ledger-cheap"]
    results = [entry.whole or entry.result.text for entry in entries if isinstance(entry, Answered)]
    whole = [text for text in results if text.count("value_0_") == LINES]
    assert len(whole) == 3, "read once, and once more in either process"
    assert {event.attempt for event in events_of(machine.journal(), e.ContextRebuilt) if event.changed} >= {1}


def _know(machine: Machine, server: VendorServer) -> None:
    price = "{input: 1, cached: 0.1, written: 1.25, output: 5}"
    table = machine.folder / "models.yaml"
    table.write_text(
        f"accounts:\n  local: {{wire: anthropic, key: {KEY}, base_url: '{server.url}'}}\n"
        f"models:\n  m: {{account: local, family: m, window_tokens: 100000, max_output_tokens: 4000, price: {price}}}\n"
        "routes:\n  code: {primary: m, reason: a test, source: here, date: '2026-11-01'}\nbudget: m\n"
    )
    machine.variables |= {"FORGEPOOL_MODELS": str(table), KEY: "road-key"}
