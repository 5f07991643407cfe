"""Agents that speak the Agent Client Protocol do tasks: a scripted one, on the package's classes, in real processes."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import scripted_acp_agent
from acp import RequestError
from acp.client.router import build_client_router
from cli_kit import Place, job_of
from kit import Machine, events_of, make_repository, write_plan

from forgepool.orchestrator.journal.events import OrderSent, TaskReturned
from forgepool.workers.agents.cli.acp import AcpReader, acp_program
from forgepool.workers.agents.cli.acp_calls import judge_permission
from forgepool.workers.agents.cli.acp_conversation import PermissionAnswerer
from forgepool.workers.agents.cli.performing import perform_program
from forgepool.workers.agents.cli.program import Closed
from forgepool.workers.agents.contract import AgentAnswer
from forgepool.workers.policy.rule import Ground
from forgepool.workers.policy.sources import policy_of
from forgepool.workers.schema.orders import AcpAgent, Limits

SCRIPT = Path(scripted_acp_agent.__file__)


def perform(folder: Path, *words: str, limits: Limits | None = None) -> tuple[AgentAnswer, str]:
    """Let the agent do a task; return the answer, and the transcript."""
    place = Place(folder, "claude", limits=limits)
    agent = AcpAgent(run=f"{sys.executable} {SCRIPT} {' '.join(words)}")
    assignment = place.assignment("", None, {}, "Put the word new into new.txt.")
    program = acp_program(agent, policy_of(person=None), place.worktree)
    answer = perform_program(assignment, program, None, stop=lambda: False)
    return answer, assignment.transcript.read_text()


def test_permissions_follow_the_policy_and_hold_once(tmp_path: Path) -> None:
    answer, transcript = perform(tmp_path, "write", "outside")
    assert (answer.ended, answer.claimed_summary.split()[-2:]) == ("finished", ["All", "done."]), answer
    assert (answer.spent.input_tokens, answer.spent.output_tokens, answer.spent.cost_usd) == (10, 2, None)
    assert "w=yes" in transcript and all(f"{call}=no" in transcript for call in "orf")
    assert "without a path or a command cannot be judged" in transcript


ASKED: list[tuple[str, dict[str, Any], bool]] = [
    ("execute", {"command": "git", "args": ["push", "origin", "main"]}, False),
    ("execute", {"command": "rm", "args": ["-rf", "/etc"]}, False),
    ("execute", {"command": ["ls"], "args": "-l"}, False),
    ("execute", {"command": "rm -rf ssh", "cwd": "/etc"}, False),
    ("execute", {"command": "rm -rf ssh", "workdir": "/etc"}, False),
    ("execute", {"command": "ls", "cwd": "~"}, False),
    ("execute", {"command": "rm -rf ../../../../../../etc", "cwd": "src"}, False),
    ("execute", {"command": "ls", "cwd": "src", "workdir": "docs"}, False),
    ("execute", {"command": "ls", "cwd": "src", "workdir": "./src"}, True),
    ("execute", {"command": "ls", "cwd": ".."}, False),
    ("execute", {"command": "ls", "env": {"LD_PRELOAD": "x"}}, False),
    ("execute", {"command": "ls", "stdin": "x"}, False),
    ("execute", {"command": "ls", "args": ["-l"], "cwd": "src", "env": {}, "description": "List it"}, True),
    ("execute", {"command": ["bash", "-lc", "git status"]}, True),
    ("think", {"command": "git push"}, False),
    ("think", {"prompt": "How?"}, True),
    ("search", {"pattern": "x"}, True),
    ("edit", {"file_path": "a.py"}, True),
    ("edit", {"path": "/etc/passwd"}, False),
    ("edit", {"path": "~/.bashrc"}, False),
    ("edit", {"path": {"to": "/etc/passwd"}}, False),
    ("move", {"source": "a.py", "destination": "/etc/a.py"}, False),
]


@pytest.mark.parametrize(("kind", "arguments", "allowed"), ASKED)
def test_a_call_is_judged_by_all_that_changes_what_runs(
    tmp_path: Path, kind: str, arguments: dict[str, Any], allowed: bool
) -> None:
    ground = Ground(root=tmp_path.resolve(), home=tmp_path)
    policy = policy_of(person=None).during("execute")
    judged = judge_permission(policy, ground, {"kind": kind, "raw_input": arguments})
    assert (judged.decision in ("allow", "audit")) is allowed, judged


def test_what_is_not_offered_is_refused_and_no_turn_is_called_cancelled(tmp_path: Path) -> None:
    ground = Ground(root=tmp_path.resolve(), home=tmp_path)
    policy = policy_of(person=None).during("execute")
    router = build_client_router(PermissionAnswerer(policy=policy, ground=ground, remark=[].append))  # type: ignore[arg-type]  # it offers no more than it has

    def ask(method: str, **parameters: Any) -> Any:
        try:
            return asyncio.run(router(method, {"sessionId": "s", **parameters}, False))
        except RequestError as refused:
            return refused.code

    def permission(kind: str, *options: str) -> Any:
        given = [{"optionId": option, "name": option, "kind": option} for option in options]
        answer = ask("session/request_permission", toolCall={"toolCallId": "c", "kind": kind}, options=given)
        return answer if isinstance(answer, int) else answer.outcome.option_id

    assert permission("think", "allow_always", "reject_always") == "reject_always"
    assert permission("think", "allow_always", "allow_once", "reject_once") == "allow_once"
    assert permission("other", "allow_once", "reject_once") == "reject_once"
    assert permission("think", "allow_always") == permission("other", "allow_once") == -32602
    assert ask("terminal/create", command="ls") == ask("terminal/output", terminalId="t") == -32601
    assert ask("fs/write_text_file", path="/x", content="") == -32601


@pytest.mark.parametrize(
    ("word", "ended", "trouble", "detail"),
    [
        ("refuse", "refused", None, "its model refused"),
        ("die", "failed", None, "ended with status 3 and did not say how its work ended"),
        ("hang", "idle", None, "was silent and changed nothing for too long"),
        ("locked", "failed", "authentication", "Authentication required"),
    ],
)
def test_an_agent_that_does_not_finish_says_why(
    tmp_path: Path, word: str, ended: str, trouble: str | None, detail: str
) -> None:
    answer, _ = perform(tmp_path, word, limits=Limits(wall_s=60, idle_s=2 if ended == "idle" else 50))
    assert (answer.ended, answer.trouble) == (ended, trouble) and detail in answer.detail, answer


FLOOD = """
import json
for answer in ({"protocolVersion": 1}, {"sessionId": "s"}):
    print(json.dumps({"id": json.loads(input())["id"], "result": answer}), flush=True)
option = {"optionId": "n", "name": "", "kind": "reject_once"}
asked = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": [option]}
while True:
    print(json.dumps({"id": "x" * 5_000, "method": "session/request_permission", "params": asked}))
"""


def test_an_agent_that_reads_no_answer_is_not_heard_without_end(tmp_path: Path) -> None:
    (script := tmp_path / "flood.py").write_text(FLOOD)
    place = Place(tmp_path, "claude", limits=Limits(wall_s=60, idle_s=3))
    assignment = place.assignment("", None, {}, "")
    program = acp_program(AcpAgent(run=f"{sys.executable} -S {script}"), policy_of(person=None), place.worktree)
    assert perform_program(assignment, program, None, stop=lambda: False).ended == "idle"
    assert "permission for c: deny" in assignment.transcript.read_text(), "its first requests were answered"


def test_an_endless_answer_is_cut_while_it_is_read(tmp_path: Path) -> None:
    reader = AcpReader(job_of("claude", tmp_path))
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "w" * 1_000}}
    line = json.dumps({"method": "session/update", "params": {"update": chunk}})
    assert not [event for _ in range(2_000) for event in reader.read(line)]
    _, closed = reader.read(json.dumps({"id": 1, "result": {"stopReason": "end_turn"}}))
    assert isinstance(closed, Closed) and len(closed.summary) < 33_000
    assert closed.summary.endswith("\n[1,967,000 further characters are left out]"), closed.summary[-99:]


@pytest.mark.parametrize(("scope", "kind"), [("extend", "findings"), ("strict", "out_of_scope")])
def test_a_returned_candidate_of_such_an_agent_is_mended(
    scope: str, kind: str, tmp_path: Path, redis_program: str
) -> None:
    hub = make_repository(tmp_path / "hub", {"agent.py": SCRIPT.read_text()})
    machine = Machine(folder=tmp_path / "m", name="host-1")
    machine.folder.mkdir()
    python = shutil.which("python", path=str(Path(sys.executable).parent))
    task = {"id": "sums", "agent": {"acp": f"{python} agent.py mend"}, "files": ["sum.py"]}
    plan = {"name": "acp", "checks": {"there": "test -f agent.py"}, "review": "none", "scope": scope, "tasks": [task]}
    ran = machine.run("run", write_plan(machine.folder, plan), "--repo", hub.path)
    assert ran.status == 0, ran
    assert [one.reason.kind for one in events_of(machine.journal(), TaskReturned)] == [kind]
    assert [one.mends for one in events_of(machine.journal(), OrderSent)] == [None, 1]
    assert hub.file("forgepool/acp", "sum.py") == "def total(items):\n    return sum(items)"
    assert "stray.txt" not in hub.git("ls-tree", "--name-only", "forgepool/acp")


def test_a_plans_task_is_done_by_such_an_agent_in_the_sandbox_and_lands(tmp_path: Path, redis_program: str) -> None:
    hub = make_repository(tmp_path / "hub", {"agent.py": SCRIPT.read_text()})
    machine = Machine(folder=tmp_path / "m", name="host-1")
    machine.folder.mkdir()
    python = shutil.which("python", path=str(Path(sys.executable).parent))
    task = {"id": "adds", "title": "Add new.txt", "agent": {"acp": f"{python} agent.py write"}, "files": ["new.txt"]}
    plan = {"name": "acp", "checks": {"new": "grep -q new new.txt || ! test -e new.txt"}, "tasks": [task]}
    ran = machine.run("run", write_plan(machine.folder, {**plan, "review": "none"}), "--repo", hub.path)
    assert ran.status == 0, ran
    assert hub.landed("forgepool/acp") == ["adds"]
    status = json.loads(machine.run("status", "--json", machine.the_run()).out)
    assert status["tasks"][0]["phase"] == "landed"
