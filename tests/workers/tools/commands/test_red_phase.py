import sys
from collections.abc import Callable

import pytest

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.tools.commands.red_phase import RedPhase, confirm_red_phase_tool
from forgepool.workers.tools.tool import ToolAnswer, carry_out
from forgepool.workers.tools.workplace import Workplace

Confirm = Callable[..., ToolAnswer]

PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider --disable-plugin-autoload"
UNITTEST = f"{sys.executable} -m unittest"


@pytest.fixture
def seen() -> RedPhase:
    return RedPhase()


@pytest.fixture
def confirm(place: Workplace, seen: RedPhase) -> Confirm:
    def call(command: str, **arguments: object) -> ToolAnswer:
        given = {"command": command, **arguments}
        return carry_out(
            ToolCall(id="1", name="confirm_red_phase", arguments=given),  # type: ignore[arg-type]  # plain values
            (confirm_red_phase_tool(seen),),
            place,
        )

    return call


def test_a_test_that_really_fails_is_confirmed(confirm: Confirm, place: Workplace, seen: RedPhase) -> None:
    """The harness runs it itself, and keeps the result."""
    (place.root / "test_x.py").write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    answer = confirm(f"{PYTEST} test_x.py", expect="test_sum")
    assert answer.text.startswith("OK: confirmed, the test fails [exit status 1]\n")
    assert not answer.is_error
    assert seen.confirmed is not None
    assert seen.confirmed.command == f"{PYTEST} test_x.py"
    assert "assert (1 + 1) == 3" in seen.confirmed.tail
    assert "1 failed in" in seen.confirmed.tail
    assert (seen.confirmed.status, seen.confirmed.iteration) == (1, 14)
    assert list(place.tmp.iterdir()) == []


@pytest.mark.parametrize(
    ("test", "command", "told"),
    [
        ("def test_x():\n    pass\n", "{pytest} test_x.py", "the test passes; a red phase needs a test that fails"),
        ("import nowhere\n", "{pytest} test_x.py", "no test failed: pytest was interrupted"),
        ("def test_x(:\n", "{pytest} test_x.py", "no test failed: pytest was interrupted"),
        ("x = 1\n", "{pytest} test_x.py", "no test failed: pytest collected no tests (exit status 5)"),
        ("", "{pytest} test_y.py", "no test failed: pytest was called wrongly"),
        ("def test_x():\n    assert 0\n", "{pytest} test_x.py::test_y", "no test failed: pytest was called wrongly"),
        ("import nowhere\n", "{pytest} test_x.py || exit 1", "no test failed: the tests could not be collected"),
        ("def test_x(nothing):\n    pass\n", "{pytest} test_x.py", "no test failed: a test's preparation broke"),
        ("import nowhere\n", "{unittest} test_x", "no test failed: a test module could not be imported"),
    ],
)
def test_a_run_that_broke_before_a_test_could_fail_is_refused(
    confirm: Confirm, place: Workplace, seen: RedPhase, test: str, command: str, told: str
) -> None:
    """This holds for any exit status. The answer says what was wrong and shows it."""
    (place.root / "test_x.py").write_text(test)
    answer = confirm(command.format(pytest=PYTEST, unittest=UNITTEST))
    assert answer.is_error
    assert answer.text.startswith(f"not confirmed: {told}")
    assert "\n" in answer.text
    assert seen.confirmed is None


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo '1 failed in 0.1s'; kill -9 $$", "the command was ended by signal 9, it did not fail by itself"),
        ("sh -c 'kill -11 $$'; exit $?", "the command was ended by signal 11"),
        ("echo '1 failed in 0.1s'; sleep 60", "the command did not end within 0 s; a test that hangs has not failed"),
        ("no-such-program-here", "the shell could not run the command (exit status 127)"),
        ("/etc/passwd", "the shell could not run the command (exit status 126)"),
        ("exit 1", "its output does not say that a test ran and failed; give in `expect`"),
        ("echo 'SyntaxError: invalid syntax'; exit 1", "the command broke before a test could fail"),
        ("echo 'sh: foo: command not found'; exit 1", "the command broke before a test could fail"),
        ("true", "the test passes"),
    ],
)
def test_what_is_no_failure_of_a_test_is_refused(confirm: Confirm, seen: RedPhase, command: str, told: str) -> None:
    """It is a signal, a hang, a shell's error, or only an exit status."""
    answer = confirm(command, timeout_s=0.4 if "sleep" in command else 20)
    assert answer.is_error
    assert answer.text.startswith(f"not confirmed: {told}")
    assert seen.confirmed is None


def test_a_model_cannot_invent_the_failure(confirm: Confirm, seen: RedPhase) -> None:
    """The expected text must be printed by the command, not only be part of the call."""
    answer = confirm("echo '--- FAIL: TestOther'; exit 1", expect="TestShelf")
    assert "the output does not hold 'TestShelf'; another test failed" in answer.text
    assert seen.confirmed is None


def test_a_pipe_does_not_hide_the_failure(confirm: Confirm, seen: RedPhase) -> None:
    """An unknown runner's failure counts, too, if its printed text is named."""
    assert not confirm("(echo 'not ok 1 - shelf'; exit 1) | tail -1").is_error
    assert not confirm("echo 'shelf is empty'; exit 1", expect="shelf is empty").is_error
    assert seen.confirmed is not None
    assert seen.confirmed.tail == "shelf is empty"


def test_the_expected_text_is_looked_for_in_all_of_the_output(confirm: Confirm) -> None:
    """Much may be printed after it."""
    assert not confirm("echo needle; seq 100000; echo '1 failed in 0.1s'; exit 1", expect="needle").is_error


@pytest.mark.parametrize(
    ("script", "expect", "told"),
    [
        ("echo '===== 1 passed in 0.01s ====='; exit 1", "1 passed", "pytest says that its tests passed"),
        ("echo '1 passed in 0.01s'; exit 1", "test_x", "pytest says that its tests passed"),
        ("printf 'Ran 1 test in 0s\\n\\nOK\\n'; exit 1", "Ran 1", "unittest says that its tests passed"),
        ("echo 'shelf: passed'; exit 1", "shelf", "'shelf' stands only where the output says that something passed"),
    ],
)
def test_what_has_passed_is_no_failure(confirm: Confirm, seen: RedPhase, script: str, expect: str, told: str) -> None:
    """This holds whatever exit status follows, and whatever is expected."""
    answer = confirm(script, expect=expect)
    assert told in answer.text
    assert seen.confirmed is None
