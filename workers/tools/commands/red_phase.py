"""
`confirm_red_phase`: the harness runs the test itself, and believes only what it saw fail.

A test that has never failed proves nothing when it passes. A run that broke before the test could fail is not a
failed test: a wrong name, an import that is not there, a shell that does not know the command.

All that is seen is a status and an output. A script that prints what a runner prints when a test fails, and ends with
status 1, cannot be told from one: what is confirmed here is evidence against mistakes, not against deceit.
"""

import re
from dataclasses import dataclass

from pydantic import Field

from forgepool.workers.sandbox.run.output import nameless_log, read_log
from forgepool.workers.sandbox.run.process import Ended, run
from forgepool.workers.tools.commands.run import KEEP_BYTES, script_command
from forgepool.workers.tools.commands.runners import (
    find_failed_runner,
    find_passed_runner,
    looks_broken,
    plain,
    says_passed,
    why_broken,
)
from forgepool.workers.tools.tool import Arguments, Tool, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace

CONFIRM = "confirm_red_phase"
_TAIL_CHARACTERS = 4000
_PYTEST = re.compile(r"(?:^|[\s/;&|])py\.?test\b(?![^;&|]*[;&|])")
"""Called last, so that its status is the command's."""
_PYTEST_STATUSES = {
    2: "was interrupted, most often because a test file could not be imported",
    3: "itself broke",
    4: "was called wrongly, most often with a path or a name that is not there",
    5: "collected no tests",
}


class ConfirmRedPhase(Arguments):
    command: str = Field(min_length=1, description="runs the new test and little else, such as pytest tests/test_x.py")
    expect: str | None = Field(
        default=None, min_length=1, description="a text that must be in the output, such as the failing test's name"
    )
    timeout_s: float = Field(default=300.0, gt=0, le=1800, description="seconds after which it counts as hung")


@dataclass(frozen=True, slots=True, kw_only=True)
class Red:
    """A test that was seen to fail."""

    command: str
    status: int
    tail: str
    """The end of its output."""
    iteration: int


@dataclass(slots=True)
class RedPhase:
    """What the harness has seen so far in one attempt."""

    confirmed: Red | None = None
    """The failure seen last."""


def confirm_red_phase_tool(seen: RedPhase) -> Tool:
    """The tool; what it confirms is recorded in `seen`."""

    def confirm(arguments: ConfirmRedPhase, workplace: Workplace) -> ToolAnswer:
        ended, output = _run(arguments, workplace)
        tail = output[-_TAIL_CHARACTERS:].strip("\n")
        why = _why_not_ended(ended) or _why_not_red(arguments, ended.status or 0, output)
        if why is not None:
            return ToolAnswer(text=f"not confirmed: {why}\n{tail}".rstrip(), is_error=True)
        seen.confirmed = Red(
            command=arguments.command, status=ended.status or 0, tail=tail, iteration=workplace.iteration
        )
        return ToolAnswer(text=f"OK: confirmed, the test fails [exit status {ended.status}]\n{tail}")

    said = (
        "Runs a test that must fail before the code is written that makes it pass, and confirms that it does. "
        "A test that passes, or a run that breaks before a test can fail, is not confirmed."
    )
    return make_typed_tool(CONFIRM, said, ConfirmRedPhase, confirm, kind="run")


def _run(arguments: ConfirmRedPhase, workplace: Workplace) -> tuple[Ended, str]:
    with nameless_log() as log:
        # A pipe must not hide the test's status behind that of `tail`.
        options = ("-o", "pipefail")
        command = script_command(arguments.command, workplace, log, *options, timeout_s=arguments.timeout_s)
        ended = run(command, stop=workplace.stop)
        return ended, plain(read_log(log, KEEP_BYTES).decode(errors="replace"))


def _why_not_ended(ended: Ended) -> str | None:
    """The run came to no end of its own."""
    match ended.how:
        case "timeout" | "idle":
            return f"the command did not end within {ended.seconds:.0f} s; a test that hangs has not failed"
        case "stopped":
            return "the attempt is being stopped"
        case "not_started":
            return ended.tail
        case "exit":
            pass
    if ended.status is None:
        return "how the command ended could not be seen; run it again"
    if ended.status < 0 or ended.status > 128:
        number = -ended.status if ended.status < 0 else ended.status - 128
        return f"the command was ended by signal {number}, it did not fail by itself"
    return None


def _why_not_red(arguments: ConfirmRedPhase, status: int, output: str) -> str | None:
    """It ended by itself; None when that was because a test failed."""
    if status == 0:
        return "the test passes; a red phase needs a test that fails for what is not written yet"
    if status in (126, 127):
        return f"the shell could not run the command (exit status {status}); give one that runs the test"
    if status in _PYTEST_STATUSES and _PYTEST.search(arguments.command):
        return f"no test failed: pytest {_PYTEST_STATUSES[status]} (exit status {status})"
    if find_failed_runner(output) is None:
        return _why_no_failure(arguments.expect, status, output)
    return _why_unexpected(arguments.expect, output)


def _why_no_failure(expect: str | None, status: int, output: str) -> str | None:
    """No runner that is known says that a test failed; of another kind, what is expected must be seen."""
    if (why := why_broken(output)) is not None:
        return f"no test failed: {why}; make the test run, so that it can fail"
    if looks_broken(output):
        return "the command broke before a test could fail; make the test run, so that it can fail"
    if (runner := find_passed_runner(output)) is not None:
        return f"no test failed: {runner} says that its tests passed; the exit status {status} is not its own"
    if expect is None:
        return "its output does not say that a test ran and failed; give in `expect` what a failure of the test prints"
    if expect in output and all(says_passed(line) for line in output.split("\n") if expect in line):
        return f"{expect!r} stands only where the output says that something passed; give what a failure prints"
    return _why_unexpected(expect, output)


def _why_unexpected(expect: str | None, output: str) -> str | None:
    if expect is None or expect in output:
        return None
    return f"the output does not hold {expect!r}; another test failed, or the test has another name"
