"""The description of a check that was not green, and whether it says anything about its tree."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forgepool.supervisor.messages.answers import CheckFailure

# `forgepool check` imports the sentences below, and needs nothing that runs checks.
if TYPE_CHECKING:
    from forgepool.supervisor.checks.results.judging import CheckJudgement, Ran
    from forgepool.supervisor.checks.results.reports import ReportedCase

_MISSING = re.compile(r"(?:^|[\s:])([^\s:]+): (?:command )?(not found|No such file or directory|Permission denied)\b")
_NO_PROGRAM, _NOT_EXECUTABLE = 127, 126
_SHOWN = 3
_MOST_PROBLEMS = 100
"""New findings that are sent on."""


def untold(failure: CheckFailure) -> str | None:
    """Why a check that was not green says nothing of the tree it was for; None when it does."""
    match failure.how:
        case "stopped":
            return "stopped before the checks had ended"
        case "not_started":
            return f"{name_failure(failure)} could not be started: {failure.log_tail}"
        case _:
            return None


def missing_program(failure: CheckFailure | None, where: str) -> str | None:
    """The sentence about a program that is missing, where it is that which made the check red; else None."""
    if failure is None or failure.how != "exit" or failure.status not in (_NO_PROGRAM, _NOT_EXECUTABLE):
        return None
    found = _MISSING.findall(failure.log_tail)
    program = f"'{found[-1][0]}'" if found else "a program"
    what = "is not there" if failure.status == _NO_PROGRAM else "cannot be run"
    return f"{name_failure(failure)} runs {program}, which {what}{where}; install it, or mend the command"


def name_failure(failure: CheckFailure) -> str:
    return f"the set-up of check '{failure.check}'" if failure.setup else f"check '{failure.check}'"


def find_cases(ran: "Ran", tests: Sequence[str]) -> "tuple[ReportedCase, ...]":
    """Return these tests as a run reports them; none if it misses one."""
    shown = {case.id: case for case in ran.evidence.report.cases} if ran.evidence.report is not None else {}
    return tuple(shown[one] for one in tests) if shown.keys() >= set(tests) else ()


def list_problems(ran: "Ran", judgement: "CheckJudgement") -> tuple[str, ...]:
    """Return the errors of the deciding tests; one that only an earlier run reported is shown by its id."""
    cases = ran.evidence.report.cases if ran.evidence.report is not None else ()
    shown = {case.id: case.error for case in cases}
    return tuple(shown.get(one, one) for one in judgement.new)[:_MOST_PROBLEMS]


def describe_red_base(failures: Sequence[CheckFailure], where: str) -> list[str]:
    """Return a clause for each check that is red on the target itself, then what this host does not lend set-ups."""
    said, hints = list[str](), dict[str, None]()
    for failure in failures:
        if failure.setup and failure.how == "exit" and failure.reason:
            hints[failure.reason] = None
            failure = failure.model_copy(update={"reason": ""})
        at = "" if said else where
        plain = failure.how == "exit" and not failure.setup and not failure.tests
        said.append(f"{name_failure(failure)} {f'is red{at}' if plain else describe_failure(failure, at)}")
    return [*said, *hints]


def describe_failure(failure: CheckFailure, where: str) -> str:
    match failure.how:
        case "exit":
            reason = f"; {failure.reason}" if failure.reason else ""
            return f"exited with {failure.status}{where}{_tests(failure)}{reason}"
        case "timeout":
            return f"did not end in its time{where}{_tests(failure)}"
        case "idle" | "stopped":
            return f"was ended before it was done{where}"
        case "not_started":
            return f"could not be started{where}"
        case "refused" | "no_evidence":
            return f"is not taken for green{where}: {failure.reason}"


def _tests(failure: CheckFailure) -> str:
    if failure.problems:
        count, shown = len(failure.problems), "; ".join(failure.problems[:_SHOWN])
        more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
        return f", with {'one new finding' if count == 1 else f'{count} new findings'}: {shown}{more}"
    if not failure.tests:
        return ""
    more = f" and {len(failure.tests) - _SHOWN} more" if len(failure.tests) > _SHOWN else ""
    return f", failing in {', '.join(failure.tests[:_SHOWN])}{more}"
