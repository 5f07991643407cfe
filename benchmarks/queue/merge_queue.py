"""
Prints how soon changes land with the merge train and with other queues, and how long the train's plan takes.

    python benchmarks/queue/merge_queue.py [--seeds 101-110] [--cell NAME ...] [--policy NAME ...] [--plans-only]

Each cell is a world of `simulated_world.py`, and each figure is the mean over the seeds. `of oracle` is the P95 divided
by that of the strict-order oracle, which knows what is good and runs each change once. `of bors` is the P95 divided by
that of batches of eight. A `decided` below 100% means that a policy cannot keep up. Its times are then of the changes
that landed in the end.
"""

import argparse
import time
from collections.abc import Sequence

from queue_policies import POLICIES
from simulated_world import QueueTerms, World
from simulated_yard import Numbers, play

from forgepool.orchestrator.cli.output.terminal import out, table
from forgepool.supervisor.train.model import (
    Cancel,
    Couple,
    Scopes,
    Snapshot,
    StartTrial,
    TrainEntry,
    TrainPolicy,
    Trial,
)
from forgepool.supervisor.train.plan import plan
from forgepool.supervisor.train.queue import TrainQueue

CELLS = {
    "1 worker, 3/h": QueueTerms(workers=1, rate_h=3, changes=300),
    "1 worker, 6/h": QueueTerms(workers=1, rate_h=6, changes=300),
    "1 worker, 9/h": QueueTerms(workers=1, rate_h=9, changes=300),
    "2 workers, 12/h": QueueTerms(workers=2, rate_h=12, changes=400),
    "8 workers, 28/h": QueueTerms(),
    "8, 28/h, 2% bad": QueueTerms(bad=0.02),
    "8, 28/h, 20% bad": QueueTerms(bad=0.2),
    "8, 28/h, blind labels": QueueTerms(label=0.55),
    "8, 28/h, heavy tails": QueueTerms(spread=1.0),
    "8, 28/h, 3% flakes": QueueTerms(flake=0.03),
    "8, 28/h, 3% flakes, 1 retry": QueueTerms(flake=0.03, retries=1),
    "8, 28/h, scopes": QueueTerms(scopes=True),
    "16, 56/h, scopes": QueueTerms(workers=16, rate_h=56, scopes=True),
    "16 workers, 28/h": QueueTerms(workers=16),
    "16 workers, 56/h": QueueTerms(workers=16, rate_h=56),
    "16, 56/h, blind labels": QueueTerms(workers=16, rate_h=56, label=0.55),
    "burst of 30, 8 workers": QueueTerms(burst=30, changes=30),
}
COLUMNS = (
    "policy",
    "P50",
    "P95",
    "P99",
    "of oracle",
    "of bors",
    "per h",
    "runs",
    "wasted",
    "decided",
    "false",
    "wrong",
)
SLOTS = (1, 8, 16, 64)
ENTRIES = (50, 200, 1000)


def seeds_in(written: str) -> range:
    low, _, high = written.partition("-")
    return range(int(low), int(high or low) + 1)


def row(one: Numbers, by: dict[str, Numbers]) -> tuple[str, ...]:
    ratios = (f"{one.p95_min / by[peer].p95_min:.2f}" if peer in by else "" for peer in ("oracle", "bors"))
    return (
        one.policy,
        *(f"{value:.1f}" for value in (one.p50_min, one.p95_min, one.p99_min)),
        *ratios,
        f"{one.landed_per_h:.1f}",
        f"{one.runs_per_change:.2f}",
        f"{one.wasted_pct:.0f}%",
        f"{one.decided_pct:.1f}%",
        f"{one.false_reject_pct:.2f}%",
        f"{one.red_moves}+{one.exactness_violations}",
    )


def tell_cell(name: str, terms: QueueTerms, policies: Sequence[str], seeds: range) -> None:
    found = {policy: play(policy, POLICIES[policy], terms, seeds) for policy in policies}
    out().print(f"\n{name}", style="bold")
    out().print(table(COLUMNS, [row(one, found) for one in found.values()]))


def standing(entries: int, slots: int) -> Snapshot:
    """Return a line of `entries`, with the trials that the plan starts in the slots."""
    line, policy = TrainQueue(), TrainPolicy()
    for at in range(entries):
        line.enter(TrainEntry(id=f"e{at}", accepted=at, risk=(0.01, 0.08, 0.4)[at % 3], submitter=f"s{at % 9}"))
    while actions := plan(line.snapshot(slots=slots, policy=policy, surprise=0.0)):
        for action in actions:
            match action:
                case Couple(entries=ids, at=place):
                    line.couple(ids, place)
                case StartTrial(ahead=ahead, car=car, decisive=decisive):
                    line.start(Trial(id=f"t{len(line.trials)}", ahead=ahead, car=car, decisive=decisive))
                case Cancel(trial=trial):
                    line.forget(trial)
    return line.snapshot(slots=slots, policy=policy, surprise=0.0)


def dissolved(entries: int, slots: int, scopes: Sequence[Scopes] = (None,)) -> Snapshot:
    """Return the worst line: each entry in a car of its own, the first ones on trial, a third of the trials red."""
    names = tuple(f"e{at}" for at in range(entries))
    trials = tuple(
        Trial(
            id=f"t{at}", ahead=names[:at], car=(names[at],), state="red" if at % 3 == 2 else "running", decisive=at == 0
        )
        for at in range(min(entries, slots))
    )
    cars = tuple(
        (TrainEntry(id=name, accepted=at, risk=0.05, single=True, scopes=scopes[at % len(scopes)]),)
        for at, name in enumerate(names)
    )
    return Snapshot(waiting=(), cars=cars, trials=trials, slots=slots)


def in_scopes(entries: int, slots: int) -> Snapshot:
    """Return the worst line, with the modules of a simulated change as each entry's scopes."""
    changes = World(terms=QueueTerms(changes=entries), seed=1).changes
    return dissolved(entries, slots, [frozenset(map(str, change.modules)) for change in changes])


def plan_ms(seen: Snapshot, times: int = 5) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        plan(seen)
        took.append(time.perf_counter() - began)
    return 1000 * sorted(took)[times // 2]


def tell_plans() -> None:
    rows = []
    kinds = (("as it comes to stand", standing), ("all in cars of one", dissolved), ("the same, scopes", in_scopes))
    for kind, make in kinds:
        for entries in ENTRIES:
            rows.append((kind, str(entries), *(f"{plan_ms(make(entries, slots)):.1f}" for slots in SLOTS)))
    out().print("\nmilliseconds of one plan, the median of five", style="bold")
    out().print(table(("line", "entries", *(f"{slots} slots" for slots in SLOTS)), rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="The merge train against others, and how long its plan takes.")
    parser.add_argument("--seeds", default="101-110")
    parser.add_argument("--cell", action="append", choices=list(CELLS))
    parser.add_argument("--policy", action="append", choices=list(POLICIES))
    parser.add_argument("--plans-only", action="store_true")
    asked = parser.parse_args()
    for name in () if asked.plans_only else asked.cell or CELLS:
        tell_cell(name, CELLS[name], asked.policy or list(POLICIES), seeds_in(asked.seeds))
    tell_plans()


if __name__ == "__main__":
    main()
