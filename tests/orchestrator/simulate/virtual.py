"""Terms for simulated plans, made with short calls."""

from collections.abc import Mapping
from typing import Any

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.simulate.world import PlanTerms


def terms(of: PlanIndex, work_s: Mapping[str, float] | float = 100.0, **said: Any) -> PlanTerms:
    """Return terms: by default checks take a minute and a landing a second, and nothing is red."""
    each = work_s if isinstance(work_s, Mapping) else dict.fromkeys(of.tasks, work_s)
    return PlanTerms(**{"workers": 2, "work_s": {one: (s,) for one, s in each.items()}, "bad": 0.0, **said})
