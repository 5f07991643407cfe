import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from host_kit import Host

from forgepool.workers.agents.contract import AgentAnswer, Assignment
from forgepool.workers.agents.dispatch import perform_command
from forgepool.workers.context.transcript.entries import read_transcript
from forgepool.workers.sandbox.sandbox_profile import command_environment
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.schema.orders import CommandAgent, Limits, ReasonPack, ScriptedAgent, WorkOrder, WorkResult

REASON = ReasonPack(
    attempt=1,
    kind="check_failed",
    summary="check 'tests' is red",
    log_tail="# not a heading\nassert 1 == 2\n",
    conflicting_entry="other",
    paths=("src/a.py",),
    reproduce="git checkout abc && pytest",
)

Perform = Callable[..., AgentAnswer]
Scripted = Callable[[str], tuple[WorkResult, Host]]


@pytest.fixture
def do(tmp_path: Path) -> Perform:
    """Perform a command in an empty worktree."""
    for name in ("worktree", "home", "tmp"):
        (tmp_path / name).mkdir()

    def go(
        agent: CommandAgent, *, stop: Callable[[], bool] = lambda: False, limits: Limits | None = None
    ) -> AgentAnswer:
        order = WorkOrder(
            order_id="night.rename.2",
            token="token",
            run="night",
            task="rename",
            attempt=2,
            hub="hub",
            target="main",
            base="0123",
            title="Call it new",
            description="Everywhere.",
            agent=agent,
            files=("src/**",),
            acceptance=("pytest -q",),
            limits=limits or Limits(wall_s=20, idle_s=10),
            reasons=(REASON,),
            issued_at=1.0,
            start_by=2.0,
        )
        home, tmp = tmp_path / "home", tmp_path / "tmp"
        assignment = Assignment(
            order=order,
            worktree=tmp_path / "worktree",
            home=home,
            tmp=tmp,
            env=command_environment({"PATH": os.environ["PATH"]}, {}, home, tmp),
            log=tmp_path / "logs" / "agent.log",
            transcript=tmp_path / "logs" / "transcript.jsonl",
            confined=OPEN,
        )
        return perform_command(assignment, agent.run, stop=stop)

    return go


def test_a_command_edits_the_worktree(do: Perform, tmp_path: Path) -> None:
    """Exit status 0 means finished, and its output is the log."""
    answer = do(CommandAgent(run="echo new > a.py; echo did it"))
    assert (answer.ended, answer.log_tail) == ("finished", "did it\n")
    assert (tmp_path / "worktree" / "a.py").read_text() == "new\n"
    assert (tmp_path / "logs" / "agent.log").read_text() == "did it\n"


def test_a_command_knows_its_task(do: Perform, tmp_path: Path) -> None:
    """Run, task, attempt, base and reasons are in the environment, not in the worktree."""
    script = 'echo "$FORGEPOOL_RUN $FORGEPOOL_TASK $FORGEPOOL_ATTEMPT $FORGEPOOL_BASE"; cat "$FORGEPOOL_REASONS"'
    told, _, reasons = do(CommandAgent(run=script)).log_tail.partition("\n")
    assert told == "night rename 2 0123"
    assert [ReasonPack.model_validate(each) for each in json.loads(reasons)] == [REASON]
    assert list((tmp_path / "worktree").iterdir()) == []


@pytest.mark.parametrize(
    ("script", "limits", "ended", "detail"),
    [
        ("echo boom; exit 3", None, "failed", "the command ended with status 3"),
        ("kill -9 $$", None, "failed", "the command was ended by signal 9"),
        ("exec sleep 60", Limits(wall_s=0.3), "timeout", "the command did not end within 0 s"),
        (
            "exec sleep 60",
            Limits(wall_s=20, idle_s=0.3),
            "idle",
            "the command was silent and changed nothing",
        ),
    ],
)
def test_a_command_that_does_not_end_well_has_not_finished(
    do: Perform, script: str, limits: Limits | None, ended: str, detail: str
) -> None:
    """Each bad end has its own kind."""
    answer = do(CommandAgent(run=script), limits=limits)
    assert answer.ended == ended
    assert answer.detail.startswith(detail)


def test_a_command_whose_worktree_is_gone_was_not_started(do: Perform, tmp_path: Path) -> None:
    """It is not the command's failure, and the message says what is missing."""
    (tmp_path / "worktree").rmdir()
    answer = do(CommandAgent(run="true"))
    assert answer.ended == "not_started"
    assert "worktree: not there" in answer.detail


def test_a_command_can_be_stopped(do: Perform) -> None:
    """A worker stops the command when it loses the lease."""
    assert do(CommandAgent(run="sleep 60"), stop=lambda: True).ended == "stopped"


SCRIPT = """
turns:
  - say: "I look at why it came back."
    when: {shown_contains: "assert 1 == 2"}
    calls:
      - {tool: write_file, path: src/a.py, content: "old\\n"}
      - {tool: bash, command: "echo $FORGEPOOL_TASK in $(basename $PWD | cut -c1-4)"}
  - when: {last_result_contains: "t in slot"}
    attempt: 2
    calls: [{tool: edit_file, path: src/a.py, old: old, new: new}]
  - calls: [{tool: finish, summary: "renamed"}]
"""


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    """Return a function that carries out a script as an order."""
    host = Host(tmp_path)

    def go(script: str) -> tuple[WorkResult, Host]:
        order = {"order_id": "r.t.2", "attempt": 2, "title": "Call it new", "description": "Everywhere."}
        done = host.carry_out(
            agent=ScriptedAgent(script=script), files=("src/**",), reasons=(REASON,), acceptance=("true",), **order
        )
        return done, host

    return go


def test_a_scripted_model_edits_the_worktree(scripted: Scripted) -> None:
    """It uses the whole loop: card, conditions, tools and claim. The log is its transcript for people."""
    done, host = scripted(SCRIPT)
    assert (done.outcome, done.claimed_summary, done.spent.turns) == ("candidate", "renamed", 3), done.detail
    assert host.content(done.commit, "src/a.py") == "new"
    log = Path(done.log).read_text()
    assert "1. scripted\nI look at why it came back.\n> write_file src/a.py" in log
    assert (done.models, done.spent.cost_usd) == (("scripted",), 0.0)


def test_the_card_tells_the_task_and_why_it_came_back(scripted: Scripted) -> None:
    """It has all that the order knows, and a log in it cannot look like a heading."""
    done, _ = scripted(SCRIPT)
    card = Path(done.log).read_text()
    for line in (
        "# Task t: Call it new",
        "Everywhere.",
        "- src/**",
        "- true",
        "## Why attempt 1 came back: check_failed",
        "It clashes with: other",
        "To see it again: git checkout abc && pytest",
        "    # not a heading",
    ):
        assert f"{line}\n" in card


def test_a_wrong_script_is_the_tasks_failure(scripted: Scripted) -> None:
    """The message has the task's name and the line, and nothing is started."""
    done, _ = scripted("turns:\n- sya: x")
    assert done.outcome == "agent_failed"
    assert done.detail.startswith("script of task 't':2: turn 1 has an unknown key 'sya'")


_KILLED = """
import sys
from pathlib import Path
from forgepool.workers.context.view.archive import Archive
from forgepool.workers.context.view.live import Context
from forgepool.workers.context.profiles.registry import Off
from forgepool.workers.llm.messages import Text, user
from forgepool.workers.llm.scripted import ScriptedModel
from forgepool.workers.agents.builtin.loop import ConversationBrief, Talk
from forgepool.workers.schema.orders import Limits
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.agents.builtin.permission import allow_all
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.tools.toolset import reading
from forgepool.workers.tools.workplace import Workplace
from forgepool.workers.context.transcript.entries import ConversationStarted, Transcript, TurnSaid
folder = Path(sys.argv[1])
model = ScriptedModel("turns: [{calls: [{tool: glob}]}, {pause_s: 600, say: never}]", attempt=1)
brief = ConversationBrief(phase="execute", system=(), tools=reading(), price=lambda given, answered: 0.0)
place = Workplace(root=folder, tmp=folder, env={}, confined=OPEN, stop=lambda: False, left_s=lambda: 9.0)
with Transcript(folder / "t.jsonl") as transcript:
    transcript.append(ConversationStarted(at=0.0, order_id="o", model="scripted", system=(), tools=()))
    transcript.append(TurnSaid(at=0.0, turn=user(Text(text="c"))))
    meter = Meter(limits=Limits())
    context = Context(
        transcript=transcript, profile=Off(), window_tokens=9999, like=brief.like, archive=Archive(place)
    )
    Talk(
        provider=model, brief=brief, workplace=place, transcript=transcript, meter=meter, stop=lambda: False,
        rule=allow_all, context=context,
    ).lead()
"""


def test_a_killed_worker_leaves_all_that_was_said(tmp_path: Path) -> None:
    """After SIGKILL in the middle of a turn, the turns and results before it can be read."""
    path = tmp_path / "t.jsonl"
    with subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)]) as worker:
        end = time.monotonic() + 20
        while len(read_transcript(path)) < 4:
            assert time.monotonic() < end, "it never got so far"
            os.sched_yield()
        worker.kill()
    # The next turn may have begun before the signal came.
    assert [entry.kind for entry in read_transcript(path)][:4] == ["started", "said", "said", "answered"]


def test_the_seam_is_cheap_to_import() -> None:
    """A process does not import tools, YAML or the loop for an agent that it does not use."""
    script = "import sys, forgepool.workers.agents.contract; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    ours = {f"forgepool.workers.{name}" for name in ("loop", "tools.tool", "agents.builtin")}
    assert not loaded & ({"yaml", "subprocess"} | ours)
