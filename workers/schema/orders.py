"""
What a worker is asked and what it answers.

Plain frozen values, JSON on the wire. Nothing here decides or acts. The reviews and checks a candidate is put
through have their own messages in `supervisor.messages`.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.mistakes import RelativePath
from forgepool.workers.schema.policy_rules import RuleEntry


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
    tokens: int | None = Field(default=None, gt=0)
    """Input and output together; cached input counts as input."""
    cost_usd: float | None = Field(default=None, gt=0)
    """What models may cost. No call is made that could lead beyond it; needs models whose price is known."""
    output_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    """Bytes of output kept on disk; what exceeds it is counted and dropped, never blocking the agent."""


class Spent(Message):
    """What one attempt used. `cost_usd` is None where it is not known, which is not the same as nothing."""

    seconds: float = 0.0
    turns: int = 0
    input_tokens: int = 0
    """All of it: fresh, read from a cache, written to one."""
    output_tokens: int = 0
    """All of it, reasoning included."""
    cached_tokens: int = 0
    """Of the input, what was read from the provider's cache."""
    cost_usd: float | None = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class CommandAgent(Message):
    """A shell command, run in the worktree, takes the place of a model: codemods, formatters, scripts."""

    kind: Literal["command"] = "command"
    run: str = Field(min_length=1)


class ScriptedAgent(Message):
    """The built-in model loop driven by a scripted model: honest replay of turns written by a person."""

    kind: Literal["scripted"] = "scripted"
    script: str = Field(min_length=1)
    """The YAML text of the script (the plan names a file; its text travels, so that any host can run it)."""


PhaseName = Literal["plan", "execute", "review"]
"""
What a model has a conversation for. PLAN and EXECUTE are an attempt's; REVIEW is another's, about its candidate.
"""


class BuiltinAgent(Message):
    """The built-in agent: a model led through PLAN and EXECUTE."""

    kind: Literal["builtin"] = "builtin"
    model: str | None = None
    """A model of the worker's model table; None leaves it to the table's routes, by the task's type."""
    models: dict[PhaseName, str] = Field(default_factory=dict)
    """A model for one phase alone."""
    red_first: bool = False
    """A failing test must have been seen, by the harness, before EXECUTE may finish."""
    hints: bool = True
    """Whether files likely to matter are named to it beforehand."""
    skill: str | None = None
    """A role of the built-in ones, or a skill of the repository's `.forgepool/skills/`."""
    context: str | None = None
    """The context profile its conversations are shown by; None is the worker's own."""


CliProgram = Literal["claude", "codex", "opencode", "aider"]


class CliAgent(Message):
    """A coding agent with a command line of its own, which edits in the worktree."""

    kind: Literal["cli"] = "cli"
    program: CliProgram
    model: str | None = None
    """As the program calls it; None is the program's own choice."""


AgentSpec = Annotated[CommandAgent | ScriptedAgent | BuiltinAgent | CliAgent, Field(discriminator="kind")]


class Prior(Message):
    """What a task that this one needs has come to."""

    task: str
    full: bool = False
    """Whether its whole result was asked for, and not the summary alone."""
    title: str = ""
    summary: str = ""
    """What its agent claimed."""
    commit: str = ""
    """As it landed."""
    paths: tuple[str, ...] = ()


class Reply(Message):
    """A person's answer to a question that parked an earlier order of the task."""

    question: str
    answer: str
    by: str = ""


ReasonKind = Literal[
    "check_failed",
    "conflict",
    "out_of_scope",
    "verify_failed",
    "no_change",
    "agent_failed",
    "refused",
    "limits",
    "findings",
    "review_failed",
    "rejected",
]
"""`findings`: of scans; `review_failed`: of a reviewer; `rejected`: by a person."""


class ReasonPack(Message):
    """
    Why an earlier attempt came back, for the next one. Facts from the harness; only of `findings` of a reviewer, of
    `tried` and of a rejection's words others are the authors.
    """

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
    findings: tuple[str, ...] = ()
    """What has to be mended, a sentence each with file and line; at most ten."""
    tests: tuple[str, ...] = ()
    """Ids of the tests that failed."""
    diff_tail: str = ""
    """The last 100 lines of what was judged."""
    tried: str = ""
    """What the attempt said it had done."""


class CachedFolder(Message):
    """A folder that a set-up fills, kept for as long as its lock file is the same."""

    folder: RelativePath
    key: RelativePath
    """The lock file whose content names the cache."""
    writable: bool = False
    """Commands write in it, so each checkout has a copy of its own; else it is read-only where it can be mounted."""


class Setup(Message):
    """A command that fills folders with what a checkout needs to be worked in."""

    name: str
    """Of the check it is written with."""
    run: str = Field(min_length=1)
    cache: tuple[CachedFolder, ...] = ()
    network: tuple[str, ...] = ()
    """Hosts that it may reach."""
    timeout_s: float = Field(default=900.0, gt=0)


Unattended = Literal["deny", "park"]
"""What becomes of a call that needs a person's yes: denied, or the task rests until somebody has answered."""


class Assets(Message):
    """Files beside the plan, in a commit that the hub keeps for the run."""

    commit: str
    paths: tuple[str, ...]


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
    type: str = "code"
    """The kind of work, by which a model is chosen."""
    agent: AgentSpec
    files: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    unchanged: Literal["ok", "fail"] = "fail"
    """`ok`: an attempt that changes nothing has done the task, if the acceptance commands are green."""
    env: dict[str, str] = Field(default_factory=dict)
    policy: tuple[RuleEntry, ...] = ()
    """The plan's rules for this task, laid over the person's and the repository's."""
    unattended: Unattended = "deny"
    network: tuple[str, ...] = ()
    """Hosts that commands may reach, as the plan has it and the policy lets it; none of them: no network."""
    context: str | None = None
    """The context profile that a person has chosen for it meanwhile; None leaves it to the agent's own."""
    assets: Assets | None = None
    """Files that its commands find in the folder `$FORGEPOOL_ASSETS`."""
    setups: tuple[Setup, ...] = ()
    """Of the plan's own checks; those of the repository's checks the worker finds in the base."""
    limits: Limits = Limits()
    reasons: tuple[ReasonPack, ...] = ()
    priors: tuple[Prior, ...] = ()
    """Of the tasks it needs, in the plan's order."""
    resumes: int | None = None
    """The attempt, interrupted through no fault of its own, whose conversation and files this one goes on with."""
    carried: Spent = Spent()
    """What the conversation it goes on with had used, as far as is known: `limits` are with that, and less where less
    of it is found."""
    replies: tuple[Reply, ...] = ()
    """What a person has answered to the task's questions, oldest first."""
    may_ask_paths: bool = False
    """Whether paths beyond `files` can be asked for; else a plan that names some is refused."""
    issued_at: float
    """Unix seconds; also the date of the candidate commit, so that equal work gives an equal commit id."""
    start_by: float
    """Unix seconds after which a copy of this order still lying in a queue is answered as stale, not begun."""
    resent: bool = False
    """Sent once more, because nobody was seen to take it: look in the hub first for what may be done already."""


Outcome = Literal[
    "candidate",
    "no_change",
    "out_of_scope",
    "verify_failed",
    "agent_failed",
    "limits_spent",
    "refused",
    "needs_human",
    "infrastructure",
]


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
    question: str = ""
    """What the agent asks a person. Empty where the outcome is `needs_human` because something has to be mended."""
    models: tuple[str, ...] = ()
    """Who answered, in the order in which they first did; empty where no model worked."""
    families: tuple[str, ...] = ()
    """Of these, by the worker's table; `unknown` for one that is not in it. No reviewer is of one of them."""
    planned: tuple[str, ...] = ()
    """The paths that its agent said it would change, where it said so."""
    spent: Spent = Spent()
    includes: tuple[int, ...] = ()
    """Earlier attempts, gone on with by this one, whose use is counted in `spent`."""
    carried: Spent | None = None
    """What these had used, as far as it is in `spent`; None where it is not known."""
    resumable: bool = False
    """Whether another attempt may go on from what this one left in the hub."""
    not_before: float | None = None
    """Unix seconds before which trying again is useless: a usage limit's reset. Costs no attempt, is no trouble."""
    host: str = ""
    sandbox: Level | None = None
    """What held the commands; None where none was run."""
    started_at: float = 0.0
    finished_at: float = 0.0

    @property
    def attempt(self) -> int:
        """The number of the attempt this answers, as its order's id has it."""
        return int(self.order_id.rpartition(".")[2])
