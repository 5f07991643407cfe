"""What the checks say of a target before anything is built on it: on the terminal, and as an exit status."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from forgepool.orchestrator.cli.output.say import complain, printable, say
from forgepool.orchestrator.decisions.post_merge import where_to_look
from forgepool.orchestrator.state.post_merge import fit_to_build_on
from forgepool.supervisor.messages import CheckResult

INTERRUPTED = 130


def tell_base(result: CheckResult, target: str) -> int:
    """Print what the checks said; return 0 where work on the target can land, 1 where it cannot, 3 where none ran."""
    for one in result.certificates:
        tests = "" if one.tests is None else f", {one.tests} tests"
        say(f"check '{one.check}' is green ({'seen earlier' if one.reused else f'{one.seconds:.1f} s'}{tests})")
    for flake in result.flaky:
        say(f"check '{flake.check}' was red, then green, on the same tree")
    if result.verdict == "green":
        say(f"{target} is green: work on it can land")
        return 0
    say(printable(result.detail))
    for line in where_to_look(result):
        say(f"    {printable(line)}")
    if result.verdict == "base_red" and fit_to_build_on(result):
        say(f"these tests fail on {target} before any work; what is built on it is judged by what it breaks besides")
        return 0
    return exit_status_of_base(result)


def exit_status_of_base(result: CheckResult) -> int:
    """Return 0 where work on the target can land, 1 where it cannot, 3 where nothing is known."""
    if result.verdict == "infrastructure":
        return 3
    return 0 if fit_to_build_on(result) else 1


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or a polite signal has come; a second Ctrl-C waits for nothing."""
    asked: list[int] = []

    def note_interrupt(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = [(number, signal.signal(number, note_interrupt)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield lambda: bool(asked)
    finally:
        for number, former in before:
            signal.signal(number, former)


def say_interrupted() -> int:
    return complain("interrupted before the checks have ended", INTERRUPTED)
