"""
Prints the price of reviews by a vendor's batch lane beside the same reviews made live, with the calls that they take.

    python benchmarks/queue/batched_reviews.py [--reviews 100] [--lines 200]

Each way reviews the same changes, each of a new file with so many lines of surroundings, composed and judged as in a
run, at a local server that speaks the vendors' formats and counts what it answers. `live, with tools`: the reviewer
reads the changed files, then gives its verdict. `live, one call`: it is shown them (`context_mode: injected`). `batch`:
that one call, in a batch of its own.

Prices are the published ones of the model. Tokens are the server's: four characters each, with its simulated prompt
cache, over what our adapters really sent. It finds whatever it has seen before. A vendor does so in a part of the
batches, so the last column has the price if nothing is found. The verdicts are scripted, and equal in every way, so
that nothing is said of how well a model reviews in one call.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

import find_helpers  # noqa: F401  # before any helper
from defects import Case, cases
from gates import Gate
from repositories import Hub, git
from review_kit import COMMAND, KEY, KEY_VALUE, Desk
from vendors.answers import Say, Seen, Wire
from vendors.server import VendorServer

from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.llm.batch import BatchCall, BatchTicket
from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.routing.router import candidates, tariff
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.schema.orders import Spent, add_spent

_MODELS: dict[str, Wire] = {"claude-sonnet-5-5": "anthropic", "gpt-6.1-sol": "openai-responses"}
_PASSED = {"verdict": "pass", "findings": [], "confidence": 0.9, "summary": "It does what was asked, and no more."}
_TOOLS, _INJECTED = ReviewPolicy(), ReviewPolicy(context_mode="injected")
_BATCH = ReviewPolicy(context_mode="injected", lane="batch")
_BATCH_S = 0.5
"""Seconds that a batch takes at the local server."""


@dataclass(slots=True, kw_only=True)
class Sums:
    spent: Spent = field(default_factory=Spent)
    reviews: int = 0
    requests: int = 0
    """Requests to the supervisor."""


def live(policy: ReviewPolicy) -> Callable[[Desk, int, Case, Sums], None]:
    def review(desk: Desk, number: int, case: Case, sums: Sums) -> None:
        found = desk.review(_files(number, case), policy, author=COMMAND, title=case.title, request_id=f"r.{number}.1")
        _take(found, sums)

    return review


def by_batch(desk: Desk, number: int, case: Case, sums: Sums) -> None:
    ticket, began, again = _tickets.get(number), _began.setdefault(number, time.time()), number in _tickets
    call = BatchCall(key=f"r.{number}", since=began, until=began + 3600.0, again=again, ticket=ticket)
    files, request_id = _files(number, case), f"r.{number}.{sums.requests}"
    found = desk.review(files, _BATCH, author=COMMAND, title=case.title, request_id=request_id, batch=call)
    if found.batch is not None and not found.batch.over:
        _tickets[number], sums.requests = found.batch, sums.requests + 1
        return
    _take(found, sums)
    _tickets.pop(number, None)
    _done.add(number)


_surroundings: list[str] = []
_tickets: dict[int, BatchTicket] = {}
_began: dict[int, float] = {}
_done: set[int] = set()


def _take(found: Review, sums: Sums) -> None:
    if found.outcome != "passed":
        sys.exit(f"no verdict, but {found.outcome}: {found.detail}")
    sums.spent, sums.reviews, sums.requests = add_spent(sums.spent, found.spent), sums.reviews + 1, sums.requests + 1


def _files(number: int, case: Case) -> dict[str, str]:
    return {f"{number}/{case.path}": case.text + "".join(_surroundings)}


def _brain(seen: Seen) -> Say:
    if seen.tools == ["verdict"] or seen.answered:
        return Say(calls=[("verdict", _PASSED)])
    changed = [line[2:].partition(":")[0] for line in "\n".join(seen.texts).splitlines() if ": new, " in line]
    return Say(calls=[("read_file", {"path": path}) for path in changed])


def _measure(name: str, model: str, every: list[Case], count: int, base: float | None) -> float:
    folder = Path(tempfile.mkdtemp(prefix="fp-batch-"))
    ways = {"live, with tools": live(_TOOLS), "live, one call": live(_INJECTED), "batch, one call": by_batch}
    sums, review = Sums(), ways[name]
    for kept in (_tickets, _began, _done):
        kept.clear()
    try:
        with VendorServer(_brain) as server:
            desk = _desk(folder, server, model)
            server.batches.delay_s = _BATCH_S
            while sums.reviews < count:
                for number in range(count):
                    if number not in _done:
                        review(desk, number, every[number % len(every)], sums)
            if server.invalid:
                sys.exit(f"the local vendor refused: {server.invalid[0]}")
            usd = sums.spent.cost_usd or 0.0
            share = f"{usd / base:.2f}" if base else "1.00"
            uncached = _price_uncached(desk, model, sums, batch=review is by_batch)
            print(
                f"{model:18} {name:17} {sums.reviews:7} {len(server.seen):6} {len(server.batches.all):8} "
                f"{len(server.batches.looks):6} {sums.spent.input_tokens:9,} {sums.spent.cached_tokens:9,} "
                f"{sums.spent.output_tokens:8,} {usd:8.4f} {share:>6} {uncached:9.4f}",
                flush=True,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return usd


def _price_uncached(desk: Desk, model: str, sums: Sums, *, batch: bool) -> float:
    """Return the price of as many average reviews, if nothing of them is cached."""
    table = read_table(desk.gate.settings.models_file)
    given, made = sums.spent.input_tokens // sums.reviews, sums.spent.output_tokens // sums.reviews
    charged = tariff(table, candidates(table, model, keys={KEY})[0], batch=batch)
    return sums.reviews * (charged.cost_usd(Usage(input_tokens=given, output_tokens=made)) or 0.0)


def _desk(folder: Path, server: VendorServer, model: str) -> Desk:
    hub = Hub(path=folder / "hub.git", work=folder / "person")
    git(folder, "init", "-q", "--bare", "-b", "main", str(hub.path))
    git(folder, "init", "-q", "-b", "main", str(hub.work))
    git(hub.work, "commit", "-q", "--allow-empty", "-m", "first")
    git(hub.work, "remote", "add", "origin", str(hub.path))
    git(hub.work, "push", "-q", "origin", "main")
    wire = _MODELS[model]
    where = server.url if wire == "anthropic" else f"{server.url}/v1"
    route = f"{{primary: {model}, then: [], reason: measured, source: here, date: '2026-11-28'}}"
    account = f"{{wire: {wire}, key: {KEY}, base_url: '{where}', batch: 0.5}}"
    table = folder / "models.yaml"
    lines = (
        f"accounts: {{local: {account}}}",
        f"models: {{{model}: {{account: local, also: []}}}}",
        f"routes: {{review: {route}}}",
        f"budget: {model}",
    )
    table.write_text("\n".join([*lines, ""]))
    desk = Desk(Gate(hub, folder))
    desk.gate.settings = desk.gate.settings.model_copy(update={"models": table})
    return desk


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--reviews", type=int, default=100)
    asked.add_argument("--lines", type=int, default=200)
    given = asked.parse_args()
    count = given.reviews
    _surroundings.extend(f"VALUE_{at} = {at} * SCALE  # of row {at}\n" for at in range(given.lines))
    os.environ[KEY] = KEY_VALUE
    every = list(cases())
    head = (
        "model",
        "way",
        "reviews",
        "calls",
        "batches",
        "looks",
        "input",
        "cached",
        "output",
        "USD",
        "share",
        "uncached",
    )
    print("{:18} {:17} {:>7} {:>6} {:>8} {:>6} {:>9} {:>9} {:>8} {:>8} {:>6} {:>9}".format(*head))
    for model in _MODELS:
        base = None
        for name in ("live, with tools", "live, one call", "batch, one call"):
            usd = _measure(name, model, every, count, base)
            base = base or usd


if __name__ == "__main__":
    main()
