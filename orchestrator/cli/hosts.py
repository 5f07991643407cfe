"""`forgepool worker` and `supervisor` for more hosts; `forgepool doctor` and `models` about this one."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import say, say_json
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.orchestrator.cli.run.run import Sandbox, settings_with
from forgepool.orchestrator.launch.doctor import examine
from forgepool.workers.llm.routing.open import keys_present
from forgepool.workers.llm.routing.router import ModelChoice, candidates, tariff
from forgepool.workers.llm.routing.table import ModelAccount, Route, Table, read_table
from forgepool.workers.queue import broker as wire
from forgepool.workers.queue.host import WorkerPost, serve
from forgepool.workers.sandbox.layers import choose_level
from forgepool.workers.schema.confinement import LEVEL_WORDS
from forgepool.workers.schema.settings import Settings, secret
from forgepool.worktrees.errors import UserError
from forgepool.worktrees.git.git import MINIMUM, git_version

_DEFAULT_QUEUES = ",".join(wire.QUEUES)
Concurrency = Annotated[
    int | None, typer.Option(min=1, max=256, help="Tasks and checks at once; default: one for each processor.")
]


def register(app: typer.Typer) -> None:
    app.command()(worker)
    app.command()(supervisor)
    app.command()(doctor)
    app.command()(models)


def worker(
    queues: Annotated[str, typer.Option(help="Queues to serve, separated by commas.")] = _DEFAULT_QUEUES,
    concurrency: Concurrency = None,
    broker: Annotated[str | None, typer.Option(help="The shared Redis; else FORGEPOOL_BROKER_URL.")] = None,
    sandbox: Sandbox = None,
    log: Annotated[Path | None, typer.Option(help="File for the worker's log.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing at the start.")] = False,
) -> int:
    """Work on this host for runs that share a Redis, until Ctrl-C. A second Ctrl-C stops at once."""
    settings = settings_with(broker, sandbox)
    if settings.broker_url is None:
        raise wire.BrokerRefused(
            "a worker needs a shared Redis; give --broker redis://HOST:PORT/0, or set FORGEPOOL_BROKER_URL"
        )
    named = tuple(dict.fromkeys(one.strip() for one in queues.split(",") if one.strip()))
    unknown = [one for one in named if one not in wire.QUEUES]
    if unknown or not named:
        raise UserError(f"there is no queue '{', '.join(unknown)}'; queues are: {', '.join(wire.QUEUES)}")
    if git_version() < MINIMUM:
        raise wire.BrokerRefused(
            f"git {'.'.join(map(str, git_version()))} is too old; {'.'.join(map(str, MINIMUM))} is needed"
        )
    wire.ping(wire.connect(settings.broker_url), settings.broker_url)
    with _put_off_sigterm():
        level = choose_level(settings.sandbox)
    path = log or settings.home / "logs" / f"worker-{settings.host}-{os.getpid()}.log"
    slots = concurrency or os.cpu_count() or 1
    if not quiet:
        say(f"{settings.host} listens to {', '.join(named)} at {wire.without_password(settings.broker_url)}, ")
        say(f"{slots} at once; {LEVEL_WORDS[level]}; log: {path}; Ctrl-C stops after the running work")
    return serve([WorkerPost(queues=named, concurrency=slots, log=path)], settings)


@contextmanager
def _put_off_sigterm() -> Iterator[None]:
    """
    Put SIGTERM off to the end of the block, which makes temporary folders.

    To raise from the handler would not do: an exception that comes in the middle of a `__del__` is swallowed.
    """
    asked: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if asked:
            os.kill(os.getpid(), signal.SIGTERM)


def supervisor(
    concurrency: Concurrency = None,
    broker: Annotated[str | None, typer.Option(help="The shared Redis; else FORGEPOOL_BROKER_URL.")] = None,
    sandbox: Sandbox = None,
    log: Annotated[Path | None, typer.Option(help="File for the log.")] = None,
) -> int:
    """Work like `forgepool worker`, but only on checks, reviews and landings."""
    queues = ",".join((wire.CHECKS, wire.LANDINGS, wire.REVIEWS))
    return worker(queues=queues, concurrency=concurrency, broker=broker, sandbox=sandbox, log=log)


def doctor(
    repo: Annotated[str | None, typer.Option(help="Also check whether this repository can be used.")] = None,
    broker: Annotated[str | None, typer.Option(help="Also check whether this Redis can be used.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> int:
    """Show what this machine can do, one line each, and how to get what is missing."""
    started = time.monotonic()
    findings = examine(settings_with(broker), repo)
    if as_json:
        say_json([finding.model_dump() for finding in findings])
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            mend = f"; {finding.mend}" if finding.mend else ""
            say(f"{finding.verdict:4}  {finding.what:{width}}  {finding.found}{mend}")
        say(f"checked in {time.monotonic() - started:.1f} s")
    return 3 if any(finding.verdict == "bad" for finding in findings) else 0


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Show which models can be asked, what they cost, and which one does which kind of work."""
    own = Settings().models_file
    known = read_table(own)
    keys = keys_present(known)
    rows = [_row(known, candidate) for model in known.models for candidate in candidates(known, model, keys=keys)]
    if as_json:
        routes = {kind: route.model_dump(mode="json") for kind, route in known.routes.items()}
        say_json({"file": str(own) if own else None, "models": rows, "routes": routes, "budget": known.budget})
    else:
        _tell_models(known, rows, str(own) if own else "")
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


def _tell_models(known: Table, rows: list[dict[str, object]], own: str) -> None:
    say("Accounts")
    print_table(("account", "wire", "key"), [_account(name, one) for name, one in known.accounts.items()])
    say("\nModels, with USD per million tokens")
    columns = ("model", "family", "asked through", "window", "input", "output")
    print_table(columns, [_model(known, name, rows) for name in known.models])
    say("\nModel for each type of task; other types count as code")
    print_table(("type", "model", "then", "why"), [_route(kind, one) for kind, one in known.routes.items()])
    say(f"\nWhen all of these fail: {known.budget}")
    say(
        f"{own} overrides the shipped table"
        if own
        else "The shipped table; docs/how-to/models.md explains how to change it"
    )


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
