"""
Plays the merge train and other queues against one generated load on a virtual clock.

    python benchmarks/queue/simulate.py --workers 8 --rate 28

A **world** sets what arrives, how long checks take, and which changes fail alone or together. A policy learns about it
only from runs of the checks. A **policy** decides what is checked and what lands. The **yard** runs the checks on a
virtual clock and moves the target. `forgepool` is the merge train's own `plan`; its peers follow their public
descriptions.
"""

import math
from typing import Annotated

import typer
from queue_policies import POLICIES
from simulated_world import QueueTerms
from simulated_yard import Numbers, play

from forgepool.orchestrator.cli.output.say import say, say_json
from forgepool.orchestrator.cli.output.terminal import print_table
from forgepool.supervisor.train.surprise import admission
from forgepool.workers.llm.routing.table import unknown

SEEDS = "1,2,3"
_MOST_SEEDS = 1000
_USUAL = 600


class BadWorld(typer.BadParameter):
    """A world that cannot be simulated."""


def queue(
    workers: Annotated[int, typer.Option(metavar="N", help="Runs of the checks at once.")] = 8,
    rate: Annotated[float, typer.Option(metavar="H", help="Arrivals an hour.")] = 28.0,
    bad: Annotated[float, typer.Option(metavar="P", help="Probability that a change is red by itself.")] = 0.08,
    flake: Annotated[float, typer.Option(metavar="P", help="Probability that a run is red for no reason.")] = 0.0,
    retries: Annotated[int, typer.Option(metavar="N", help="How often red checks are run again.")] = 0,
    changes: Annotated[
        int | None, typer.Option(metavar="N", help=f"How many arrive. Default: {_USUAL}, or the burst.")
    ] = None,
    scopes: Annotated[
        bool, typer.Option("--scopes", help="Checks look at some modules each, and say at which.")
    ] = False,
    burst: Annotated[int, typer.Option(metavar="N", help="Of these, how many at once, at the beginning.")] = 0,
    seeds: Annotated[
        str, typer.Option(metavar="LIST", help="Random worlds, as in 1,2,3 or 101-110; or how many of them.")
    ] = SEEDS,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"One of {', '.join(POLICIES)}; may be given again. Default: all."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for each policy.")] = False,
) -> int:
    """
    Play the merge train, and what others do instead, against the same arrivals on a virtual clock.

    Checks take 8 minutes in the median. A change touches one to four of 60 modules; of two that share a module, one
    pair in 25 is red together. Times are from arrival to landing; each figure is the mean over the worlds.
    """
    count = changes if changes is not None else burst or _USUAL
    terms = QueueTerms(
        workers=_count("--workers", workers, 1),
        rate_h=_above_zero("--rate", rate),
        bad=_probability("--bad", bad),
        flake=_probability("--flake", flake),
        retries=_count("--retries", retries, 0),
        changes=_count("--changes", count, 1),
        burst=_count("--burst", burst, 0, most=count),
        scopes=scopes,
    )
    worlds, names = _seeds(seeds), _policies(policy)
    found = list[Numbers]()
    for name in names:
        found.append(play(name, POLICIES[name], terms, worlds))
        if as_json:
            say_json(found[-1].as_json())
    if not as_json:
        _tell(found, terms, worlds)
    if any(numbers.red_moves or numbers.exactness_violations for numbers in found):
        raise typer.Exit(1)
    return 0


def _tell(found: list[Numbers], terms: QueueTerms, worlds: list[int]) -> None:
    columns = ("policy", "P50", "P95", "P99", "per h", "runs", "wasted", "decided", "false", "wrong")
    print_table(columns, [_row(one) for one in found])
    say(
        "P50, P95, P99: minutes from arrival to landing. per h: landings. runs: of the checks, for each change.\n"
        "wasted: of their time, in runs that were cancelled. decided: by the time the last one arrived.\n"
        "false: returned though good. wrong: moves of the target to what is red, and to what was not tested so."
    )
    mean_min = terms.check_min * math.exp(terms.spread**2 / 2)
    warning = None if terms.burst == terms.changes else admission(terms.rate_h, mean_min, terms.bad, terms.workers)
    if warning is not None:
        say(warning)


def _row(one: Numbers) -> tuple[str, ...]:
    return (
        one.policy,
        *(f"{value:.1f}" for value in (one.p50_min, one.p95_min, one.p99_min, one.landed_per_h)),
        f"{one.runs_per_change:.2f}",
        f"{one.wasted_pct:.1f}%",
        f"{one.decided_pct:.1f}%",
        f"{one.false_reject_pct:.2f}%",
        f"{one.red_moves}+{one.exactness_violations}",
    )


def _count(option: str, given: int, least: int, most: int | None = None) -> int:
    if given < least:
        raise BadWorld(f"{option} is {given}; it is {least} or more")
    if most is not None and given > most:
        raise BadWorld(f"{option} is {given}, and only {most} arrive at all; give at most that, or more --changes")
    return given


def _above_zero(option: str, given: float) -> float:
    if not (given > 0 and math.isfinite(given)):
        raise BadWorld(f"{option} is {given:g}; arrivals an hour are a number above 0")
    return given


def _probability(option: str, given: float) -> float:
    if not 0 <= given < 1:
        raise BadWorld(f"{option} is {given:g}; a probability is from 0 to less than 1, as in 0.08")
    return given


def _seeds(written: str) -> list[int]:
    """Return the seeds: `3` means the first three worlds, and `1,2,3` and `101-110` name them."""
    parts = [part.strip() for part in written.split(",")]
    found = list[int]()
    for part in parts:
        low, dash, high = part.partition("-")
        if not (low.isdecimal() and (high.isdecimal() or not dash)):
            raise BadWorld(f"--seeds has '{part}'; give numbers as in 1,2,3, a range as in 101-110, or how many")
        found.extend(range(int(low), min(int(high or low), int(low) + _MOST_SEEDS) + 1))
    if len(parts) == 1 and "-" not in written:
        found = list(range(1, min(found[0], _MOST_SEEDS + 1) + 1))
    if not 0 < len(found) <= _MOST_SEEDS:
        raise BadWorld(f"--seeds '{written}' are {len(found) or 'no'} worlds; give from 1 to {_MOST_SEEDS}")
    return found


def _policies(given: list[str] | None) -> list[str]:
    for name in given or ():
        if name not in POLICIES:
            raise BadWorld(f"--policy: {unknown('policy', name, tuple(POLICIES))}")
    return list(dict.fromkeys(given or POLICIES))


if __name__ == "__main__":
    typer.run(queue)
