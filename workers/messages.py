"""
What a worker is asked and what it answers.

Plain frozen values, JSON on the wire. Nothing here decides or acts. The reviews and checks a candidate is put
through have their own messages in `supervisor.messages`.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Message(BaseModel):
    """A value that crosses a process: frozen, closed, JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def encode(self) -> str:
        return self.model_dump_json()


class Limits(Message):
    """What one attempt may use. None is no limit of that kind; there is always a wall clock and an idle limit."""

    wall_s: float = Field(default=3600.0, gt=0)
    idle_s: float = Field(default=900.0, gt=0)
    """Seconds without a byte of output and without a file changed, after which an agent counts as hung."""
    turns: int | None = Field(default=None, gt=0)
    output_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    """Bytes of output kept on disk; what exceeds it is counted and dropped, never blocking the agent."""


class Spent(Message):
    """What one attempt used. `cost_usd` is None where it is not known, which is not the same as nothing."""

    seconds: float = 0.0
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0


class CommandAgent(Message):
    """A shell command, run in the worktree, takes the place of a model: codemods, formatters, scripts."""

    kind: Literal["command"] = "command"
    run: str = Field(min_length=1)


class ScriptedAgent(Message):
    """The built-in model loop driven by a scripted model: honest replay of turns written by a person."""

    kind: Literal["scripted"] = "scripted"
    script: str = Field(min_length=1)
    """The YAML text of the script (the plan names a file; its text travels, so that any host can run it)."""


AgentSpec = Annotated[CommandAgent | ScriptedAgent, Field(discriminator="kind")]


ReasonKind = Literal["check_failed", "conflict", "out_of_scope", "verify_failed", "no_change", "agent_failed", "limits"]


class ReasonPack(Message):
    """Why an earlier attempt came back, for the next one. Facts from the harness; no model wrote them."""

    attempt: int
    kind: ReasonKind
    summary: str
    """One sentence: what failed, with names."""
    log_tail: str = ""
    conflicting_entry: str | None = None
    """Task id of the entry it conflicts with or breaks together with, where known."""
    paths: tuple[str, ...] = ()
    reproduce: str = ""
    """A command that shows the failure again on a clone of the hub."""


class WorkOrder(Message):
    """One attempt at one task, complete: any worker on any host that reaches the hub can do it."""

    order_id: str
    """`<run>.<task>.<attempt>`: unique; a second delivery of the same id does nothing."""
    token: str
    """Of this attempt alone: fences the lease and the result."""
    run: str
    task: str
    attempt: int = Field(ge=1)
    hub: str
    target: str
    base: str
    """Commit the work starts from."""
    title: str
    description: str = ""
    agent: AgentSpec
    files: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    limits: Limits = Limits()
    reasons: tuple[ReasonPack, ...] = ()
    issued_at: float
    """Unix seconds; also the date of the candidate commit, so that equal work gives an equal commit id."""
    start_by: float
    """Unix seconds after which a copy of this order still lying in a queue is answered as stale, not begun."""
    resent: bool = False
    """Sent once more, because nobody was seen to take it: look in the hub first for what may be done already."""


Outcome = Literal["candidate", "no_change", "verify_failed", "agent_failed", "limits_spent", "infrastructure"]


class WorkResult(Message):
    """A worker's answer to one order. Only a `candidate` may go on towards the target."""

    kind: Literal["work"] = "work"
    order_id: str
    token: str
    outcome: Outcome
    commit: str | None = None
    """The candidate, kept in the hub; set exactly when the outcome is `candidate`."""
    paths: tuple[str, ...] = ()
    """Every path the candidate adds, changes, deletes or renames (both names)."""
    detail: str = ""
    """One sentence for a person; for failures what went wrong."""
    log_tail: str = ""
    log: str = ""
    """Where the full log lies on the host that ran it."""
    claimed_summary: str = ""
    """What the agent says it did. Kept as a claim; never read by a decision."""
    spent: Spent = Spent()
    host: str = ""
    started_at: float = 0.0
    finished_at: float = 0.0

    @property
    def attempt(self) -> int:
        """The number of the attempt this answers, as its order's id has it."""
        return int(self.order_id.rpartition(".")[2])
