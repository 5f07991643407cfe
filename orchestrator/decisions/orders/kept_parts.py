"""The part of a budget that is kept apart for a lead. Pure."""

import math
from collections.abc import Callable, Iterable

from forgepool.orchestrator.plan.budget import Budget, Reservation, Use
from forgepool.workers.schema.orders import Spent

_KEPT_SHARE, _KEPT_CALLS, MOST_KEPT = 0.10, 3, 0.25


def keep_apart(cap: Budget, uses: Iterable[Use]) -> Reservation:
    """
    Return what is kept apart for a lead with these uses, so that it can always write its brief.

    This is a tenth of the cap, less what it has used and what is reserved for it; at least three of its average calls,
    as far as their use is known, and at most a quarter of the cap.
    """
    every = list(uses)
    usd = _kept(cap.usd, sum(use.counted_usd for use in every), every, lambda spent: spent.cost_usd)
    tokens = _kept(cap.tokens, sum(use.counted_tokens for use in every), every, lambda spent: spent.tokens)
    return Reservation(usd=usd, tokens=None if tokens is None else math.ceil(tokens))


def _kept(
    cap: float | None, counted: float, uses: Iterable[Use], kind: Callable[[Spent], float | None]
) -> float | None:
    if cap is None:
        return None
    known = [(amount, use.own.turns) for use in uses if use.own is not None and (amount := kind(use.own)) is not None]
    turns = sum(each for _, each in known)
    calls = _KEPT_CALLS * sum(amount for amount, _ in known) / turns if turns else 0.0
    return min(max(_KEPT_SHARE * cap - counted, calls), MOST_KEPT * cap)
