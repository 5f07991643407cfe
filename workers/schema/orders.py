"""Orders to workers and their results, as JSON. Messages of reviews and checks are in `supervisor.messages`."""

import shlex
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.mistakes import Progress, RelativePath
from forgepool.workers.schema.policy_rules import RuleEntry, ScanTerms, Unattended
from forgepool.workers.schema.reports import EarlierWork, LeadReply, LeadSaid, Prior, Report


class Message(BaseModel):
    """A frozen value that is sent to another process as JSON. It is compiled at its first use, or by `compile_all`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def encode(self) -> str:
        return self.model_dump_json()


def compile_all() -> None:
    """Compile all messages imported so far: once before a fork, and not once in each of the forked processes."""
    waiting = Message.__subclasses__()
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        model.model_rebuild()


class Limits(Message):
    """The limits of one attempt. None is no limit of that kind; wall clock and idle time are always limited."""

    wall_s: float = Field(default=3600.0, gt=0)
    idle_s: float = Field(default=900.0, gt=0)
    """Seconds without a byte of output and without a file changed, after which an agent counts as hung."""
    turns: int | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0)
    """Input and output together; cached input counts as input."""
    cost_usd: float | None = Field(default=None, gt=0)
    """Price of the model calls. No call starts that could exceed it; it needs models whose price is known."""
    output_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    """Bytes of output kept on disk; the rest is counted and dropped without blocking the agent."""


class Spent(Message):
    """The usage of one attempt. `cost_usd` is None where the price is unknown."""

    seconds: float = 0.0
    turns: int = 0
    input_tokens: int = 0
    """All input: fresh, read from a cache and written to a cache."""
    output_tokens: int = 0
    """All output, including reasoning."""
    cached_tokens: int = 0
    """The part of the input read from the provider's cache."""
    cost_usd: float | None = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def add_spent(one: Spent, other: Spent) -> Spent:
    known = one.cost_usd is not None and other.cost_usd is not None
    return Spent(
        seconds=one.seconds + other.seconds,
        turns=one.turns + other.turns,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        cost_usd=(one.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
    )


class CommandAgent(Message):
    """A shell command that works in the worktree in place of a model: a codemod, a formatter, a script."""

    kind: Literal["command"] = "command"
    run: str = Field(min_length=1)


class ScriptedAgent(Message):
    """The built-in agent driven by a scripted model, which replays turns that a person wrote."""

    kind: Literal["scripted"] = "scripted"
    script: str = Field(min_length=1)
    """The YAML text of the script, which the plan names by its file; the text travels, so that any host can run it."""


LimitKind = Literal["usd", "tokens"]
PhaseName = Literal["plan", "execute", "review"]
"""The purpose of a conversation: PLAN and EXECUTE belong to an attempt, REVIEW judges its candidate."""


class HintSettings(Message):
    """The files that the built-in agent is told of beforehand."""

    threshold: float = Field(default=0.3, ge=0, le=1)
    """The least probability, that the task changes the file, of one that is named."""
    most: int = Field(default=10, ge=1, le=100)
    model: Annotated[str, Field(min_length=1)] | None = None
    """A model of the worker's table that is asked as well; None leaves that to the route `hints`."""


class BuiltinAgent(Message):
    """The built-in agent, which leads a model through PLAN and EXECUTE."""

    kind: Literal["builtin"] = "builtin"
    model: str | None = None
    """A model of the worker's table; None lets the table's routes choose by the task's type."""
    models: dict[PhaseName, str] = Field(default_factory=dict)
    red_first: bool = False
    """The harness must see a failing test before EXECUTE may finish."""
    hints: bool | HintSettings = True
    """Tell the agent beforehand which files are likely to matter."""
    skill: str | None = None
    """A built-in role, or a skill from the repository's `.forgepool/skills/`."""
    context: str | None = None
    """The context profile of its conversations; None is the worker's own."""
    workflow: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """A built-in workflow, or one of the repository's `.forgepool/workflows/`; None is always the built-in `build`."""

    @property
    def wanted_hints(self) -> HintSettings:
        return self.hints if isinstance(self.hints, HintSettings) else HintSettings()


CliProgram = Literal["claude", "codex", "opencode", "aider"]


class CliAgent(Message):
    """A coding agent with its own command line, which edits the worktree."""

    kind: Literal["cli"] = "cli"
    program: CliProgram
    model: str | None = None
    """The model by the program's own name; None is the program's default."""


class AcpAgent(Message):
    """A coding agent that speaks the Agent Client Protocol on its standard input and output."""

    kind: Literal["acp"] = "acp"
    run: str
    """The program and its arguments, as in a shell; no shell runs it."""

    @property
    def program(self) -> str:
        return shlex.split(self.run)[0]


AgentSpec = Annotated[CommandAgent | ScriptedAgent | BuiltinAgent | CliAgent | AcpAgent, Field(discriminator="kind")]


class Reply(Message):
    """A person's answer to a question that parked an earlier order of the task; without a question, a note for it."""

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
"""`findings` come from scans, `review_failed` from a reviewer, `rejected` from a person."""


class ReasonPack(Message):
    """The reason an earlier attempt came back. All but findings, `tried` and words of a rejection is the harness's."""

    attempt: int
    kind: ReasonKind
    summary: str
    """One sentence that names what failed."""
    log_tail: str = ""
    conflicting_entry: str | None = None
    """The task it conflicts with, or fails together with, where known."""
    paths: tuple[str, ...] = ()
    reproduce: str = ""
    """A command that reproduces the failure on a clone of the hub."""
    findings: tuple[str, ...] = ()
    """At most ten sentences that say what to fix, each with file and line."""
    tests: tuple[str, ...] = ()
    """Ids of the failed tests."""
    diff_tail: str = ""
    """The last 100 lines of the judged diff."""
    tried: str = ""


class CachedFolder(Message):
    """A folder that a set-up fills and that is kept while its lock file stays the same."""

    folder: RelativePath
    key: RelativePath
    """The lock file whose content identifies the cache."""
    writable: bool = False
    """Commands write to it, so each checkout gets its own copy; otherwise it is mounted read-only where possible."""


class Setup(Message):
    """A command that fills folders which a checkout needs."""

    name: str
    """The name of the check that declares it."""
    run: str = Field(min_length=1)
    cache: tuple[CachedFolder, ...] = ()
    network: tuple[str, ...] = ()
    """Hosts it may reach."""
    timeout_s: float = Field(default=900.0, gt=0)


class Asset(Message):
    """One file, by its path below the plan file's folder."""

    path: str
    sha256: str
    executable: bool = False


class Assets(Message):
    """Files next to the plan, in a commit that the hub keeps for the run."""

    commit: str
    paths: tuple[str, ...]


class WorkOrder(Message):
    """One attempt at one task. It is complete: any worker that reaches the hub can carry it out."""

    order_id: str
    """`<run>.<task>.<attempt>`, which is unique; a second delivery of it does nothing."""
    token: str
    """A secret of this attempt that fences its lease and its result."""
    run: str
    task: str
    attempt: int = Field(ge=1)
    hub: str
    target: str
    base: str
    """The commit the work starts from."""
    anchor: str = ""
    """A ref that the hub has while the run lasts: a repository without it is not that hub. Empty for none."""
    title: str
    description: str = ""
    type: str = "code"
    """The kind of work, which decides the model."""
    agent: AgentSpec
    files: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    """Sentences that a reviewer will answer one by one."""
    answers: bool = False
    """It ends with a report, and changes nothing."""
    lead: tuple[LeadReply, ...] = ()
    """For a task that leads its run: reply 0, which tells the plan, and the last one. Any other task has none."""
    writes_nothing: bool = False
    """It declares that it writes no file, and does not answer."""
    unchanged: Literal["ok", "fail"] = "fail"
    """With `ok`, an attempt that changes nothing succeeds if the acceptance commands pass."""
    env: dict[str, str] = Field(default_factory=dict)
    policy: tuple[RuleEntry, ...] = ()
    """The plan's rules for this task, on top of the person's and the repository's."""
    unattended: Unattended = "deny"
    network: tuple[str, ...] = ()
    """Hosts that commands may reach, as the plan asks and the policy allows; empty is no network."""
    context: str | None = None
    """The context profile a person chose since; None keeps the agent's own."""
    assets: Assets | None = None
    """Files its commands find in `$FORGEPOOL_ASSETS`."""
    setups: tuple[Setup, ...] = ()
    """Set-ups of the plan's checks. The worker reads those of the repository's checks from the base."""
    scans: ScanTerms | None = None
    """None from an older version: the gate alone scans the work then."""
    limits: Limits = Limits()
    shared: tuple[LimitKind, ...] = ()
    """Its limits that are a part of the run's budget, for which the attempt may ask for more."""
    priced_usd: float | None = None
    """The most that its model calls with a known price may cost, where `limits` say nothing of money."""
    closed_accounts: tuple[str, ...] = Field(default=(), exclude_if=lambda accounts: not accounts)
    """Accounts that it may not ask: limits of the treasury that it has reserved nothing of."""
    reasons: tuple[ReasonPack, ...] = ()
    references: tuple[str, ...] = ()
    """Files of the base (`path`, `path:10-40`) whose text is given to its agent."""
    reads: tuple[str, ...] = ()
    """Globs of what it reads: references, too, for agents that do not look for themselves."""
    priors: tuple[Prior, ...] = ()
    """Results of the tasks it needs, in the plan's order."""
    resumes: int | None = None
    """The interrupted attempt whose conversation and files this one continues."""
    carried: Spent = Spent()
    """The known usage of the continued conversation. `limits` include it, and shrink where less of it is found."""
    mends: EarlierWork | None = None
    """The returned work that this attempt begins with, as uncommitted changes on its base."""
    replies: tuple[Reply, ...] = ()
    """A person's answers to the task's questions, oldest first."""
    progress: Progress = 30.0
    may_ask_paths: bool = False
    """The agent may ask for paths outside `files`; otherwise a plan that names some is refused."""
    issued_at: float
    """Unix seconds, also the date of the candidate commit, so that equal work gives an equal commit id."""
    start_by: float
    """Unix seconds after which a copy still in a queue is answered as stale."""
    resent: bool = False
    """Sent again because no worker confirmed it; the worker first looks in the hub for finished work."""


Outcome = Literal[
    "candidate",
    "reported",
    "waiting",
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
    """A worker's result for one order. Only a `candidate` can go on towards the target."""

    kind: Literal["work"] = "work"
    order_id: str
    token: str
    outcome: Outcome
    commit: str | None = None
    """The candidate, kept in the hub; set exactly when the outcome is `candidate`."""
    unverified: str | None = None
    """The commit of work that is no candidate and never lands. The hub keeps it, unless `withheld` says why not."""
    withheld: str = ""
    """Why that commit is on its host alone, or why there is none, as a sentence."""
    nothing_to_do: bool = False
    """With `no_change`: a committed plan gives the reason why nothing has to be changed."""
    paths: tuple[str, ...] = ()
    """Every path the candidate adds, changes, deletes or renames, with both names of a rename."""
    detail: str = ""
    """One sentence for a person: for a failure, the cause."""
    log_tail: str = ""
    log: str = ""
    """The path of the full log on the host that ran it."""
    claimed_summary: str = ""
    """The agent's own summary: a claim that no decision reads."""
    report: Report | None = None
    """Set exactly when the outcome is `reported`."""
    missing: tuple[str, ...] = ()
    """Gaps that the agent named in what it was given or could find."""
    lead: LeadSaid | None = None
    """Set for a task that leads its run."""
    question: str = ""
    """The agent's question to a person. A `needs_human` result without one asks for something to be fixed."""
    models: tuple[str, ...] = ()
    """The models that answered, in order of their first answer; empty where no model worked."""
    families: tuple[str, ...] = ()
    """The families of `models` in the worker's table, or `unknown`. No reviewer is from one of them."""
    planned: tuple[str, ...] = ()
    """Paths the agent said it would change, if it said so."""
    spent: Spent = Spent()
    waited_s: float = Field(default=0.0, exclude_if=lambda seconds: not seconds)
    """Seconds of waiting for accounts' rate limits, which count against no limit."""
    includes: tuple[int, ...] = ()
    """Earlier attempts that this one continues and whose usage is part of `spent`."""
    carried: Spent | None = None
    """The part of `spent` those attempts used; None where unknown."""
    resumable: bool = False
    """Another attempt can continue from what this one left in the hub."""
    mended: int | None = None
    """The attempt whose change it began with. None where the order named none, or the hub had that no longer."""
    unmended: bool = False
    """It left that change as it was."""
    lacks: bool = False
    """True where its host lacks a key or a program for it: another host may have that."""
    not_before: float | None = None
    """Unix seconds before which a retry is useless, such as the reset of a usage limit. This costs no attempt."""
    host: str = ""
    sandbox: Level | None = None
    """The sandbox that held the commands; None where none ran."""
    started_at: float = 0.0
    finished_at: float = 0.0

    @property
    def attempt(self) -> int:
        """Return the number of the answered attempt, from the order's id."""
        return int(self.order_id.rpartition(".")[2])
