"""
What calls cost: the table's own prices, else published ones, from a package that brings them along. Never the network.

The package has an updater that would ask the network; nothing here starts it. A price that is not known is None and
never nothing: whoever adds up costs has to say that a sum is not known.
"""

from dataclasses import dataclass

from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.routing.router import ModelChoice
from forgepool.workers.llm.routing.table import Price, Table

_VENDORS = {
    "anthropic": "https://api.anthropic.com",
    "openai-responses": "https://api.openai.com",
    "openai-chat": "https://api.openai.com",
}
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """How a model is charged through one account."""

    own: Price | None
    """Of the table."""
    lists: tuple[str | None, ...]
    """Addresses of vendors whose lists are looked at in turn; None is the list of whoever makes the model."""
    id: str
    """As the account calls the model."""

    def cost_usd(self, usage: Usage) -> float | None:
        """None where no price is known, or the counts contradict one another."""
        if self.own is not None:
            return _by_own(self.own, usage)
        return next((cost for url in self.lists if (cost := _by_list(self.id, url, usage)) is not None), None)

    def worst_case_usd(self, input_tokens: int, max_output_tokens: int) -> float | None:
        """The most that a call can cost: nothing read from a cache, everything written to the one that costs most."""
        if input_tokens < 0 or max_output_tokens < 0:
            raise ValueError("tokens are counted from nothing up")
        ways = (
            Usage(input_tokens=input_tokens, output_tokens=max_output_tokens, written_tokens=w, written_1h_tokens=h)
            for w, h in ((0, 0), (input_tokens, 0), (input_tokens, input_tokens))
        )
        costs = [cost for way in ways if (cost := self.cost_usd(way)) is not None]
        return max(costs, default=None)

    def per_million_usd(self) -> tuple[float, float] | None:
        """What a million tokens of fresh input and of output cost, in a conversation that is not long."""
        given = self.cost_usd(Usage(input_tokens=1000))
        said = self.cost_usd(Usage(output_tokens=1000))
        return None if given is None or said is None else (given * 1000, said * 1000)


def tariff(table: Table, candidate: ModelChoice) -> Tariff:
    """
    The table's own price; else the list of the vendor at the account's address; else, of an account with a key, that of
    the model's maker: a gateway is taken to charge what the maker does, somebody's own server is not.
    """
    account = table.accounts[candidate.account]
    at = account.base_url or _VENDORS[account.wire]
    lists = (at, None) if account.key is not None else (at,)
    return Tariff(own=table.models[candidate.model].price, lists=lists, id=candidate.id)


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
