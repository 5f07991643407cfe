"""
What the end of a program's run means. Decides; looks at no file and asks nobody.
"""

from dataclasses import dataclass
from typing import assert_never

from forgepool.workers.agents.cli.events import Closed, ProgramFailure
from forgepool.workers.agents.cli.lines import one_line
from forgepool.workers.agents.cli.wordings import failure
from forgepool.workers.agents.contract import AgentEnding
from forgepool.workers.llm.provider import Trouble
from forgepool.workers.sandbox.run.process import Ended
from forgepool.workers.schema.orders import CliProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStatements:
    """What a program said, in all."""

    closed: Closed | None
    over: str | None
    hopeless: ProgramFailure | None
    remarks: tuple[str, ...]
    """The latest things it said beside the work, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramJudgement:
    ended: AgentEnding
    detail: str
    trouble: Trouble | None = None
    resets_at: float | None = None
    summary: str = ""


def judge_program(
    program: CliProgram, ended: Ended, told: ProgramStatements, *, keys: tuple[str, ...]
) -> ProgramJudgement:
    """It has finished when its status says so, and its last word, and nothing says otherwise."""
    match ended.how:
        case "exit":
            return _exited(program, ended.status, told, keys)
        case "timeout":
            return ProgramJudgement(ended="timeout", detail=f"{program} did not end within {ended.seconds:.0f} s")
        case "idle":
            detail = f"{program} was silent and changed nothing for too long; ended after {ended.seconds:.0f} s"
            return ProgramJudgement(ended="idle", detail=_with_last(detail, told))
        case "stopped":
            return _stopped(program, told, keys)
        case "not_started":
            return ProgramJudgement(ended="not_started", detail=f"{program} was not started: {ended.tail}")
        case other:
            assert_never(other)


def _stopped(program: CliProgram, told: ProgramStatements, keys: tuple[str, ...]) -> ProgramJudgement:
    """By us, for one of two reasons it gave us; else because somebody wanted it."""
    if told.hopeless is not None:
        return _failed(program, told.hopeless, keys)
    if told.over is not None:
        return ProgramJudgement(ended="limits", detail=f"{program} {told.over}")
    return ProgramJudgement(ended="stopped", detail=f"{program} was stopped")


def _exited(
    program: CliProgram, status: int | None, told: ProgramStatements, keys: tuple[str, ...]
) -> ProgramJudgement:
    if told.closed is None:
        return _without_end(program, status, told, keys)
    if told.closed.failure is not None:
        return _failed(program, told.closed.failure, keys)
    if status != 0:
        return ProgramJudgement(ended="failed", detail=f"{program} said that it was done, and then {_said(status)}")
    return ProgramJudgement(ended="finished", detail=f"{program} finished", summary=told.closed.summary)


def _without_end(
    program: CliProgram, status: int | None, told: ProgramStatements, keys: tuple[str, ...]
) -> ProgramJudgement:
    """It died, or it could not begin: what it said last may say why."""
    found = failure(" ".join(told.remarks[-5:]))
    if found.trouble == "authentication":
        return _failed(program, found, keys)
    detail = f"{program} {_said(status)} and did not say how its work ended"
    return ProgramJudgement(
        ended="failed", detail=_with_last(detail, told), trouble=found.trouble, resets_at=found.resets_at
    )


def _failed(program: CliProgram, why: ProgramFailure, keys: tuple[str, ...]) -> ProgramJudgement:
    detail = f"{program}: {one_line(why.said)}"
    if why.trouble == "authentication":
        detail += f"; set {' or '.join(keys)} to a key that is accepted, where the worker runs"
    return ProgramJudgement(ended=why.ended, detail=detail, trouble=why.trouble, resets_at=why.resets_at)


def _with_last(detail: str, told: ProgramStatements) -> str:
    return f"{detail}; it last said: {one_line(told.remarks[-1])}" if told.remarks else detail


def _said(status: int | None) -> str:
    if status is None:
        return "ended with a status that could not be read"
    return f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
