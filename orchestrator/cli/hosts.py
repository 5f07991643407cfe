"""`forgepool worker` and `supervisor` for more hosts; `forgepool doctor` and `models` about this one."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from forgepool.orchestrator.cli import raise_missed_interrupt
from forgepool.orchestrator.cli.output.say import complain, say, say_json
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.orchestrator.cli.run.options import JsonList
from forgepool.orchestrator.cli.run.run import Sandbox, settings_with
from forgepool.orchestrator.launch.doctor import examine
from forgepool.workers.llm.routing.open import keys_present
from forgepool.workers.llm.routing.router import ModelChoice, candidates, tariff
from forgepool.workers.llm.routing.table import ModelAccount, Route, Table, read_table, unknown
from forgepool.workers.order.host_facts import prove
from forgepool.workers.queue import broker as wire
from forgepool.workers.queue import leases
from forgepool.workers.queue.host import WorkerPost, serve
from forgepool.workers.sandbox.layers import choose_level
from forgepool.workers.schema.capabilities import LABEL
from forgepool.workers.schema.confinement import LEVEL_WORDS
from forgepool.workers.schema.settings import Settings, secret
from forgepool.worktrees.errors import UserError
from forgepool.worktrees.git.git import MINIMUM, git_version

_DEFAULT_QUEUES = ",".join(wire.QUEUES)
_GATE_SLOTS = 2
_WARN_CLOCK_S = 60.0
Concurrency = Annotated[
    int | None,
    typer.Option(
        min=1, max=256, help="Orders at once, or checks where none are served; default: one for each processor."
    ),
]
Broker = Annotated[str | None, typer.Option(help="The shared Redis; else FORGEPOOL_BROKER_URL.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", help="A label of this host, such as gpu, for `runs_on` of tasks.")
]


def register(app: typer.Typer) -> None:
    app.command()(worker)
    app.command()(supervisor)
    app.command()(hosts)
    app.command()(doctor)
    app.command()(models)


def worker(
    queues: Annotated[str, typer.Option(help="Queues to serve, separated by commas.")] = _DEFAULT_QUEUES,
    concurrency: Concurrency = None,
    label: Labels = None,
    broker: Broker = None,
    sandbox: Sandbox = None,
    log: Annotated[Path | None, typer.Option(help="File for the worker's log.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing at the start.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Start nothing: exit with 0 if this host's worker answers, else with 1.")
    ] = False,
) -> int:
    """Work on this host for runs that share a Redis, until Ctrl-C. A second Ctrl-C stops at once."""
    settings = settings_with(broker, sandbox)
    if check:
        return _check_worker(settings)
    named = tuple(dict.fromkeys(one.strip() for one in queues.split(",") if one.strip()))
    unknown = [one for one in named if one not in wire.QUEUES]
    if unknown or not named:
        raise UserError(f"there is no queue '{', '.join(unknown)}'; queues are: {', '.join(wire.QUEUES)}")
    labels = tuple(dict.fromkeys(label or ()))
    if wrong := [one for one in labels if not LABEL.fullmatch(one)]:
        raise UserError(f"'{wrong[0]}' is no label; use letters, digits, '-', '_' and '.', such as gpu")
    if git_version() < MINIMUM:
        raise wire.BrokerRefused(
            f"git {'.'.join(map(str, git_version()))} is too old; {'.'.join(map(str, MINIMUM))} is needed"
        )
    client, url = _shared_redis(settings)
    _require_protocol(client, settings)
    with _put_off_sigterm():
        level = choose_level(settings.sandbox)
        facts = prove(settings, level, labels, client)
    path = log or settings.home / "logs" / f"worker-{settings.host}-{os.getpid()}.log"
    posts = list(_posts(named, concurrency or os.cpu_count() or 1, path))
    if not quiet:
        places = ", ".join(f"{'+'.join(post.queues)} x{post.concurrency}" for post in posts)
        say(f"{settings.host} listens to {places} at {wire.without_password(url)}")
        signed = "; messages are signed" if settings.fleet_key else ""
        say(f"{LEVEL_WORDS[level]}{signed}; log: {path}; Ctrl-C stops after the running work")
        if abs(facts.clock_off_s) > _WARN_CLOCK_S:
            say(f"this host's clock and that of Redis are {abs(facts.clock_off_s):.0f} s apart; set it")
    raise_missed_interrupt()
    return serve(posts, settings, facts)


def _shared_redis(settings: Settings) -> tuple[wire.Redis, str]:
    """Return a client of the shared Redis, which answers, and its URL."""
    url = settings.broker_url
    if url is None:
        raise wire.BrokerRefused(
            "no shared Redis is named; give --broker redis://HOST:PORT/0, or set FORGEPOOL_BROKER_URL"
        )
    client = wire.connect(url)
    wire.ping(client, url)
    return client, url


def _require_protocol(client: wire.Redis, settings: Settings) -> None:
    """Refuse to listen where runs write other messages than this version reads: it could only lose them."""
    spoken = leases.list_protocols(client)
    if spoken and wire.PROTOCOL not in spoken:
        runs = ", ".join(map(str, sorted(spoken)))
        raise wire.BrokerRefused(
            f"the runs at this Redis write messages of protocol {runs}, and {settings.host} reads protocol "
            f"{wire.PROTOCOL}: install the runs' version of Forgepool here, then start the worker"
        )


def _posts(queues: Sequence[str], concurrency: int, log: Path) -> Iterator[WorkerPost]:
    """
    Yield the workers of a host. Orders are long, so they have processes of their own, and so have landings, which are
    short: none of them waits for an order.
    """
    orders = wire.ORDERS in queues
    gate = tuple(one for one in (wire.CHECKS, wire.REVIEWS) if one in queues)
    if orders:
        yield WorkerPost(queues=(wire.ORDERS,), concurrency=concurrency, log=log)
    if gate:
        yield WorkerPost(queues=gate, concurrency=_GATE_SLOTS if orders else concurrency, log=log)
    if wire.LANDINGS in queues:
        yield WorkerPost(queues=(wire.LANDINGS,), concurrency=1, log=log)


def _check_worker(settings: Settings) -> int:
    """For the health check of a container: a worker or supervisor of this host has announced itself lately."""
    if settings.broker_url is None:
        return complain("no Redis is named in which a worker could be; set FORGEPOOL_BROKER_URL", 1)
    try:
        with wire.connect(settings.broker_url) as client:
            wire.ping(client, settings.broker_url)
            there = any(one.host == settings.host for one in leases.present(client))
    except (wire.BrokerRefused, *wire.BrokerAway) as trouble:
        return complain(str(trouble), 1)
    if there:
        return 0
    return complain(f"no worker of host '{settings.host}' answers; start one there with `forgepool worker`", 1)


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
    broker: Broker = None,
    sandbox: Sandbox = None,
    log: Annotated[Path | None, typer.Option(help="File for the log.")] = None,
) -> int:
    """Work like `forgepool worker`, but only on checks, reviews and landings."""
    queues = ",".join((wire.CHECKS, wire.LANDINGS, wire.REVIEWS))
    return worker(queues=queues, concurrency=concurrency, broker=broker, sandbox=sandbox, log=log)


Action = Literal["drain", "readmit"]


def hosts(
    action: Annotated[
        Action | None, typer.Argument(help="drain or readmit; without one, the hosts are listed.")
    ] = None,
    host: Annotated[str | None, typer.Argument(help="The host's name, as listed.")] = None,
    broker: Broker = None,
    as_json: JsonList = False,
) -> int:
    """
    List the hosts at the shared Redis. A drained host finishes what it has and takes nothing new, until readmitted.
    """
    client, _ = _shared_redis(settings_with(broker))
    found = list_present_hosts(client)
    if action is None:
        _tell_hosts(found, as_json=as_json)
        return 0
    if host is None:
        raise UserError(f"name the host: forgepool hosts {action} HOST")
    say(change_host(client, action, host, [str(one["host"]) for one in found]))
    return 0


def change_host(client: wire.Redis, action: Action, host: str, names: Sequence[str]) -> str:
    """Drain or readmit a host; return what follows. Raises UserError where none of these `names` is to be drained."""
    if action == "readmit":
        leases.readmit(client, host)
        return f"{host} takes messages again"
    if host not in names:
        raise UserError(unknown("host", host, names) if names else "no host is there")
    leases.drain(client, host)
    return f"{host} finishes what it has and takes nothing new; forgepool hosts readmit {host} undoes this"


def list_present_hosts(client: wire.Redis) -> list[dict[str, object]]:
    """Return a row for each host at the shared Redis."""
    held = Counter(holder.host for holder in leases.all_holders(client))
    rows: dict[str, dict[str, object]] = {}
    for worker in leases.present(client):
        drained = worker.drained or leases.is_drained(client, worker.host)
        other = worker.protocol != wire.PROTOCOL
        row = rows.setdefault(
            worker.host,
            {
                "host": worker.host,
                "state": f"protocol {worker.protocol}" if other else "drained" if drained else "works",
                "slots": {},
                "held": held[worker.host],
                "since": worker.since,
                "protocol": worker.protocol,
                **worker.facts.model_dump(),
            },
        )
        row["slots"] = {**cast(dict[str, int], row["slots"]), "+".join(worker.queues): worker.concurrency}
    return list(rows.values())


def _tell_hosts(found: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        say_json(found)
    elif not found:
        say("no host is there; start one with `forgepool worker`")
    else:
        print_table(("host", "state", "slots", "busy", "version", "disk free", "can"), [_host(one) for one in found])


def _host(one: dict[str, object]) -> tuple[str, ...]:
    slots = ", ".join(f"{queues} x{count}" for queues, count in cast(dict[str, int], one["slots"]).items())
    disk = "" if one["free_disk_mb"] is None else f"{cast(int, one['free_disk_mb']) / 1000:,.0f} GB"
    can = cast("tuple[str, ...] | None", one["can"])
    return (
        str(one["host"]),
        str(one["state"]),
        slots,
        str(one["held"]),
        str(one["version"]),
        disk,
        "not told" if can is None else ", ".join(can),
    )


def doctor(
    repo: Annotated[str | None, typer.Option(help="Also check whether this repository can be used.")] = None,
    broker: Annotated[str | None, typer.Option(help="Also check whether this Redis can be used.")] = None,
    as_json: JsonList = False,
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
