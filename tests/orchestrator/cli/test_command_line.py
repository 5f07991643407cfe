"""The command line as a person sees it: start, help, tables and colours, on a terminal and in a pipe."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
import warm
from terminal import on_terminal

from forgepool.orchestrator.cli.app import GROUPS, START, app
from forgepool.orchestrator.cli.run.options import trials_of
from forgepool.workers.schema.error_lines import without_escapes

ROOT = Path(__file__).parents[3]
_PLAIN = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
_TABLE = """\
from forgepool.orchestrator.cli.output.say import say
from forgepool.orchestrator.cli.output.terminal import print_table
why = "check 'test' exited with 1 on the composed tree, failing in tests/test_money.py::test_rounding [a]"
print_table(("task", "outcome", "why"), [("a-task", "landed", ""), ("another", "failed", why)])
say("passes", style="green")
"""


def _forgepool(*argv: str) -> "subprocess.CompletedProcess[str]":
    return warm.forgepool(argv, cwd=ROOT, env=os.environ)


def _printed(env: Mapping[str, str], *, columns: int | None = None) -> str:
    """Print the table in a pipe, or on a terminal with this many columns."""
    command = [sys.executable, "-c", _TABLE]
    whole = {**_PLAIN, **env}
    if columns is None:
        return subprocess.run(command, env=whole, capture_output=True, text=True, check=True).stdout
    return on_terminal(command, cwd=ROOT, env=whole, columns=columns)


def test_alone_it_says_how_to_start() -> None:
    said = _forgepool()
    assert (said.returncode, said.stdout, said.stderr) == (0, f"{START}\n", "")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_has_its_place_in_the_help(option: str) -> None:
    said = _forgepool(option)
    assert said.returncode == 0
    assert "Other:" not in said.stdout
    assert "Examples:" in said.stdout and "Exit status: 0 all landed" in said.stdout and "docs/" in said.stdout
    for heading, commands in GROUPS.items():
        assert f"\n{heading}:\n" in said.stdout
        assert all(f"\n  {name} " in said.stdout for name in commands)
    assert all(len(line) <= 80 for line in said.stdout.splitlines())


def test_the_help_names_no_command_that_is_not_there() -> None:
    group = typer.main.get_group(app)
    context = typer._click.Context(group)
    for name in group.list_commands(context):
        assert group.get_command(context, name) is not None, name
    assert set(group.commands) == set(group.list_commands(context))


_COMPLETING = {"_FORGEPOOL_COMPLETE": "complete_bash", "COMP_WORDS": "forgepool sta", "COMP_CWORD": "1"}
_LOGGED = {"structlog", "ssl", "asyncio"}
_HEAVY = {"celery", "redis", "anthropic", "openai", *_LOGGED}


@pytest.mark.parametrize(
    ("argv", "env", "most"),
    [
        ("--version", {}, 230),
        ("--help", {}, 180),
        ("", _COMPLETING, 180),
        ("runs", {}, 485),
        ("status run-of-nobody", {}, 485),
        ("events run-of-nobody", {}, 485),
        ("check plan.yaml", {}, 600),
    ],
)
def test_a_command_imports_only_what_it_needs(argv: str, env: dict[str, str], most: int, tmp_path: Path) -> None:
    """It counts modules, not seconds. A run imports more than a thousand."""
    count = (
        "import sys; from forgepool.orchestrator.cli import main\ntry: main()\n"
        "finally: print(len(sys.modules), *sys.modules, file=sys.stderr)"
    )
    home = {"FORGEPOOL_HOME": str(tmp_path / "home"), "FORGEPOOL_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", count, *argv.split()]
    ended = subprocess.run(command, cwd=tmp_path, env={**_PLAIN, **home, **env}, capture_output=True, text=True)
    number, *names = ended.stderr.splitlines()[-1].split()
    assert int(number) <= most
    assert not (_HEAVY - _LOGGED if argv.startswith("check") else _HEAVY).intersection(names)


def test_a_group_alone_shows_its_help_and_is_wrong_usage() -> None:
    said = _forgepool("gate")
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("Usage: forgepool gate") and "..." not in said.stderr.partition("Commands:")[2]


def test_names_of_one_release_ago_work_and_are_not_shown() -> None:
    assert _forgepool("gate", "submit", "-h").returncode == 0
    shown = _forgepool("gate", "-h").stdout.partition("Commands:")[2]
    assert "check " in shown and "submit" not in shown and "protect" not in shown
    assert "did you mean `forgepool queue submit`?" in _forgepool("submti").stderr


def test_ctrl_c_while_the_command_is_being_loaded_is_no_traceback() -> None:
    interrupted = """\
import sys
class Person:
    def find_spec(self, name, *rest):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Person())
from forgepool.orchestrator.cli import main
main()
"""
    said = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (130, "", "")


def test_ctrl_c_that_python_ignored_while_a_command_began_is_heard_once_the_command_listens() -> None:
    """Python drops an exception at the end of an object. A queue whose Ctrl-C came there went on for ever."""
    begun = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background may ignore it
from forgepool.orchestrator import cli
from forgepool.orchestrator.cli import app
from forgepool.orchestrator.cli.run.run import listen_to_ctrl_c
class Dropped:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def work():
    Dropped()
    print("goes on")
    listen_to_ctrl_c()
    print("listens")
app.main = work
cli.main()
"""
    said = subprocess.run([sys.executable, "-c", begun], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (130, "goes on\n")
    assert "Exception ignored in" in said.stderr


def test_the_status_of_a_mistake_is_right_where_its_sentence_has_no_room_on_the_disk() -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run([sys.executable, "-m", "forgepool.orchestrator.cli", "check", "no.yaml"], stderr=full)
    assert ran.returncode == 2


@pytest.mark.parametrize(
    ("command", "failure", "words"),
    [
        ("status", "KeyError('lost ' + 'x' * 500)", "an unexpected error occurred (KeyError: 'lost xxx"),
        ("queue serve", "KeyError('lost')", "an unexpected error occurred (KeyError: 'lost')"),
        (
            "check",
            "GitFailed(('fetch',), 128, 'fatal: gone')",
            "git fetch ended with status 128: fatal: gone; finished work is",
        ),
    ],
)
def test_a_failure_says_its_cause_and_what_to_do_in_one_line(
    command: str, failure: str, words: str, tmp_path: Path
) -> None:
    failing = f"""\
import forgepool.orchestrator.cli.app as it
from forgepool.worktrees.git.git import GitFailed
def fail(**_):
    raise {failure}
it.app = fail
it.main()
"""
    env = os.environ | {"FORGEPOOL_HOME": str(tmp_path)}
    argv = [sys.executable, "-c", failing, *command.split()]
    said = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    assert ("`forgepool resume`" in said.stderr) == (command == "queue serve"), "only where there is a run to resume"
    assert said.returncode == 3 and said.stderr.startswith(f"forgepool: {words}"), said.stderr
    assert said.stderr.count("\n") == 1 and "x" * 201 not in said.stderr


@pytest.mark.parametrize("argv", [("run", "-h"), ("gate", "check", "-h")])
def test_a_command_has_help_by_one_letter(argv: tuple[str, ...]) -> None:
    said = _forgepool(*argv)
    assert said.returncode == 0 and said.stdout.startswith(f"Usage: forgepool {' '.join(argv[:-1])}")


def test_the_version_is_told_by_one_letter() -> None:
    assert _forgepool("-V").stdout == _forgepool("--version").stdout != ""


def test_a_shell_can_complete_commands() -> None:
    asked = {"_FORGEPOOL_COMPLETE": "complete_bash", "COMP_WORDS": "forgepool sta", "COMP_CWORD": "1"}
    assert warm.forgepool((), cwd=ROOT, env={**os.environ, **asked}).stdout.split() == ["status"]


def test_a_table_in_a_pipe_has_one_whole_line_for_each_row() -> None:
    head, first, second, said = _printed({"COLUMNS": "40"}).splitlines()
    assert head.split() == ["task", "outcome", "why"]
    assert first == "a-task   landed"
    assert second.startswith("another  failed   check 'test'") and second.endswith("test_rounding [a]")
    assert said == "passes"


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_table_fits_its_terminal(columns: int) -> None:
    lines = without_escapes(_printed({"TERM": "xterm"}, columns=columns)).splitlines()
    assert all(len(line) <= columns for line in lines)
    assert "test_rounding [a]" in " ".join(" ".join(lines).split())
    assert lines[2].split()[:2] == ["another", "failed"]


def test_outcomes_are_coloured_on_a_terminal() -> None:
    shown = _printed({"TERM": "xterm"}, columns=200)
    assert "\x1b[32mlanded\x1b[0m" in shown and "\x1b[31mfailed\x1b[0m" in shown and "\x1b[32mpasses\x1b[0m" in shown


@pytest.mark.parametrize("env", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_left_out_where_they_are_not_wanted(env: dict[str, str]) -> None:
    shown = _printed(env, columns=200)
    assert "\x1b[32m" not in shown and "landed" in shown


def test_colours_can_be_had_in_a_pipe() -> None:
    assert "\x1b[32mlanded\x1b[0m" in _printed({"FORCE_COLOR": "1"})
    assert "\x1b" not in _printed({})


@pytest.mark.parametrize(
    ("asked", "processors", "count"), [("auto", 0, 1), ("auto", 1, 1), ("auto", 3, 3), ("auto", 64, 4), ("7", 2, 7)]
)
def test_trials_are_as_many_as_asked_or_by_the_processors_up_to_four(asked: str, processors: int, count: int) -> None:
    assert trials_of(asked, processors=processors) == count


@pytest.mark.parametrize("command", [("queue", "serve"), ("run", "plan.yaml")])
@pytest.mark.parametrize("asked", ["0", "65", "-1", "many", "1.5"])
def test_any_other_number_of_trials_is_refused_in_a_sentence(command: tuple[str, ...], asked: str) -> None:
    ran = _forgepool(*command, f"--trials={asked}")
    assert ran.returncode == 2
    assert ran.stderr.strip().endswith(f"--trials is {asked}; it must be auto or a number from 1 to 64")
