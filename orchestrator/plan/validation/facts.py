"""The values that validation is made of: faults, facts about the base, requirements and limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from forgepool.workers.agents.builtin.workflow import WorkflowPhase

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with a plan."""

    rule: str
    task: str = ""
    """Empty where the plan as a whole is at fault."""
    sentence: str
    line: int = 0
    """The line of the plan file; 0 for a fault without one."""
    level: Level = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseResult:
    """The result of one acceptance command on the commit that the plan starts from."""

    outcome: Literal["red", "green", "unknown"]
    why: str = ""
    """For `unknown`, why it gave no answer, as the end of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The forecast of a plan."""

    makespan_s: float
    """Seconds to the end, in the median of the simulated runs."""
    cost_usd: float | None
    """Dollars, in the dearest twentieth of them; None where the cost of some attempt is unknown."""
    most_usd: float | None = None
    """The sum of the limits of all attempts; None where one has no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """The facts about the base with which the rules compare a plan. A fact that is None silences its rules."""

    paths: Sequence[str]
    """The paths of the base's tree."""
    names: frozenset[str] | None = None
    """Those of the names that the plan's tasks put in backticks that occur in the base."""
    has_checks: bool = True
    """True when the target's gate file or the plan names checks."""
    protected: frozenset[str] = frozenset()
    """The paths of the tree that the gate protects from agents."""
    results: Mapping[tuple[str, str], BaseResult] = field(default_factory=dict)
    """The results on the base by task and acceptance command; what is missing was not run."""
    likely: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    """The files that each task changes with some probability, by the repository's past."""
    estimate: Estimate | None = None
    skills: frozenset[str] | None = None
    """The names of the skills that a built-in agent can be given."""
    models: frozenset[str] | None = None
    """The names of the models in the table; None where other hosts have the table."""
    workflows: Mapping[str, str] = field(default_factory=dict)
    """Why a task cannot have the workflow that it names, by task; those that can are left out."""
    phases: Mapping[str, Sequence[WorkflowPhase]] = field(default_factory=dict)
    """The phases of the workflow that a task names, by task."""
    wrong_skills: Mapping[str, str] = field(default_factory=dict)
    """The mistakes in the repository's own skill files, by the skill's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One demand of a goal, and the tasks that meet it."""

    id: str
    """A short name, such as `R1`."""
    text: str
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """The most that a plan may have or take."""

    files: int = 3
    """The most files that one task of a model should write."""
    cost_usd: float | None = None
    """None takes the plan's own budget."""
    makespan_s: float | None = None
