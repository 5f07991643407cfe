"""
What models were used for a task or a run, how much of them, and what they cost: added up from the attempts. Pure.

An attempt that another one includes counts with that one. What has no price is said to be so: unknown is not nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from orchestrator.budget import Ledger, Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    models: tuple[str, ...] = ()
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, what came from the providers' caches."""
    cost_usd: float | None = 0.0
    """None where something of it is not known."""
    priced_usd: float = 0.0
    """The part of the cost that is known."""
    unpriced_attempts: int = 0
    unanswered_attempts: int = 0
    """Under way, or lost: what they used is not in here."""

    @property
    def counts(self) -> bool:
        """Whether anything was used that is worth a number."""
        return bool(self.input_tokens or self.output_tokens) or self.cost_usd != 0.0

    @property
    def cached_share(self) -> float:
        """0 to 1."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0


def bill(uses: Iterable[Use]) -> Bill:
    counted = [use for use in uses if use.part_of is None]
    spent = [use.spent for use in counted if use.spent is not None]
    costs = [one.cost_usd for one in spent]
    priced = sum(cost for cost in costs if cost is not None)
    unpriced = costs.count(None)
    return Bill(
        models=tuple(dict.fromkeys(model for use in counted for model in use.models)),
        turns=sum(one.turns for one in spent),
        input_tokens=sum(one.input_tokens for one in spent),
        output_tokens=sum(one.output_tokens for one in spent),
        cached_tokens=sum(one.cached_tokens for one in spent),
        cost_usd=None if unpriced else priced,
        priced_usd=priced,
        unpriced_attempts=unpriced,
        unanswered_attempts=sum(use.spent is None for use in counted),
    )


def bill_words(of: Bill) -> str:
    """
    `claude-x: 12,345 tokens in (80% cached), 678 out, 0.12 USD`. The models alone where nothing was counted, as with
    the scripted one; empty where no model was used.
    """
    if not of.counts:
        return ", ".join(of.models)
    cached = f" ({of.cached_share:.0%} cached)" if of.cached_tokens else ""
    tokens = f"{of.input_tokens:,} tokens in{cached}, {of.output_tokens:,} out, {cost_words(of)}"
    return f"{', '.join(of.models)}: {tokens}" if of.models else tokens


def cost_words(of: Bill) -> str:
    if of.cost_usd is not None:
        return f"{of.cost_usd:.2f} USD"
    return f"cost unknown (known part: {of.priced_usd:.2f} USD)" if of.priced_usd else "cost unknown"


def budget_words(ledger: Ledger) -> Iterator[str]:
    """How each kind of budget that is capped stands."""
    if ledger.cap.usd is not None:
        yield f"{ledger.usd:.2f} of {ledger.cap.usd:.2f} USD spent or reserved"
    if ledger.cap.tokens is not None:
        yield f"{ledger.tokens:,} of {ledger.cap.tokens:,} tokens spent or reserved"
