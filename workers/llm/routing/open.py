"""
Opens models: the table, this process's keys and its Redis become a chain that can be asked.

This is the one place where a wire's name becomes an adapter. Adapters, and with them the vendors' kits, are made with
the first question.
"""

from collections.abc import Collection
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, assert_never, cast

from forgepool.workers.llm.batch import Batches
from forgepool.workers.llm.provider import Endpoint, ModelFailed, Provider
from forgepool.workers.llm.routing.breaker import Breaker
from forgepool.workers.llm.routing.chain import Contender, ModelChain
from forgepool.workers.llm.routing.pace import AccountPace, Paced
from forgepool.workers.llm.routing.router import ModelChoice, RoutingQuestion, choose, tariff
from forgepool.workers.llm.routing.table import Table, read_table
from forgepool.workers.queue.broker import Redis, connect
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.settings import Settings, secret

if TYPE_CHECKING:
    from forgepool.workers.llm.wires.anthropic import AnthropicMessages
    from forgepool.workers.llm.wires.openai_chat import OpenAIChat
    from forgepool.workers.llm.wires.openai_responses import OpenAIResponses

_NO_KEY = "none"
"""The key for a server that needs none: the kits insist on one."""
_CLOSED = "its account has a limit in treasury.yaml, and nothing of it is reserved for this; raise that limit"
_NO_PRICE = "its price is not known, and money is limited; give it a `price` in models.yaml"


def open_models(
    table: Table,
    *,
    task_type: str,
    phase: PhaseName,
    model: str | None = None,
    escalated: bool = False,
    capped: bool = False,
    closed: Collection[str] = (),
    run: str = "",
    settings: Settings,
) -> ModelChain:
    """
    Return the chain of models for a conversation. `capped`: its cost is limited, so models without a known price
    are not asked. Neither are `closed` accounts. `run` is the run that it is for: runs share the accounts' rate limits.

    Raises:
        ModelFailed: a person named a model that does not exist.
    """
    question = RoutingQuestion(task_type=task_type, phase=phase, model=model, escalated=escalated)
    choice = choose(table, question, keys=keys_present(table))
    if isinstance(choice, str):
        raise ModelFailed(choice, trouble="bad_request")
    breaker = Breaker(client=_client(settings))
    pace = AccountPace(breaker=breaker, run=run)
    return ModelChain(
        contenders=tuple(_contender(table, candidate, capped, closed, pace) for candidate in choice.candidates),
        breaker=breaker,
        why=choice.why,
        loyal=not escalated,
    )


def preload(settings: Settings) -> None:
    """
    Import the kits of the vendors with a key.

    A process that forks for each order calls it once before: the slower kit takes nearly two seconds.
    """
    try:
        table = read_table(settings.models_file)
    except DocumentWrong:
        return
    keys = keys_present(table)
    wires = {account.wire for account in table.accounts.values() if account.key is None or account.key in keys}
    for wire in sorted(wires):
        import_module("anthropic" if wire == "anthropic" else "openai")
    if wires:
        import_module("genai_prices")


def keys_of(table: Table) -> tuple[str, ...]:
    """Return the keys of all the table's accounts that this process has, so that they can be kept out of texts."""
    names = {account.key for account in table.accounts.values() if account.key}
    return tuple(value for name in sorted(names) if (value := secret(name)) is not None)


def keys_present(table: Table) -> frozenset[str]:
    """Return the names of the table's variables that hold a key here."""
    return frozenset(account.key for account in table.accounts.values() if account.key and secret(account.key))


def _contender(
    table: Table, candidate: ModelChoice, capped: bool, closed: Collection[str], pace: AccountPace
) -> Contender:
    charged = tariff(table, candidate)
    wanting = candidate.wanting
    if not wanting and capped and charged.worst_case_usd(1, 1) is None:
        wanting = _NO_PRICE
    if not wanting and candidate.account in closed:
        wanting = _CLOSED
    return Contender(candidate=candidate, tariff=charged, open=partial(_paced, table, candidate, pace), wanting=wanting)


def _paced(table: Table, candidate: ModelChoice, pace: AccountPace) -> Provider:
    return Paced(
        provider=_adapter(table, candidate),
        pace=pace,
        account=candidate.account,
        model=candidate.id,
        counts_cached=table.accounts[candidate.account].cached_input_counts,
    )


def _adapter(table: Table, candidate: ModelChoice) -> Provider:
    account, model = table.accounts[candidate.account], table.models[candidate.model]
    endpoint = Endpoint(
        model=candidate.id,
        api_key=secret(account.key) or "" if account.key else _NO_KEY,
        base_url=account.base_url,
        headers=account.headers,
        max_output_tokens=model.max_output_tokens,
        silence_s=account.silence_s,
        effort=model.effort,
        name=candidate.model,
        account=candidate.account,
    )
    match account.wire:
        case "anthropic":
            from forgepool.workers.llm.wires.anthropic import AnthropicMessages

            return AnthropicMessages(endpoint)
        case "openai-responses":
            from forgepool.workers.llm.wires.openai_responses import OpenAIResponses

            return OpenAIResponses(endpoint)
        case "openai-chat":
            from forgepool.workers.llm.wires.openai_chat import OpenAIChat

            return OpenAIChat(endpoint)
        case other:
            assert_never(other)


def open_batches(table: Table, candidate: ModelChoice) -> Batches:
    """Return the batch lane of a model's account."""
    live = _adapter(table, candidate)
    if table.accounts[candidate.account].wire == "anthropic":
        from forgepool.workers.llm.wires.anthropic_batch import AnthropicBatches

        return AnthropicBatches(cast("AnthropicMessages", live))
    from forgepool.workers.llm.wires.openai_batch import OpenAIBatches

    return OpenAIBatches(cast("OpenAIResponses | OpenAIChat", live))


def _client(settings: Settings) -> Redis | None:
    return connect(settings.broker_url) if settings.broker_url else None
