"""What happens to a run as a whole."""

from typing import Literal

from forgepool.orchestrator.plan.budget import Budget
from forgepool.workers.schema.confinement import Level
from forgepool.workers.schema.orders import Message


class RunStarted(Message):
    kind: Literal["run.started"] = "run.started"
    run: str
    plan_digest: str
    hub: str
    target: str
    tip: str
    """The target's commit when the run began."""
    gate_file: bool = False
    """Whether the target had a gate file then; losing it later shuts the gate."""
    sandbox: Level | None = None
    """What holds commands, where they run on this machine; of other hosts each result says it."""
    gate: str = ""
    """The gate that keeps the target, to which candidates are given; empty for a train of its own."""
    assets: str = ""
    """The commit of the files beside the plan that tasks are given; empty where there are none."""
    base_first: bool = False
    """The target is checked before the first call to a model that somebody pays for."""


class RunResumed(Message):
    kind: Literal["run.resumed"] = "run.resumed"
    tip: str
    sandbox: Level | None = None
    gate: str | None = None
    """As of `RunStarted`; None where that stays as it was."""


class RunPaused(Message):
    kind: Literal["run.paused"] = "run.paused"
    why: str


class RunEnded(Message):
    kind: Literal["run.ended"] = "run.ended"
    landed: int
    not_landed: int
    """Tasks that are not done. In earlier journals: all that did not land."""
    unchanged: int = 0
    already_there: int = 0


class BudgetSet(Message):
    """A person has given the run another budget than its plan's."""

    kind: Literal["budget.set"] = "budget.set"
    budget: Budget


class PlanRevised(Message):
    """A person has given the run another plan, which is kept in its folder beside the first."""

    kind: Literal["plan.revised"] = "plan.revised"
    plan_file: str
    """In the run's folder."""
    plan_digest: str
    tasks: tuple[str, ...]
    """All tasks of the run from now on, in the plan's order."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """None of them has landed."""
    afresh: tuple[str, ...] = ()
    """Changed tasks, which begin again with all their attempts."""
    reopened: tuple[str, ...] = ()
    """Tasks that were blocked by one of these, and wait for it again."""
    assets: str = ""
    """The commit of the plan's assets; empty if it has none."""


class GateHalted(Message):
    """The target itself is red, or refuses us: nothing more is let in until a person has seen to it."""

    kind: Literal["gate.halted"] = "gate.halted"
    why: str
    infrastructure: bool = False
    reviewed: bool = False
    """It is the review of a wave that shut it: a person's word on that opens it."""


class WorkersMissing(Message):
    """Messages wait in a queue that no worker listens to."""

    kind: Literal["workers.missing"] = "workers.missing"
    queue: str


class PartRestarted(Message):
    """Part of a one-machine run (its Redis, a worker) died and was started again."""

    kind: Literal["part.restarted"] = "part.restarted"
    part: str
