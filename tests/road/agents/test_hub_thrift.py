"""The hub is pushed to seldom, and keeps few refs, however many tasks a run has."""

from collections.abc import Callable
from pathlib import Path

import pytest
from host_kit import Host
from kit import Machine, Repository, events_of, write_plan

from forgepool.orchestrator.journal import events as e
from forgepool.workers.schema.mistakes import Progress
from forgepool.workers.schema.orders import ScriptedAgent
from forgepool.workers.workspace.refs import progress_ref

NothingLeft = Callable[[Path, Machine], None]
TURNS = 40


def count_pushes(hub: Path, said: Path, line: str = "echo push") -> None:
    """Let the hub write a line at each push."""
    hook = hub / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ncat > /dev/null\n{line} >> {said}\n")
    hook.chmod(0o755)


def script(turns: int, *, pause_s: float = 0.0) -> str:
    writes = [
        f"  - pause_s: {pause_s}\n    calls: [{{tool: bash, command: 'echo {n} >> notes.txt'}}]"
        for n in range(turns - 1)
    ]
    return "\n".join(["turns:", *writes, "  - calls: [{tool: finish, summary: done}]"])


@pytest.mark.parametrize(("progress", "most"), [(30.0, 4), ("phase", 4), ("off", 2)])
def test_a_long_conversation_costs_few_pushes(tmp_path: Path, progress: Progress, most: int) -> None:
    """Its first turn, the end of its phase, its end, and the candidate: at most one push for ten turns."""
    host = Host(tmp_path)
    count_pushes(host.hub, tmp_path / "pushes")
    done = host.carry_out(agent=ScriptedAgent(script=script(TURNS)), progress=progress)
    assert (done.outcome, done.spent.turns) == ("candidate", TURNS), done.detail
    pushes = len((tmp_path / "pushes").read_text().split())
    assert pushes <= most and pushes / TURNS <= 0.1
    kept = f"{progress_ref('r', 't', 1)}:files/notes.txt"
    assert host.content(progress_ref("r", "t", 1), "files/notes.txt") == host.content(done.commit, "notes.txt"), kept


def test_every_turn_is_kept_where_the_plan_says_so(tmp_path: Path) -> None:
    host = Host(tmp_path)
    count_pushes(host.hub, tmp_path / "pushes")
    host.carry_out(agent=ScriptedAgent(script=script(8, pause_s=0.7)), progress="turn")
    assert len((tmp_path / "pushes").read_text().split()) >= 8


@pytest.mark.soak
@pytest.mark.slow
def test_the_hub_has_few_refs_however_many_tasks_have_landed(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    """At most three for each task in flight; after the run none."""
    (ground / "script.yaml").write_text(script(3).replace("notes", "$FORGEPOOL_TASK"))
    count_pushes(repository.path / ".git", ground / "refs", "git for-each-ref refs/forgepool | wc -l")
    tasks = [{"id": f"t{n}", "files": [f"t{n}.txt"], "agent": {"scripted": "script.yaml"}} for n in range(24)]
    plan = {"name": "thrift", "checks": {"readme": "test -f README.md"}, "review": "none", "tasks": tasks}
    ended = machine.run("run", write_plan(ground, plan), "--repo", repository.path, "--workers", "2")
    assert ended.status == 0, ended.out + ended.err
    flying, most = set[str](), 0
    for one in machine.journal():
        match one.event:
            case e.OrderSent(task=task):
                flying.add(task)
                most = max(most, len(flying))
            case e.LandingAnswered(task=task, entries=entries):
                flying -= {task, *entries}
    assert max(map(int, (ground / "refs").read_text().split())) <= 3 * most < 2 * 24
    assert len(list(events_of(machine.journal(), e.LandingAnswered))) > 1, "all at once would show nothing"
    assert repository.refs("refs/forgepool") == []
