"""
The state of one task: where it is on its road, and what it holds. What may change it is in `state` and its steps.
"""

from dataclasses import dataclass, field
from typing import Literal

from forgepool.orchestrator.journal.events import ParkedFor
from forgepool.orchestrator.journal.queue_events import GateAnswer
from forgepool.orchestrator.plan.budget import Use
from forgepool.orchestrator.state.pending import Outstanding, pause_s
from forgepool.orchestrator.state.review import ReviewState
from forgepool.supervisor.messages import Approval, Certificate, CheckResult, ReviewApproval
from forgepool.workers.schema.orders import ReasonPack, Reply, WorkResult

Phase = Literal[
    "pending",
    "running",
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
    "already_there",
    "failed",
    "blocked",
    "cancelled",
    "needs_human",
]
"""
`pending` holds no lock and waits for needs, locks or a slot. `answered` and `reviewed` last no longer than one turn of
the loop, until it is decided what follows; in the latter a reviewer has not let it through. `candidate` waits for a
lock on paths it touched undeclared, `reviewing` for its approval, with no slot at the gate. `queued` stands in the
train, and so does `testing`, of which a trial is out; `given` stands in that of the gate that keeps the target.
`no_changes` is an attempt that ended well and had nothing to change; the work of `already_there` was landed by an
earlier run.
"""

IN_FLIGHT: frozenset[Phase] = frozenset(
    ("running", "answered", "candidate", "queued", "testing", "reviewing", "reviewed", "given", "landing")
)
IN_TRAIN: frozenset[Phase] = frozenset(("queued", "testing", "reviewing", "landing"))
MAY_BE_REVIEWED: frozenset[Phase] = frozenset(("queued", "testing", "reviewing"))
"""In which a review may be under way."""
DONE: frozenset[Phase] = frozenset(("landed", "no_changes", "already_there"))
"""Phases that satisfy a need."""
TERMINAL: frozenset[Phase] = DONE | frozenset(("failed", "blocked", "cancelled", "needs_human"))

RETRIABLE: tuple[Phase, ...] = ("no_changes", "already_there", "failed", "blocked", "cancelled", "needs_human")
"""Phases from which a person may have a task tried again."""

MOST_TROUBLES = 12
"""Times in a row that infrastructure may fail a task before a person is asked; with back-off about eight minutes."""


class IllegalStep(Exception):
    """An event that cannot happen to this task now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Paths that a running attempt wants besides those it holds, and what it was told."""

    number: int
    paths: tuple[str, ...]
    at: float
    verdict: Literal["granted", "queued", "refused"] | None = None
    """None for no longer than one turn of the loop."""
    why: str = ""


@dataclass(slots=True, kw_only=True)
class TaskState:
    """One task as the events so far have left it."""

    id: str
    phase: Phase = "pending"
    attempt: int = 0
    """Orders sent so far; numbers the next one."""
    charged: int = 0
    """Attempts that count: those lost to infrastructure do not."""
    moved: int = 0
    """Attempts of a command that came back because others had landed meanwhile; they do not count either."""
    troubles: int = 0
    """Failures of infrastructure in a row."""
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
    """Of the order under way: the attempt it goes on from."""
    interrupted: int | None = None
    """The attempt that the next order may go on from, on the base that one had."""
    interrupted_base: str = ""
    interrupted_paths: tuple[str, ...] = ()
    """What it, and those that it went on from itself, are known to have touched or held beyond the declared globs."""
    based_at: int = 0
    """Number of the event by which its base was the target's tip: its order's, or that of the first it goes on from."""
    over: int = 0
    """The newest attempt that a person has ended, or that asked one: it and those before it bring no candidate more."""
    message: Outstanding | None = None
    """The order under way."""
    holder: str = ""
    """`host/pid` of the worker that has the message, once one is seen to."""
    result: WorkResult | None = None
    extra: tuple[str, ...] = ()
    """Paths held beyond the declared globs."""
    wanted: tuple[str, ...] = ()
    """Paths it asked for while others held them: it starts when they are free, and then holds them."""
    asks: dict[int, Ask] = field(default_factory=dict)
    """By number, what the attempt under way has asked for."""
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
    """What the gate said of the one it has, or had, last."""
    commit: str = ""
    """The commit that landed."""
    landed_at: int = 0
    """Number of the event with which it landed."""
    reasons: tuple[ReasonPack, ...] = ()
    parked_for: ParkedFor | None = None
    question: str = ""
    """What an agent asks a person; empty where none does."""
    replies: tuple[Reply, ...] = ()
    uses: dict[int, Use] = field(default_factory=dict)
    """By attempt."""
    profile: str = ""
    """The context profile that a person has chosen for it; empty where none has."""
    rebuilds: int = 0
    """How often the context of its attempts was rebuilt, as far as was told."""
    detail: str = ""
    """One sentence on how it came to be where it is."""
    since: float = 0.0
    first_started: float = 0.0
    ended: float = 0.0
    landed_on_host: str = ""

    @property
    def messages(self) -> tuple[Outstanding, ...]:
        """What is owed to it."""
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
    def made_by(self) -> int:
        """The attempt that made its candidate: not the latest, where a late one was adopted in its place."""
        return self.result.attempt if self.result is not None else self.attempt

    def approval(self, result: CheckResult, at: int = -1) -> Approval | None:
        """What lets its candidate land as these checks have composed it, at that place of their spec (-1: the last)."""
        if not self.candidate:
            return None
        patch = result.patch_ids[at] if result.patch_ids else result.patch_id
        return self.review.approval(self.candidate, patch)

    def approves(self, approval: Approval) -> bool:
        """Whether that has been said of its candidate; of which diff, the lander looks itself."""
        patch = approval.patch_id if isinstance(approval, ReviewApproval) else ""
        return bool(self.candidate) and self.review.approval(self.candidate, patch) == approval

    @property
    def restorable(self) -> bool:
        """It waits for its lock alone, and for no attempt: its candidate goes on."""
        return self.phase == "pending" and self.kept

    def enter(self, phase: Phase, at: float) -> None:
        """Out of flight, whatever it held besides its declared globs is another's to take."""
        self.phase, self.since, self.holder = phase, at, ""
        if phase not in MAY_BE_REVIEWED:
            self.review.let_go()
        if phase not in IN_FLIGHT:
            self.extra, self.asks = (), {}
        if phase in DONE or phase == "failed":
            self.wanted = ()
        if phase in TERMINAL:
            self.ended = at

    def fall_into_trouble(self, detail: str, at: float) -> None:
        """Infrastructure failed it: nobody's fault, tried again after a pause that doubles up to a minute."""
        self.troubles += 1
        self.detail = detail
        self.not_before = at + pause_s(self.troubles)

    def wait_for_limit(self, until: float, detail: str, at: float) -> None:
        """A model's usage limit: no trouble. A reset that was stated wrongly, again and again, is asked less often."""
        self.waits += 1
        self.detail = detail
        self.not_before = self.limit_until = max(until, at + pause_s(self.waits))
