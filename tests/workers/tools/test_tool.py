import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.tools.tool import Tool, ToolAnswer, carry_out
from forgepool.workers.tools.workplace import Workplace

Use = Callable[..., ToolAnswer]


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("rm", {}, "no tool is called 'rm'; the tools are: read_file, "),
        ("read_file", {}, "read_file: the call lacks the key 'path'. Its arguments are: path, start, lines"),
        ("read_file", {"path": "a", "start": 0}, "read_file: 'start' must be at least 1, is 0. Its"),
        ("read_file", {"path": ["a"]}, "'path' must be text, is a list"),
        ("bash", {"command": "ls", "cwd": "/"}, "the call has an unknown key 'cwd'; known keys are: "),
        ("grep", {"pattern": ""}, "'pattern' must not be empty"),
        ("read_file", {"path": "a", "start": "x"}, "'start' must be a whole number, is 'x'"),
        ("write_file", {"path": "a", "content": "\ud800"}, "half a character"),
        ("write_file", {"path": "\ud800", "content": ""}, "half a character"),
    ],
)
def test_a_call_that_makes_no_sense_is_told_so(use: Use, tool: str, arguments: dict[str, str], told: str) -> None:
    """The answer says what would be right, and no exception is raised."""
    answer = use(tool, **arguments)
    assert answer.is_error
    assert told in answer.text


def test_trouble_with_the_disk_is_an_answer(use: Use, place: Workplace) -> None:
    """A file is where a folder is needed, which the model may mend."""
    (place.root / "file").touch()
    answer = use("write_file", path="file/below", content="x")
    assert answer.is_error
    assert "\n" not in answer.text


def test_a_command_answers_with_status_and_output(use: Use, place: Workplace) -> None:
    """It runs in the worktree. A failure is an error with both outputs."""
    (place.root / "a").touch()
    good, bad = use("bash", command="ls"), use("bash", command="echo no >&2; exit 3")
    assert good.text.startswith("[exit status 0, ")
    assert good.text.endswith("\na")
    assert not good.is_error
    assert bad.text.startswith("[exit status 3, ")
    assert bad.text.endswith("\nno")
    assert bad.is_error
    assert list(place.tmp.iterdir()) == []


def test_a_long_output_is_shown_by_its_ends(use: Use, place: Workplace) -> None:
    """Most of it is the end. The total is given, and all of it can be read."""
    text = use("bash", command="echo first; seq 100000; echo last").text
    assert len(text) < 13_000
    assert "first\n1\n2\n" in text
    assert text.endswith("100000\nlast")
    assert "588,906 bytes in all; the middle is left out" in text
    (whole,) = place.outputs.iterdir()
    assert f"read_file or grep {whole}]" in text
    assert "     2\t1\n" in use("read_file", path=str(whole)).text
    assert "50001: 50000" in use("grep", pattern="^50000$", path=str(whole)).text


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("sleep 60", "[killed after "),
        ("kill -9 $$", "[ended by signal 9, "),
        ("true", "[exit status 0, 0.0 s]\n[no output]"),
    ],
)
def test_how_a_command_ended_is_told(use: Use, command: str, told: str) -> None:
    """A time limit and a signal are not exit statuses."""
    assert use("bash", command=command, timeout_s=0.3).text.startswith(told)


def test_a_command_gets_no_more_time_than_the_attempt_has(use: Use) -> None:
    """This holds whatever the model allows it."""
    late = {"left_s": lambda: 0.2}
    assert use("bash", late, command="sleep 60", timeout_s=1000).text.startswith("[killed after 0 s")


def test_nothing_a_command_started_outlives_it(use: Use, tmp_path: Path) -> None:
    """A server left in the background is gone when the model sees the answer."""
    text = use("bash", command="sleep 60 >/dev/null & echo $!").text
    assert not Path(f"/proc/{int(text.split()[-1])}").exists()
    assert os.listdir(tmp_path / "tmp") == []  # noqa: PTH208 - names only


def test_a_call_that_is_no_call_is_not_run(place: Workplace, tools: tuple[Tool, ...]) -> None:
    """Arguments that are not one JSON object are not guessed."""
    call = ToolCall(id="1", name="bash", malformed='{"command": "touch a')
    answer = carry_out(call, tools, place)
    assert answer.text == "not run: the arguments of bash are not one JSON object; send it again"
    assert answer.is_error
    assert list(place.root.iterdir()) == []
