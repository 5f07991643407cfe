"""The values that validation is made of: faults, facts about the base, requirements and limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


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
    """For `unknown`, the reason why it could not be run to its end; for `red`, its first error line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The forecast of a plan."""

    makespan_s: float
    """Seconds to the end, by the median of the simulated runs."""
    cost_usd: float | None
    """The known cost in dollars, by the 95th percentile; None where no attempt has a known cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """The facts about the base that the rules compare a plan with. A fact that is None silences its rules."""

    paths: Sequence[str]
    """The paths of the base's tree."""
    names: frozenset[str] | None = None
    """The identifiers that occur in the base, of those that the plan's texts mention."""
    has_checks: bool = True
    """Whether the target's gate file names checks."""
    protected: frozenset[str] = frozenset()
    """Paths of the tree that the gate protects from agents."""
    results: Mapping[str, BaseResult] = field(default_factory=dict)
    """The result of each acceptance command that was run on the base."""
    estimate: Estimate | None = None
    skills: frozenset[str] | None = None
    """The names of skills that a built-in agent can be given."""
    models: frozenset[str] | None = None
    """The names of models in the table; None where other hosts have the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One demand of the goal, and the tasks that fulfil it."""

    id: str
    """A short name, such as `R1`."""
    text: str
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """The most that a plan may have or take."""

    files: int = 3
    """Files that one task of a model should write at most."""
    cost_usd: float | None = None
    """Dollars; None takes the plan's own budget."""
    makespan_s: float | None = None
    """Seconds; None is no limit."""


