"""
Where models are opened: the table, the keys of this process and its Redis become a chain that can be asked.

The one place where a wire's name becomes the adapter that speaks it. Adapters, and with them the vendors' kits, are
made when they are first asked.
"""

from functools import partial
from importlib import import_module
from typing import assert_never

from forgepool.workers.llm.provider import Endpoint, ModelFailed, Provider
from forgepool.workers.llm.routing.breaker import Breaker
from forgepool.workers.llm.routing.chain import Contender, ModelChain
from forgepool.workers.llm.routing.router import ModelChoice, RoutingQuestion, choose, tariff
from forgepool.workers.llm.routing.table import Table, read_table
from forgepool.workers.queue.broker import Redis, connect
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.settings import Settings, secret
from forgepool.workers.schema.yaml.mistakes import DocumentWrong

_NO_KEY = "none"
"""What is sent to a server that wants no key: the kits insist on one."""
_NO_PRICE = "its price is not known, and money is limited; give it a `price` in models.yaml"


def open_models(
    table: Table,
    *,
    task_type: str,
    phase: PhaseName,
    model: str | None = None,
    escalated: bool = False,
    capped: bool = False,
    settings: Settings,
) -> ModelChain:
    """
    Who is to be asked in a conversation. `capped`: its cost is limited, so that nobody without a known price is asked.

    Raises:
        ModelFailed: the model that a person named is none.
    """
    question = RoutingQuestion(task_type=task_type, phase=phase, model=model, escalated=escalated)
    choice = choose(table, question, keys=keys_present(table))
    if isinstance(choice, str):
        raise ModelFailed(choice, trouble="bad_request")
    return ModelChain(
        contenders=tuple(_contender(table, candidate, capped) for candidate in choice.candidates),
        breaker=Breaker(client=_client(settings)),
        why=choice.why,
        loyal=not escalated,
    )


def preload(settings: Settings) -> None:
    """
    Imports the kits of the vendors there are keys for. Whoever forks a process for each order does it once, before:
    the slower kit takes nearly two seconds.
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
    """The keys themselves, of all the table's accounts that have one here; for whoever must keep them out of texts."""
    names = {account.key for account in table.accounts.values() if account.key}
    return tuple(value for name in sorted(names) if (value := secret(name)) is not None)


def keys_present(table: Table) -> frozenset[str]:
    """The names of the table's variables that hold a key here."""
    return frozenset(account.key for account in table.accounts.values() if account.key and secret(account.key))


def _contender(table: Table, candidate: ModelChoice, capped: bool) -> Contender:
    charged = tariff(table, candidate)
    wanting = candidate.wanting
    if not wanting and capped and charged.worst_case_usd(1, 1) is None:
        wanting = _NO_PRICE
    return Contender(candidate=candidate, tariff=charged, open=partial(_adapter, table, candidate), wanting=wanting)


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


def _client(settings: Settings) -> Redis | None:
    return connect(settings.broker_url) if settings.broker_url else None
