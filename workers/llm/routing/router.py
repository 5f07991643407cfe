"""
Chooses and prices models for a kind of work. Pure: the table goes in, candidates and a sentence of why come out.

The order is: the model that the route or a person names, through each of its accounts; the route's other models,
usually of another family; the budget model. Only the presence of a key is known here, not whether a candidate can be
reached.
"""

from collections.abc import Collection
from dataclasses import dataclass

from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.routing.table import DEFAULT_TYPE, Price, Table, unknown
from forgepool.workers.schema.orders import PhaseName


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model through one of its accounts."""

    model: str
    """Our name for it."""
    account: str
    id: str
    """The account's name for it."""
    family: str
    wants_key: str | None = None
    """The variable that must hold a key and does not; None where nothing is missing."""

    @property
    def wanting(self) -> str:
        """How to make a candidate without a key usable; empty where it is."""
        return f"set {self.wants_key} in the worker's environment" if self.wants_key else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    candidates: tuple[ModelChoice, ...]
    """The candidates in order; those whose key is missing are among them."""
    why: str
    """One sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingQuestion:
    """The work that a model is wanted for."""

    task_type: str = DEFAULT_TYPE
    phase: PhaseName = "execute"
    model: str | None = None
    """A person's choice, in the place of the route's first."""
    escalated: bool = False
    """The first model made no headway: a stronger one, or an equal one of another family, goes first."""


def choose(table: Table, question: RoutingQuestion, *, keys: Collection[str]) -> Choice | str:
    """
    Return the candidates, or a sentence where a person named an unknown model. `keys` are the variables that hold a
    key.
    """
    if question.model is not None and question.model not in table.models:
        return unknown("model", question.model, table.models)
    models, why = _routed(table, question)
    if question.escalated:
        models, why = _escalated(table, models, keys)
    found = tuple(choice for model in models for choice in candidates(table, model, keys=keys))
    return Choice(candidates=found, why=why)


def candidates(table: Table, model: str, *, keys: Collection[str]) -> tuple[ModelChoice, ...]:
    """Return one model through each of its accounts."""
    found = []
    for place in table.places(model):
        key = table.accounts[place.account].key
        found.append(
            ModelChoice(
                model=model,
                account=place.account,
                id=place.id,
                family=table.models[model].family,
                wants_key=key if key is not None and key not in keys else None,
            )
        )
    return tuple(found)


def _routed(table: Table, question: RoutingQuestion) -> tuple[list[str], str]:
    """Return the models without repetition, and why the first is first."""
    kind = question.task_type if question.task_type in table.routes else DEFAULT_TYPE
    route = table.routes[kind]
    why = f"{kind}: {route.reason} ({route.source}, {route.date})"
    if kind != question.task_type:
        why = f"there is no route for '{question.task_type}', so it goes as {why}"
    first = route.primary
    if question.phase in route.phases:
        first = route.phases[question.phase]
        why = f"{why}; another in the phase {question.phase}"
    if question.model is not None:
        first, why = question.model, "named by a person"
    return list(dict.fromkeys((first, *route.then, table.budget))), f"{first}: {why}"


def _escalated(table: Table, models: list[str], keys: Collection[str]) -> tuple[list[str], str]:
    """Put the first model that may do better before all others, if there is one."""
    first = table.models[models[0]]
    others = [
        name for name in models[1:] if any(choice.wants_key is None for choice in candidates(table, name, keys=keys))
    ]
    stronger = [name for name in others if table.models[name].strength > first.strength]
    unlike = [
        name
        for name in others
        if table.models[name].strength == first.strength and table.models[name].family != first.family
    ]
    better = next(iter(stronger + unlike), None)
    if better is None:
        return models, f"{models[0]}: made no headway, but there is no stronger one after it, nor one as strong"
    kind = "stronger" if stronger else "as strong, and of another family"
    return [better, *(name for name in models if name != better)], f"{better}: {models[0]} made no headway; {kind}"


_VENDORS = {
    "anthropic": "https://api.anthropic.com",
    "openai-responses": "https://api.openai.com",
    "openai-chat": "https://api.openai.com",
}
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """The prices of a model through one account."""

    own: Price | None
    """The table's own price."""
    lists: tuple[str | None, ...]
    """Addresses of vendors whose price lists are tried in turn; None is the list of the model's maker."""
    id: str
    """The account's name for the model."""
    share: float = 1.0
    """The part of these prices that is charged: less than all in a batch lane."""

    def cost_usd(self, usage: Usage) -> float | None:
        """Return the cost; None where no price is known, or the counts contradict one another."""
        if self.own is not None:
            cost = _by_own(self.own, usage)
        else:
            cost = next((one for url in self.lists if (one := _by_list(self.id, url, usage)) is not None), None)
        return None if cost is None else cost * self.share

    def worst_case_usd(self, input_tokens: int, max_output_tokens: int) -> float | None:
        """
        Return the most that a call can cost: nothing read from a cache, everything written to the most
        expensive one.
        """
        if input_tokens < 0 or max_output_tokens < 0:
            raise ValueError("tokens are counted from nothing up")
        ways = (
            Usage(input_tokens=input_tokens, output_tokens=max_output_tokens, written_tokens=w, written_1h_tokens=h)
            for w, h in ((0, 0), (input_tokens, 0), (input_tokens, input_tokens))
        )
        costs = [cost for way in ways if (cost := self.cost_usd(way)) is not None]
        return max(costs, default=None)

    def per_million_usd(self) -> tuple[float, float] | None:
        """Return the price of a million tokens of fresh input and of output, in a short conversation."""
        input_cost = self.cost_usd(Usage(input_tokens=1000))
        output_cost = self.cost_usd(Usage(output_tokens=1000))
        return None if input_cost is None or output_cost is None else (input_cost * 1000, output_cost * 1000)


def tariff(table: Table, candidate: ModelChoice, *, batch: bool = False) -> Tariff:
    """
    Return a candidate's prices, of its account's batch lane if `batch`: the table's own, else the list of the vendor at
    the account's address.

    An account with a key then falls back on the list of the model's maker. A gateway is assumed to charge like the
    maker, a private server is not.
    """
    account = table.accounts[candidate.account]
    at = account.base_url or _VENDORS[account.wire]
    lists = (at, None) if account.key is not None else (at,)
    share = account.batch if batch and account.batch is not None else 1.0
    return Tariff(own=table.models[candidate.model].price, lists=lists, id=candidate.id, share=share)


def _by_own(price: Price, usage: Usage) -> float | None:
    if usage.fresh_tokens < 0:
        return None
    cached = price.input if price.cached is None else price.cached
    written = price.input if price.written is None else price.written
    given = usage.fresh_tokens * price.input + usage.cached_tokens * cached + usage.written_tokens * written
    return (given + usage.output_tokens * price.output) / _MILLION


def _by_list(model: str, url: str | None, usage: Usage) -> float | None:
    # Half a second, which orders without a model do not pay.
    import genai_prices

    counts = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.written_tokens,
        cache_write_1h_tokens=usage.written_1h_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        if url is None:
            return float(genai_prices.calc_price(counts, model).total_price)
        return float(genai_prices.calc_price(counts, model, provider_api_url=url).total_price)
    except (LookupError, ValueError):
        return None
