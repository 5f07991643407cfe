"""
The state of one task: where it is on its road, and what it holds. What may change it is in `state` and its steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from forgepool.orchestrator.journal.ask_events import Ask
from forgepool.orchestrator.journal.events import ParkedFor, WorkKept
from forgepool.orchestrator.journal.queue_events import GateAnswer
from forgepool.orchestrator.journal.task_events import BeginsFrom
from forgepool.orchestrator.plan.budget import MoneyAsk, Use
from forgepool.orchestrator.state.review import Outstanding, ReviewState
from forgepool.orchestrator.state.streaks import pause_s
from forgepool.supervisor.messages.answers import (
    Approval,
    Certificate,
    CheckResult,
    ReviewApproval,
)
from forgepool.workers.schema.orders import ReasonPack, Reply, WorkResult
from forgepool.workers.schema.reports import Report

Phase = Literal[
    "pending",
    "running",
    "waiting",
    "answered",
    "candidate",
    "queued",
    "testing",
    "reviewing",
    "reviewed",
    "given",
    "landing",
    "landed",
    "no_changes",
    "reported",
    "already_there",
    "failed",
    "blocked",
    "cancelled",
    "needs_human",
]
"""
`pending` holds no lock and waits for needs, locks or a slot. `waiting` is the run's lead, which rests for a reply.
`answered` and `reviewed` last one turn of the loop, until the next step is decided; in the latter a reviewer has not
let it through. `candidate` waits for a lock on paths it touched undeclared, `reviewing` for its approval, with no slot
at the gate. `queued` stands in the train; `testing` does too, with a trial under way; `given` stands in the queue that
serves the target. `no_changes` is an attempt that ended well and had nothing to change, `reported` one that gave the
answer it was asked for. The work of `already_there` was landed by an earlier run.
"""

IN_FLIGHT: frozenset[Phase] = frozenset(
    ("running", "answered", "candidate", "queued", "testing", "reviewing", "reviewed", "given", "landing")
)
IN_TRAIN: frozenset[Phase] = frozenset(("queued", "testing", "reviewing", "landing"))
MAY_BE_REVIEWED: frozenset[Phase] = frozenset(("queued", "testing", "reviewing"))
"""In which a review may be under way. That of a lead's synthesis is while it is `reported`."""
DONE: frozenset[Phase] = frozenset(("landed", "no_changes", "reported", "already_there"))
"""Phases that satisfy a need."""
TERMINAL: frozenset[Phase] = DONE | frozenset(("failed", "blocked", "cancelled", "needs_human"))

RETRIABLE: tuple[Phase, ...] = tuple(sorted(TERMINAL - {"landed"}))
"""Phases from which a person may have a task tried again."""

MOST_TROUBLES = 12
"""Times in a row that infrastructure may fail a task before a person is asked; with back-off about eight minutes."""


class IllegalStep(Exception):
    """An event that cannot happen to this task now."""


@dataclass(slots=True, kw_only=True)
class TaskState:
    """One task as the events so far have left it."""

    id: str
    phase: Phase = "pending"
    attempt: int = 0
    """The attempt in front: the newest one, but where two have raced."""
    newest: int = 0
    """The newest attempt that has begun a race."""
    races: bool = False
    """Another attempt works beside the one in front; `RunState.racers` has it."""
    withdrawn: tuple[int, ...] = ()
    """Attempts that raced, and were not needed any more."""
    rung: int = 0
    """The place, from 1, in the ladder of the model of an attempt beside another."""
    charged: int = 0
    """Attempts that count: those lost to infrastructure do not."""
    moved: int = 0
    """Attempts that came back because others had landed meanwhile; they do not count either."""
    troubles: int = 0
    """Failures of infrastructure in a row."""
    lost: int = 0
    """Orders lost in a row."""
    waits: int = 0
    """Times in a row that it was to wait for a model's usage limit."""
    not_before: float = 0.0
    """Unix seconds before which it is not tried again, after infrastructure failed it."""
    limit_until: float = 0.0
    """Unix seconds at which the usage limit ends that it waits for; 0 where it waits for none."""
    overtaken: int = 0
    """Starts that have passed it by while only locks held it up."""
    checks: int = 0
    landings: int = 0
    intended: tuple[str, ...] = ()
    """Commits that were to land for its candidate and may have: the one under way, and those whose lander vanished."""
    base: str = ""
    resumes: int | None = None
    """The attempt from which the order under way goes on."""
    mends: int | None = None
    """The attempt whose work the last order began with."""
    begins: BeginsFrom = ""
    """A person's word on what it begins with, until its next attempt is judged."""
    judged_on: str = ""
    """The target's tip when its last attempt came back."""
    interrupted: int | None = None
    """The attempt that the next order may go on from, on the base that one had."""
    interrupted_base: str = ""
    interrupted_paths: tuple[str, ...] = ()
    """Known paths beyond the declared globs that the interrupted attempts have touched or held."""
    based_at: int = 0
    """Number of the event by which its base was the target's tip: its order's, or that of the first it goes on from."""
    over: int = 0
    """The newest attempt that a person has ended, or that asked one: it and those before it bring no candidate more."""
    message: Outstanding | None = None
    """The order under way."""
    holder: str = ""
    """`host/pid` of the worker that has the message, once one is seen to."""
    sent_to: str = ""
    """The host that the order under way was sent to; empty where any may take it."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Hosts that have shown that they lack a key or a program for it, with what each said."""
    result: WorkResult | None = None
    works: dict[int, WorkKept] = field(default_factory=dict)
    """By attempt, the files it has left."""
    extra: tuple[str, ...] = ()
    """Paths held beyond the declared globs."""
    wanted: tuple[str, ...] = ()
    """Paths it asked for while others held them: it starts when they are free, and then holds them."""
    asks: dict[int, Ask] = field(default_factory=dict)
    """By number, what the attempt under way has asked for."""
    money: MoneyAsk | None = None
    """Its open request for more of the budget."""
    queued_at: int = 0
    """Number of the event that first put it into the train; kept over requeues."""
    kept: bool = False
    """It was given up or waited for a person, and its candidate is to go on when its lock is free again."""
    reviewed: bool = False
    """Its candidate may not land without an approval: the plan wants one, or the target does."""
    review: ReviewState = field(default_factory=ReviewState)
    verdict: CheckResult | None = None
    certificates: tuple[Certificate, ...] = ()
    given: int = 0
    """How often candidates of it were given to a gate; numbers the next one."""
    given_on: str = ""
    """The target's tip as it was known at the first of these: what that contains is nothing of this task's."""
    recalled: bool = False
    """A person wants it back from there."""
    told: GateAnswer | None = None
    """The queue's last answer about its candidate."""
    commit: str = ""
    """The commit that landed."""
    report: Report | None = None
    """Its answer, while that stands."""
    landed_at: int = 0
    """Number of the event with which it landed."""
    reasons: tuple[ReasonPack, ...] = ()
    parked_for: ParkedFor | None = None
    question: str = ""
    """The question an agent asks a person; empty where there is none."""
    replies: tuple[Reply, ...] = ()
    uses: dict[int, Use] = field(default_factory=dict)
    """By attempt."""
    profile: str = ""
    """The context profile that a person has chosen for it; empty where none has."""
    rebuilds: int = 0
    """How often the context of its attempts was rebuilt, as far as was told."""
    context_share: float = 0.0
    """The share of the window that the context of its attempt filled when that was last told."""
    blocked_by: str = ""
    """The need that did not land; only while it is blocked."""
    detail: str = ""
    """One sentence on how it came to be where it is."""
    since: float = 0.0
    work_spans: tuple[tuple[float, float], ...] = ()
    """When each order was sent, and when it ended; 0 while it is under way."""
    first_started: float = 0.0
    ended: float = 0.0
    landed_on_host: str = ""
    entered: "Callable[[TaskState, Phase], None] | None" = field(default=None, repr=False, compare=False)
    """Called with the task and the phase that it has left, whenever it enters one."""

    @property
    def last_attempt(self) -> int:
        """Return the number of orders sent so far."""
        return max(self.attempt, self.newest)

    @property
    def messages(self) -> tuple[Outstanding, ...]:
        """Return the messages whose answers it waits for."""
        return tuple(one for one in (self.message, self.review.message) if one is not None)

    @property
    def candidate(self) -> str:
        """The commit of its last candidate; empty where its last attempt made none, and while another is under way."""
        return (self.result.commit or "") if self.result is not None and self.result.outcome == "candidate" else ""

    @property
    def landing_in_doubt(self) -> bool:
        """A lander vanished, or the hub died on it: the target may have moved, and may still."""
        return bool(self.intended) and self.phase != "landing"

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the gaps that its last agent named in what it was given or could find."""
        return () if self.result is None else self.result.missing

    @property
    def made_by(self) -> int:
        """The attempt that made its candidate: not the latest, where a late one was adopted in its place."""
        return self.result.attempt if self.result is not None else self.attempt

    def approval(self, result: CheckResult, at: int = -1) -> Approval | None:
        """
        Return the approval that lets its candidate land as these checks composed it, at that place of their spec (-1:
        the last).
        """
        if not self.candidate:
            return None
        patch = result.patch_ids[at] if result.patch_ids else result.patch_id
        return self.review.approval(self.candidate, patch)

    def approves(self, approval: Approval) -> bool:
        """Tell whether that approval is about its candidate; the lander compares the diff itself."""
        patch = approval.patch_id if isinstance(approval, ReviewApproval) else ""
        return bool(self.candidate) and self.review.approval(self.candidate, patch) == approval

    @property
    def restorable(self) -> bool:
        """It waits for its lock alone, and for no attempt: its candidate goes on."""
        return self.phase == "pending" and self.kept

    def enter(self, phase: Phase, at: float) -> None:
        """Enter a phase. Outside of flight it keeps only its declared globs."""
        was, self.phase, self.since, self.holder = self.phase, phase, at, ""
        if was == "running" and self.work_spans:
            self.work_spans = (*self.work_spans[:-1], (self.work_spans[-1][0], at))
        if phase == "running":
            self.work_spans = (*self.work_spans, (at, 0.0))
        if phase not in MAY_BE_REVIEWED:
            self.review.let_go()
        if phase not in IN_FLIGHT:
            self.extra, self.asks, self.money = (), {}, None
        if phase in DONE or phase == "failed":
            self.wanted = ()
        if phase in TERMINAL:
            self.ended = at
        if self.entered is not None:
            self.entered(self, was)

    def fall_into_trouble(self, detail: str, at: float) -> None:
        """Count a failure that is not the task's: it is retried after a pause that doubles up to a minute."""
        self.troubles += 1
        self.detail = detail
        self.not_before = at + pause_s(self.troubles)

    def wait_for_limit(self, until: float, detail: str, at: float) -> None:
        """A model's usage limit: no trouble. A reset that was stated wrongly, again and again, is asked less often."""
        self.waits += 1
        self.detail = detail
        self.not_before = self.limit_until = max(until, at + pause_s(self.waits))
