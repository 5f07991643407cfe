"""Editors run plans by the Agent Client Protocol: the package's client, the real process, real runs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError
from acp.helpers import embedded_text_resource, resource_block, resource_link_block
from acp.schema import ToolCallUpdate
from acp_client import talking
from kit import Machine, Repository, command, events_of, write_plan
from web_home import ASKS_AND_WRITES

from forgepool.orchestrator.journal.events import TaskReplied


def small_plan(machine: Machine, **further: Any) -> Path:
    (machine.folder / "asks.yaml").write_text(json.dumps({"turns": ASKS_AND_WRITES}))
    tasks = [
        {"id": "lands", "agent": command("sleep 1; echo done > done.txt"), "files": ["done.txt"]},
        {"id": "asks", "agent": {"scripted": "asks.yaml"}, "files": ["asks.txt"]},
    ]
    plan = {"name": "small", "checks": {"readme": "test -f README.md"}, "tasks": tasks, "review": "person", **further}
    return write_plan(machine.folder, plan)


def test_a_session_survives_the_editor_and_lands_what_the_person_approves(machine: Machine, hub: Repository) -> None:
    plan, folder = small_plan(machine), str(hub.path)
    answer = f"tabs, as in {plan}"

    def approve(call: ToolCallUpdate) -> str:
        (content,) = call.content or []
        assert "+tabs" in content.content.text, "the change is shown before it is approved"  # type: ignore[union-attr]  # a text
        return "approve"

    async def work() -> str:
        async with talking(machine, folder) as caller:
            session = await caller.begin()
            turn = asyncio.create_task(caller.prompt(session, resource_link_block("plan", plan.as_uri())))
            await caller.until(lambda: any("in_progress" in each.values() for each in caller.editor.plans), "task")
            caller.process.kill()  # as an editor that crashes
            with pytest.raises((RequestError, ConnectionError)):
                await turn
        async with talking(machine, folder, "--may", "approve", choose=approve) as caller:
            await caller.load(session)
            assert set(caller.editor.plans[-1]) == {"lands", "asks"} and session in caller.editor.said
            assert "Tabs or spaces?" in await caller.told(session, "/status")
            assert caller.editor.plans[-1] == {"lands": "completed", "asks": "pending"}
            assert "2 of 2 tasks done" in await caller.told(session, answer), "a plan in words is a part of the answer"
            assert caller.editor.plans[-1] == {"lands": "completed", "asks": "completed"}
            assert len(caller.editor.asked) == 1
            sessions = (await caller.agent.list_sessions(cwd=folder)).sessions
            assert [(one.session_id, one.cwd) for one in sessions] == [(session, folder)]
        return session

    session = asyncio.run(work())
    assert machine.runs() == [session], "a session is a run"
    assert hub.landed("forgepool/small") == ["lands", "asks"]
    (replied,) = events_of(machine.journal(session), TaskReplied)
    assert (replied.reply.answer, replied.reply.by) == (answer, "the person at tests (ACP)")


def test_a_stopped_turn_stops_the_run_and_a_command_continues_it(machine: Machine, hub: Repository) -> None:
    tasks = [{"id": "slow", "agent": command("sleep 3; echo done > done.txt"), "files": ["done.txt"]}]
    plan = {"version": 1, "name": "slow", "checks": {"readme": "test -f README.md"}, "tasks": tasks}

    async def work() -> None:
        async with talking(machine, str(hub.path)) as caller:
            session = await caller.begin()
            turn = asyncio.create_task(caller.prompt(session, f"Please run\n```\n{json.dumps(plan)}\n```\n"))
            await caller.until(lambda: {"slow": "in_progress"} in caller.editor.plans, "running task")
            await caller.agent.cancel(session_id=session)
            assert await turn == "cancelled"
            assert f"Run {session} is paused" in caller.editor.said and "`/continue`" in caller.editor.said
            assert "1 of 1 task done" in await caller.told(session, "/continue")
            assert "is landed" in await caller.told(session, "and now?")
            assert "there is no command '/go'; commands are: /status" in await caller.told(session, "/go")

    asyncio.run(work())
    assert hub.landed("forgepool/slow") == ["slow"]


def test_what_cannot_be_run_is_one_sentence(machine: Machine, hub: Repository) -> None:
    plan = small_plan(machine, checks="none")
    wrong = "version: 1\nname: x\ntasks:\n  - id: a\n    agent: {command: 'true'}\n    fils: [a]\n"
    waived = wrong.replace("fils", "waive").replace("[a]\n", "[placeholder]\nchecks: {t: test -f README.md}\n")
    dear = json.loads(small_plan(machine, review={}, name="dear").read_text())
    unsaved = resource_block(embedded_text_resource(plan.as_uri(), wrong))
    swapped = machine.folder / "swapped.yaml"
    swapped.write_text(json.dumps({**dear, "name": "swapped"}))

    def choose(call: ToolCallUpdate) -> str:
        if "swapped" not in str(call.title):
            return ""
        swapped.write_text(json.dumps({**dear, "name": "swapped", "checks": "none", "review": "none"}))
        return "start"

    async def work() -> None:
        async with talking(machine, str(hub.path), choose=choose) as caller:
            assert caller.process.stdin is not None
            caller.process.stdin.write(b'[1,2]\n"x"\n{"id": [1], "result": {}}\n{"id": 0, "error": "x"}\nx\n\n')
            session = await caller.begin()
            for prompt, sentence in (
                ("Refactor everything.", "This agent runs plans: name a plan file"),
                ("Look at README.md and pyproject.json", "This agent runs plans"),
                ("Look at ~nouser/x.yaml", "This agent runs plans"),
                (resource_link_block("x", "file://[/x.yaml"), "the link 'file://[/x.yaml' is no address; link a file"),
                (str(plan), "plan small has 'checks: none', which only a person may give"),
                (wrong, "plan:6: task 'a' has an unknown key 'fils'; did you mean 'files'?"),
                (unsaved, "plan:6: task 'a' has an unknown key 'fils'"),
                (waived, "task 'a' has 'waive', which only a person may give"),
                (f"run {write_plan(machine.folder, dear)}", "The cost was not agreed to, so nothing was started."),
                (f"run {swapped}", "swapped.yaml reads differently since it was checked; have it checked again"),
                (f"{wrong}\n", "plan:6"),
            ):
                said = await caller.told(session, prompt)
                assert sentence in said and "Error" not in said, (prompt, said)
            assert ["no cap in US dollars" in str(call.title) for call in caller.editor.asked] == [True, True]
            for other in ("nope", "acp-/../../../escaped", "acp-\n", f"acp-{'a' * 400}"):
                assert "there is no run 'acp-" in (said := await caller.refusal(other)) or "'nope'" in said
            await caller.load(session)

    asyncio.run(work())
    assert machine.runs() == []
    ran = machine.run("acp")
    assert (ran.status, ran.out) == (2, "") and ran.err.startswith("forgepool: standard input and output are no pipes")
    ran = machine.run("acp", "--may", "grant")
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1) and "'grant'" in ran.err
