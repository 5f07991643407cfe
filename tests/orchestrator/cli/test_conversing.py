"""`answer`, `transcript`, `record` and a raised budget, as a person types them, for a run that has ended."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm
from host_kit import Host
from plans import RUN, answered, course, sent, task

from forgepool.orchestrator.cli.agents.conversation import find_transcript
from forgepool.orchestrator.journal.events import Event, RunEnded, RunStarted, TaskBlocked, TaskParked
from forgepool.orchestrator.journal.inbox import PersonRequest, leave, waiting
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.launch.session import take_in_late
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions, keep
from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, Transcript, TurnSaid
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.llm.scripted import read_script
from forgepool.workers.schema.orders import BuiltinAgent, Reply, ScriptedAgent, Spent
from forgepool.workers.schema.settings import Settings

PLAN = course(
    task("a", agent=BuiltinAgent()),
    task("b", "a"),
    task("c"),
    task("d", agent=BuiltinAgent()),
    budget=Budget(usd=2.0),
).plan
STEPS: list[Event] = [
    RunStarted(run=RUN, plan_digest="d", hub="/nowhere", target="t", tip="c0"),
    *(sent("a"), answered("a", 1, "needs_human", question="tabs?", resumable=True, spent=Spent(cost_usd=1.95))),
    TaskParked(task="a", question="tabs?", why="question"),
    *(TaskBlocked(task="b", by="a"), sent("c"), answered("c", 1, "infrastructure")),
    TaskParked(task="c", question="the disk is full"),
    TaskParked(task="d", question="the run's budget is used", why="budget"),
    RunEnded(landed=0, not_landed=4),
]


@dataclass(frozen=True, kw_only=True)
class Home:
    kept: KeptRun

    def forgepool(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "FORGEPOOL_HOME": str(self.kept.folder.parents[1]), "USER": "ann", "LOGNAME": "ann"}
        return warm.forgepool(argv, env=env, cwd=Path(__file__).parents[3])

    def refused(self, *argv: str) -> str:
        said = self.forgepool(*argv)
        assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), said
        return said.stderr

    @property
    def transcript(self) -> Path:
        return self.kept.folder / "logs" / "orders" / "a" / "1" / "transcript.jsonl"

    def phases(self) -> dict[str, str]:
        return {task.id: task.phase for task in self.kept.state().tasks.values()}


_ME = ("-c", "user.name=a", "-c", "user.email=a@example.org")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    options = RunOptions(run=RUN, hub="/nowhere", target="t", workers=1, plan_file="p.yaml", plan_file_digest="")
    kept = keep(settings, options, PLAN)
    journal = Journal(kept.folder)
    for number, event in enumerate(STEPS):
        journal.append([event], at=100.0 + number)
    journal.close()
    transcript = kept.folder / "logs" / "orders" / "a" / "1" / "transcript.jsonl"
    call = ToolCall(id="1", name="bash", arguments={"command": "echo \x1b[31mred"})
    with Transcript(transcript) as entries:
        entries.append(ConversationStarted(at=1.0, order_id=f"{RUN}.a.1", model="m-1", system=(), tools=("bash",)))
        entries.append(TurnSaid(at=1.0, turn=user(Text(text="the card"))))
        entries.append(TurnSaid(at=1.0, turn=Turn(role="assistant", parts=(Text(text="at it"), call), model="m-1")))
        long = "\n".join(f"line {number}" for number in range(40))
        entries.append(Answered(at=1.0, iteration=1, seconds=0.1, result=ToolResult(call_id="1", text=long)))
    return Home(kept=kept)


def test_an_answer_reopens_the_task_and_what_it_blocked(home: Home) -> None:
    said = home.forgepool("answer", RUN, "a", "tabs, please")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout == f"a: answered by ann; it continues\nb: may continue\ncontinue with: forgepool resume {RUN}\n"
    state = home.kept.state()
    assert home.phases() == {"a": "pending", "b": "pending", "c": "needs_human", "d": "needs_human"}
    assert [(one.question, one.answer, one.by) for one in state.tasks["a"].replies] == [
        ("tabs?", "tabs, please", "ann")
    ]
    assert "has no question, it is pending" in home.refused("answer", RUN, "a", "again")


def test_an_answer_to_a_run_under_way_is_left_for_it(home: Home) -> None:
    journal = Journal(home.kept.folder)
    try:
        said = home.forgepool("answer", RUN, "a", "tabs", "--by", "bob")
    finally:
        journal.close()
    assert said.stdout == f"asked run {RUN} to answer a; if it ends before it reads this: forgepool resume {RUN}\n"
    ((_, wish),) = waiting(home.kept.folder)
    assert (wish.do, wish.task, wish.text, wish.by) == ("answer", "a", "tabs", "bob")


def test_what_was_asked_as_a_run_ended_is_taken_in_when_it_is_resumed(home: Home) -> None:
    """A `cancel` is dropped, because it came too late and would undo the resume."""
    journal = Journal(home.kept.folder)
    try:
        home.forgepool("cancel", RUN, "a")
        home.forgepool("answer", RUN, "a", "tabs", "--by", "bob")
        home.forgepool("retry", RUN, "c")
    finally:
        journal.close()
    said = home.forgepool("resume", RUN)
    assert said.stdout == "a: answered by bob; it continues\nb: may continue\nc: will be tried again\n"
    assert home.phases() == {"a": "pending", "b": "pending", "c": "pending", "d": "needs_human"}
    assert list(waiting(home.kept.folder)) == []


def test_a_cancel_that_came_too_late_does_not_undo_what_is_asked_later(home: Home) -> None:
    leave(home.kept.folder, PersonRequest(do="cancel", task="a"))
    assert home.forgepool("retry", RUN, "c").returncode == 0
    assert list(waiting(home.kept.folder)) == []


def test_all_that_failed_is_retried_in_one_command_and_a_question_is_not(home: Home) -> None:
    """An infrastructure failure counts as failed; a question and a used-up budget have commands of their own."""
    said = home.forgepool("retry", RUN, "--failed")
    assert (said.returncode, said.stdout) == (0, f"c: will be tried again\ncontinue with: forgepool resume {RUN}\n"), (
        said
    )
    assert home.phases() == {"a": "needs_human", "b": "blocked", "c": "pending", "d": "needs_human"}
    assert f"no task of run {RUN} has failed" in home.refused("retry", RUN, "--failed")


def test_a_note_and_a_model_are_kept_with_a_retry_and_shown(home: Home) -> None:
    model = next(iter(read_table(None).models))
    said = home.forgepool("retry", RUN, "a", "d", "--note", "keep it\n\x1b[31mshort", "--model", model, "--no-resume")
    assert said.returncode == 0, said.stderr
    for name in ("a", "d"):
        line = f"{name}: will be tried again with {model}; ann says: keep it \\x1b[31mshort\n"
        assert line in said.stdout and line in home.forgepool("events", RUN).stdout.replace("  ", " ")
    state = home.kept.state()
    assert [one.answer for one in state.tasks["d"].replies] == ["keep it\n\x1b[31mshort"]
    assert state.models == {"a": model, "d": model}
    assert "  - ann said: keep it \\x1b[31mshort\n" in home.forgepool("report", RUN).stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), f"no task is named: forgepool retry {RUN} TASK..., or forgepool retry {RUN} --failed"),
        (("a", "--failed"), "name tasks or give --failed, not both"),
        (("a", "nope"), "has no task 'nope'; it has: a, b, c, d"),
        (("a", "--note", " "), f"the note is empty; give one in quotes: forgepool retry {RUN} a --note 'TEXT'"),
        (("a", "--note", "\udcff"), "the note is not UTF-8"),
        (("a", "--note", "x" * 20_001), "the note is longer than 20,000 characters"),
        (("a", "c", "--note", "x"), "task 'c' is done by a command, which reads no note"),
        (("c", "--model", "m"), "task 'c' is done by a command agent, and --model is for the built-in agent"),
        (("a", "--model", "claude-opos"), "there is no model 'claude-opos'; did you mean 'claude-"),
    ],
)
def test_a_retry_that_cannot_be_is_refused_in_one_sentence(home: Home, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in home.refused("retry", RUN, *words)
    assert home.phases()["a"] == "needs_human"


def test_a_run_that_goes_on_takes_its_requests_in_itself(home: Home) -> None:
    """This includes a `cancel` that was left while the run was stopped."""
    home.forgepool("retry", RUN, "c")
    leave(home.kept.folder, PersonRequest(do="cancel", task="c"))
    assert take_in_late(home.kept) == []
    assert [wish.do for _, wish in waiting(home.kept.folder)] == ["cancel"]


def test_what_is_no_text_is_no_answer_and_nobodys_name(home: Home) -> None:
    assert "the answer is not UTF-8" in home.refused("answer", RUN, "a", "\udcff")
    assert "the name given with --by is not UTF-8" in home.refused("answer", RUN, "a", "x", "--by", "\udcff")


def test_a_name_steers_no_terminal(home: Home) -> None:
    said = home.forgepool("answer", RUN, "a", "x", "--by", "\x1b[31mann\nb")
    assert said.stdout.startswith("a: answered by \\x1b[31mann\\nb; it continues\n")


@pytest.mark.parametrize("command", [("transcript",), ("transcript", "--json"), ("record",)])
def test_a_transcript_somebody_has_changed_is_told_in_one_sentence(home: Home, command: tuple[str, ...]) -> None:
    name, *options = command
    home.transcript.write_bytes(b"\xff{\n" + home.transcript.read_bytes())
    assert "transcript.jsonl" in home.refused(name, RUN, "a", *options)


@pytest.mark.parametrize("name", ["transcript", "record"])
def test_a_conversation_in_which_nothing_was_said_is_told_so(home: Home, name: str) -> None:
    home.transcript.write_bytes(b"")
    said = home.forgepool(name, RUN, "a")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (1, "", 1), said
    assert "has no turn of a model" in said.stderr


def test_the_program_or_the_key_that_was_there_is_wanted_again(home: Home, tmp_path: Path) -> None:
    """A run that cannot continue is refused before anything starts. Tasks that have ended need no program or key."""
    home.forgepool("answer", RUN, "a", "x")
    repository = tmp_path / "hub"
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    for argv in (
        ["init", "-q", str(repository)],
        ["-C", str(repository), *_ME, "commit", "-q", "--allow-empty", "-mx"],
    ):
        subprocess.run(["git", *argv], env=env, check=True)
    subprocess.run(["git", "-C", str(repository), "branch", "t"], check=True)
    options = home.kept.options.model_copy(update={"hub": str(repository)})
    (home.kept.folder / "options.json").write_text(options.encode())
    said = home.refused("resume", RUN)
    assert "task 'a' needs a model, but no key is set" in said
    assert home.phases()["a"] == "pending"


def test_an_answer_that_helps_nobody_is_refused(home: Home) -> None:
    assert "the answer is empty; give one in quotes" in home.refused("answer", RUN, "a", " ")
    assert "has no question, it is needs_human; waiting for an answer: a" in home.refused("answer", RUN, "c", "x")
    assert "has no task 'z'; it has: a, b, c, d" in home.refused("answer", RUN, "z", "x")


def test_the_question_and_the_command_are_shown(home: Home) -> None:
    command = f"forgepool answer {RUN} a TEXT"
    for argv in (("status", RUN), ("report", RUN), ("events", RUN)):
        said = home.forgepool(*argv).stdout
        assert "tabs?" in said and command in "".join(said.split("\n")), argv
    assert f"forgepool answer {RUN} a TEXT" in home.forgepool("resume", RUN).stdout


def test_a_raised_budget_reopens_what_had_stopped_for_it(home: Home) -> None:
    said = home.forgepool("resume", RUN, "--budget-usd", "20")
    assert said.stdout.startswith("the run's budget is 20.00 USD now\nd: may continue\n"), said
    assert home.phases()["d"] == "pending"
    assert home.kept.course.budget(home.kept.state()) == Budget(usd=20.0)


def test_a_budget_that_is_none_or_spent_already_is_refused(home: Home) -> None:
    for argv in (("resume", RUN, "--budget-usd", "1"), ("budget", RUN, "--usd", "1")):
        assert "a budget of 1.00 USD is less than the 1.95 USD that run r-1 has spent" in home.refused(*argv)
    assert f"no budget is given; name one, such as: forgepool budget {RUN} --usd 20" in home.refused("budget", RUN)
    for none in ("0", "inf"):
        assert f"--budget-usd {none} is not a budget" in home.refused("resume", RUN, "--budget-usd", none)
    assert "invalid value for '--budget-usd'" in home.refused("resume", RUN, "--budget-usd", "nan")


def test_a_run_under_way_is_asked_to_take_another_budget(home: Home) -> None:
    journal = Journal(home.kept.folder)
    try:
        said = home.refused("resume", RUN, "--budget-usd", "20", "--budget-tokens", "90000")
        asked = home.forgepool("budget", RUN, "--usd", "20", "--tokens", "90000")
    finally:
        journal.close()
    assert f"is under way; to change its budget: forgepool budget {RUN} --usd 20 --tokens 90000" in said
    assert asked.stdout.startswith(f"asked run {RUN} to go on with a budget of 20.00 USD and 90,000 tokens"), asked
    assert home.phases()["d"] == "needs_human"


def test_a_transcript_is_shown_for_a_person_and_steers_no_terminal(home: Home) -> None:
    said = home.forgepool("transcript", RUN, "a").stdout
    assert "--- 1. m-1\nat it\n> bash echo \\x1b[31mred\n" in said
    assert "< line 11\n< ... 28 more lines\n" in said and "line 12" not in said
    assert "< line 39" in home.forgepool("transcript", RUN, "a", "--full").stdout
    entries = [json.loads(line) for line in home.forgepool("transcript", RUN, "a", "--json").stdout.splitlines()]
    assert [one["kind"] for one in entries] == ["started", "said", "said", "answered"]


def test_a_recorded_transcript_is_a_script(home: Home) -> None:
    (turn,) = read_script(home.forgepool("record", RUN, "a").stdout, "s").turns
    assert (turn.say, turn.calls[0].tool, turn.calls[0].model_extra) == (
        "at it",
        "bash",
        {"command": "echo \x1b[31mred"},
    )


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("a", "--attempt", "3"), "has had only 1 attempt"),
        (("c",), "task 'c' of run r-1 has no transcript, here or in the hub; its agent is 'command', which has no"),
        (("z",), "has no task 'z'"),
    ],
)
def test_a_transcript_that_is_not_there_is_told_so(home: Home, argv: tuple[Any, ...], words: str) -> None:
    assert words in home.refused("transcript", RUN, *argv)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (f"status {RUN[0]}", [RUN]),
        ("status other", []),
        (f"logs {RUN} ", ["a", "b", "c", "d"]),
        (f"retry {RUN} b", ["b"]),
        (f"cancel {RUN} b", ["b"]),
        (f"approve {RUN} b", ["b"]),
        ("logs other ", []),
    ],
)
def test_a_shell_completes_the_names_of_runs_and_tasks(home: Home, line: str, found: list[str]) -> None:
    words = f"forgepool {line}"
    asked = {"_FORGEPOOL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    env = {**os.environ, "FORGEPOOL_HOME": str(home.kept.folder.parents[1]), **asked}
    said = warm.forgepool((), env=env, cwd=Path(__file__).parents[3])
    assert (said.stdout.split(), said.stderr) == (found, "")


_ASKS = """
turns:
  - calls: [{tool: write_file, path: a, content: "2"}, {tool: ask, question: "tabs?"}]
  - calls: [{tool: finish, summary: with tabs}]
"""


def test_an_order_on_another_host_is_followed_by_the_hub(tmp_path: Path) -> None:
    """The command shows each push to the hub as it comes. When the hub is away, the text that was read stays."""
    host = Host(tmp_path)
    options = RunOptions(run=RUN, hub=str(host.hub), target="t", workers=1, plan_file="p", plan_file_digest="")
    kept = keep(Settings(home=tmp_path / "mine", cache=tmp_path / "mine"), options, PLAN)
    journal = Journal(kept.folder)
    journal.append(STEPS[:2], at=100.0)
    journal.close()
    order: dict[str, Any] = {"run": RUN, "task": "a", "order_id": f"{RUN}.a.1", "agent": ScriptedAgent(script=_ASKS)}
    assert host.carry_out(**order).outcome == "needs_human"
    source = find_transcript(kept, "a", None)
    before = source.read()
    assert b"tabs?" in before and b"with tabs" not in before
    assert host.carry_out(**order, replies=(Reply(question="tabs?", answer="yes"),)).outcome == "candidate"
    after = source.read()
    assert after.startswith(before) and b"with tabs" in after
    host.hub.rename(tmp_path / "away")
    assert source.read() == after
