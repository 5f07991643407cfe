"""`forgepool models`: which models this machine knows, which it has keys for, and who is asked for what."""

from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import say, say_json
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.workers.llm.routing.open import keys_present
from forgepool.workers.llm.routing.router import ModelChoice, candidates, tariff
from forgepool.workers.llm.routing.table import ModelAccount, Route, Table, read_table
from forgepool.workers.schema.settings import Settings, secret


def register(app: typer.Typer) -> None:
    app.command()(models)


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> int:
    """Say which models can be asked, what they cost, and which of them does what kind of work."""
    own = Settings().models_file
    known = read_table(own)
    keys = keys_present(known)
    rows = [_row(known, one) for model in known.models for one in candidates(known, model, keys=keys)]
    if as_json:
        routes = {kind: route.model_dump(mode="json") for kind, route in known.routes.items()}
        say_json({"file": str(own) if own else None, "models": rows, "routes": routes, "budget": known.budget})
    else:
        _tell(known, rows, str(own) if own else "")
    return 0


def _row(known: Table, candidate: ModelChoice) -> dict[str, object]:
    model, account = known.models[candidate.model], known.accounts[candidate.account]
    price = tariff(known, candidate).per_million_usd()
    return {
        "model": candidate.model,
        "family": candidate.family,
        "account": candidate.account,
        "id": candidate.id,
        "wire": account.wire,
        "key": account.key,
        "key_present": candidate.wants_key is None,
        "window_tokens": model.window_tokens,
        "max_output_tokens": model.max_output_tokens,
        "strength": model.strength,
        "input_usd_per_million": price[0] if price else None,
        "output_usd_per_million": price[1] if price else None,
    }


def _tell(known: Table, rows: list[dict[str, object]], own: str) -> None:
    say("Accounts")
    print_table(("account", "wire", "key"), [_account(name, one) for name, one in known.accounts.items()])
    say("\nModels, with USD for a million tokens")
    columns = ("model", "family", "asked through", "window", "input", "output")
    print_table(columns, [_model(known, name, rows) for name in known.models])
    say("\nWho is asked for which type of task; any other type goes as code")
    print_table(("type", "model", "then", "why"), [_route(kind, one) for kind, one in known.routes.items()])
    say(f"\nWhen all of these have failed: {known.budget}")
    say(f"{own} is laid over what is shipped" if own else "As shipped; docs/how-to/models.md says how to have your own")


def _account(name: str, account: ModelAccount) -> tuple[str, ...]:
    if account.key is None:
        return name, account.wire, "none needed"
    return name, account.wire, f"{account.key} {'is set' if secret(account.key) else 'is not set'}"


def _model(known: Table, name: str, rows: list[dict[str, object]]) -> tuple[str, ...]:
    own = [row for row in rows if row["model"] == name]
    through = ", ".join(f"{row['account']}{'' if row['key_present'] else ' (no key)'}" for row in own)
    model = known.models[name]
    prices = (own[0]["input_usd_per_million"], own[0]["output_usd_per_million"])
    shown = tuple("not known" if price is None else f"{price:g}" for price in prices)
    return name, model.family, through, f"{model.window_tokens:,}", *shown


def _route(kind: str, route: Route) -> tuple[str, ...]:
    phases = "".join(f"; {phase}: {model}" for phase, model in route.phases.items())
    return kind, f"{route.primary}{phases}", ", ".join(route.then), f"{route.reason} ({route.source}, {route.date})"
