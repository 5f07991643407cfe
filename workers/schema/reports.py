"""
The reports of tasks that answer, and the messages between a lead and the orchestrator.

A lead is a task that dispatches other tasks of its run and collects their results. Its conversation ends with a
numbered request, and goes on in the next order, which brings the reply.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_LEAST_WORDS = 40
"""Characters: a task is understood without the lead's conversation, so its objective and notes cannot be a word."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class DispatchedTask(_Part):
    """A task that a lead adds to its run."""

    id: str = Field(min_length=1, description="letters, digits, - and _; a new one, also for another try")
    objective: str = Field(
        min_length=_LEAST_WORDS, max_length=4_000, description="what must be true when it is done; one outcome"
    )
    notes: str = Field(
        min_length=_LEAST_WORDS,
        max_length=8_000,
        description="why, what is known, what it must not touch; its agent sees nothing else of this conversation",
    )
    files: tuple[str, ...] = Field(default=(), description="globs of the files it may write; none for `answers`")
    needs: tuple[str, ...] = Field(default=(), description="ids of tasks that must be done before")
    skill: str | None = Field(default=None, description="the role of its agent, such as implementer or tester")
    context: tuple[str, ...] = Field(
        default=(), description="`TASK` or `TASK:full` of its needs, `path` or `path:10-40`: given to it beforehand"
    )
    answers: bool = Field(default=False, description="it writes nothing and ends with a report")
    acceptance: tuple[str, ...] = Field(default=(), description="commands that are red before and green after")
    retry_of: str | None = Field(default=None, description="the task that failed; this is another try of it")


class LeadRequest(_Part):
    """A request by which a lead's conversation rests until the orchestrator has replied."""

    number: int
    """The same number is the same request, however often it is sent."""
    do: Literal["dispatch", "collect", "cancel", "read"]
    tasks: tuple[DispatchedTask, ...] = ()
    what: str = ""
    """For `collect`: a task, `ready` or `all`; for `read`: a task."""
    full: bool = False
    ids: tuple[str, ...] = ()
    why: str = ""


class LeadResult(_Part):
    """A task that has ended, as far as a lead's rules look at it."""

    task: str
    ended: str
    """The phase in which it ended."""


class LeadReply(_Part):
    """The orchestrator's reply to the request of that number; 0 is the state of the plan when the lead began."""

    number: int
    text: str
    results: tuple[LeadResult, ...] = ()
    """Results collected with it."""
    open: tuple[str, ...] = ()
    """Tasks of the run whose results are still to be collected."""
    read: str = ""
    """The task whose whole result the order brings among its priors."""


NoteKind = Literal["frame", "checkpoint", "brief"]


class LeadNote(_Part):
    """A frame, a checkpoint or a brief: the reasoning of a lead, by headings."""

    kind: NoteKind
    at: float
    parts: dict[str, tuple[str, ...]]


class LeadSaid(_Part):
    """The part of a result that a lead's orchestrator needs."""

    request: LeadRequest | None = None
    """Set exactly when the outcome is `waiting`."""
    notes: tuple[LeadNote, ...] = ()
    """All notes of its conversation so far."""


class Evidence(_Part):
    """A citation in a report: lines of a file at the order's base, a task that is needed, or a commit."""

    path: str = ""
    lines: tuple[int, int] | None = None
    """The first and the last of them; only with a path."""
    task: str = ""
    commit: str = ""


class Report(_Part):
    """The answer of a task that changes nothing. The harness has checked that what it cites exists."""

    summary: str
    output: str = ""
    missing: tuple[str, ...] = ()
    """The gaps: facts that the agent needed and could not find."""
    evidence: tuple[Evidence, ...] = ()


class EarlierWork(_Part):
    """The commit of an earlier attempt at the task, whose change the next one begins with."""

    attempt: int
    commit: str
    ref: str
    """The ref that has it in the hub."""


class Prior(_Part):
    """The result of a task that this one needs."""

    task: str
    full: bool = False
    """The plan asks for the whole result, not the summary alone."""
    title: str = ""
    summary: str = ""
    """The summary its agent gave."""
    commit: str = ""
    """The landed commit."""
    paths: tuple[str, ...] = ()
    report: Report | None = None
    surveyed: str = Field(default="", exclude_if=lambda commit: not commit)
    """For the run's survey, the commit that it describes. Left out of other orders, which older workers know."""
