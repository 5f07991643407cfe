"""`forgepool worker` for more hosts, and `forgepool doctor`."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import say, say_json
from forgepool.orchestrator.cli.run.running import Sandbox, settings_with
from forgepool.orchestrator.launch.machine.doctor import examine
from forgepool.workers.queue import broker as wire
from forgepool.workers.queue.host import WorkerPost, serve
from forgepool.workers.sandbox.layers import choose_level
from forgepool.workers.schema.confinement import LEVEL_WORDS
from forgepool.worktrees.git.git import MINIMUM, git_version

_DEFAULT_QUEUES = ",".join(wire.QUEUES)
Concurrency = Annotated[
    int | None, typer.Option(min=1, max=256, help="Tasks and checks at once; default: one for each processor.")
]


class BadQueue(typer.BadParameter):
    """A queue that is none."""


def register(app: typer.Typer) -> None:
    app.command()(worker)
    app.command()(supervisor)
    app.command()(doctor)


def worker(
    queues: Annotated[str, typer.Option(help="Queues to listen to, separated by commas.")] = _DEFAULT_QUEUES,
    concurrency: Concurrency = None,
    broker: Annotated[str | None, typer.Option(help="The shared Redis; else FORGEPOOL_BROKER_URL.")] = None,
    sandbox: Sandbox = None,
    log: Annotated[Path | None, typer.Option(help="Where the worker's log goes.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing when starting.")] = False,
) -> int:
    """Work on this host for runs that share a Redis, until Ctrl-C (a second one stops at once)."""
    settings = settings_with(broker, sandbox)
    if settings.broker_url is None:
        raise wire.BrokerRefused(
            "a worker needs a shared Redis: give --broker redis://HOST:PORT/0, or set FORGEPOOL_BROKER_URL"
        )
    named = tuple(dict.fromkeys(one.strip() for one in queues.split(",") if one.strip()))
    unknown = [one for one in named if one not in wire.QUEUES]
    if unknown or not named:
        raise BadQueue(f"there is no queue '{', '.join(unknown)}'; queues are: {', '.join(wire.QUEUES)}")
    if git_version() < MINIMUM:
        raise wire.BrokerRefused(
            f"git {'.'.join(map(str, git_version()))} is too old; {'.'.join(map(str, MINIMUM))} is needed"
        )
    wire.ping(wire.connect(settings.broker_url), settings.broker_url)
    level = choose_level(settings.sandbox)
    path = log or settings.home / "logs" / f"worker-{settings.host}-{os.getpid()}.log"
    slots = concurrency or os.cpu_count() or 1
    if not quiet:
        say(f"{settings.host} listens to {', '.join(named)} at {wire.without_password(settings.broker_url)}, ")
        say(f"{slots} at once; {LEVEL_WORDS[level]}; log: {path}; Ctrl-C lets running work finish")
    return serve([WorkerPost(queues=named, concurrency=slots, log=path)], settings)


def supervisor(
    concurrency: Concurrency = None,
    broker: Annotated[str | None, typer.Option(help="The shared Redis; else FORGEPOOL_BROKER_URL.")] = None,
    sandbox: Sandbox = None,
    log: Annotated[Path | None, typer.Option(help="Where the log goes.")] = None,
) -> int:
    """Work as `forgepool worker` does, but only on checks, reviews and landings."""
    queues = ",".join((wire.CHECKS, wire.LANDINGS, wire.REVIEWS))
    return worker(queues=queues, concurrency=concurrency, broker=broker, sandbox=sandbox, log=log)


def doctor(
    repo: Annotated[str | None, typer.Option(help="Also ask whether this repository can be used.")] = None,
    broker: Annotated[str | None, typer.Option(help="Also ask whether this Redis can be used.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer with a list of JSON objects.")] = False,
) -> int:
    """Say what this machine can do, one line each, and how to get what is missing."""
    started = time.monotonic()
    findings = examine(settings_with(broker), repo)
    if as_json:
        say_json([finding.model_dump() for finding in findings])
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            mend = f"; {finding.mend}" if finding.mend else ""
            say(f"{finding.verdict:4}  {finding.what:{width}}  {finding.found}{mend}")
        say(f"looked at in {time.monotonic() - started:.1f} s")
    return 3 if any(finding.verdict == "bad" for finding in findings) else 0
