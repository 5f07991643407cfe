"""
Measures how well workers share an account's rate limits: with the pace that they keep together, and without it.

    nice python benchmarks/fleet/pace.py [--workers 2 8 32] [--seconds 20] [--wire anthropic]

Workers are processes with the real client (`open_models`, the vendor's kit, retries, breaker). They ask the local
vendor over HTTP, which has real token buckets for requests, input and output, and share a real Redis. They belong to up
to three runs of very unlike size, and each asks again as soon as it has an answer. A bucket is full again after five
seconds instead of a minute, and so the times in `retry-after` and in the headers are short.

- goodput: the input of answered calls, as a share of all that the limit allows (a full bucket, and its refill).
- 429: refused calls, as a share of all calls.
- Jain: Jain's index of the input that each run was given; 1 is an equal share for each.

"before" is the same without pace: each worker retries by itself, as long as the vendor asks.
"""

import argparse
import logging
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import structlog

sys.path.extend((str(Path(__file__).parents[2] / "tests"), str(Path(__file__).parent)))

from loop import private_redis
from vendors.answers import Say, Seen, Tokens, Wire
from vendors.limits import Buckets, limited
from vendors.server import VendorServer

from forgepool.workers.llm.messages import Text, user
from forgepool.workers.llm.provider import ModelFailed, ModelRequest
from forgepool.workers.llm.routing.chain import ModelChain
from forgepool.workers.llm.routing.open import open_models, preload
from forgepool.workers.llm.routing.pace import Paced
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.schema.settings import Settings

WINDOW_S = 5.0
REQUESTS, INPUT, OUTPUT = 40, 12_000, 6_000
"""The limits of a window; the input is the one that is met."""
CHARACTERS = 2_000, 3_000
"""A request's least and most; four to a token."""
THINKING_S = 0.03, 0.12
SIZES = {2: (1, 1), 8: (4, 2, 2), 32: (20, 8, 4)}
"""By the number of workers, those of each run."""

_TABLE = """
accounts:
  vendor: {{wire: {wire}, base_url: "{url}"}}
models:
  bench: {{account: vendor, family: bench, window_tokens: 100000, price: {{input: 1, output: 5}}}}
routes:
  code: {{primary: bench, reason: a measurement, source: here, date: '2026-11-01'}}
budget: bench
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    goodput: float
    refused: float
    jain: float
    calls: int


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--workers", nargs="*", type=int, default=[*SIZES], choices=[*SIZES])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--wire", choices=get_args(Wire), default="anthropic")
    said = parser.parse_args()
    print(f"{'workers':>7}  {'':<6} {'goodput':>7} {'429':>7} {'Jain':>6} {'calls':>6}", flush=True)
    for workers in said.workers:
        for paced in (False, True):
            got = measure(SIZES[workers], said.seconds, said.wire, paced=paced)
            print(
                f"{workers:>7}  {'pace' if paced else 'before':<6} {got.goodput:>7.3f} {got.refused:>7.2%} "
                f"{got.jain:>6.3f} {got.calls:>6}",
                flush=True,
            )


def measure(runs: Sequence[int], seconds: float, wire: Wire, *, paced: bool) -> Measured:
    """Let the workers of the runs ask for so long, and return what they got."""
    vendor = Vendor(wire)
    with tempfile.TemporaryDirectory() as folder, private_redis(Path(folder)) as url:
        models = Path(folder) / "models.yaml"
        models.write_text(_TABLE.format(wire=wire, url=vendor.server.url))
        settings = Settings(broker_url=url, models=models)
        preload(settings)
        crew = Crew(settings=settings, paced=paced, seconds=seconds)
        # Before the server has threads.
        crew.start(runs)
        with vendor.server:
            crew.go.set()
            crew.join()
    allowed = INPUT * (1 + seconds / WINDOW_S)
    shares = [vendor.input[f"run-{run}"] for run in range(len(runs))]
    buckets = vendor.buckets
    return Measured(
        goodput=sum(shares) / allowed,
        refused=buckets.refused / max(1, buckets.refused + buckets.admitted),
        jain=sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares) or 1),
        calls=buckets.admitted + buckets.refused,
    )


class Vendor:
    """The vendor, and the input that it answered by run; a request begins with its run's name."""

    def __init__(self, wire: Wire) -> None:
        openai = wire != "anthropic"
        limits = {"tokens": INPUT} if openai else {"input": INPUT, "output": OUTPUT}
        self.buckets = Buckets(requests=REQUESTS, window_s=WINDOW_S, counts_cached=True, **limits)
        self.input: Counter[str] = Counter()
        self.server = VendorServer(limited(self.answer, self.buckets))

    def answer(self, seen: Seen) -> Say:
        run, given = seen.texts[0].partition(" ")[0], len(seen.raw) // 4
        chance = random.Random(seen.number)
        self.input[run] += given
        usage = Tokens(input=given, output=chance.randint(20, 200))
        return Say(text="done", usage=usage, pause_s=chance.uniform(*THINKING_S))


class Crew:
    """The workers, as processes that begin together."""

    def __init__(self, *, settings: Settings, paced: bool, seconds: float) -> None:
        self.settings, self.paced, self.seconds = settings, paced, seconds
        self.context = multiprocessing.get_context("fork")
        self.go = self.context.Event()
        self.ready = self.context.Semaphore(0)
        self.processes: list[multiprocessing.process.BaseProcess] = []

    def start(self, runs: Sequence[int]) -> None:
        for run, size in enumerate(runs):
            for number in range(size):
                self.processes.append(self.context.Process(target=self.work, args=(f"run-{run}", number), daemon=True))
                self.processes[-1].start()
        for _ in self.processes:
            self.ready.acquire()

    def join(self) -> None:
        for process in self.processes:
            process.join()

    def work(self, run: str, number: int) -> None:
        """Ask again and again, as an agent does, until the time is over."""
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        table = read_table(self.settings.models_file)
        chain = open_models(table, task_type="code", phase="execute", run=run, settings=self.settings)
        if not self.paced:
            chain = without_pace(chain)
        chance = random.Random(f"{run}-{number}")
        # The vendor's kit is made with the first call, which takes longer than the call.
        opened: Any = chain._provider(chain.contenders[0])
        _ = (opened.provider if self.paced else opened)._client
        self.ready.release()
        self.go.wait()
        ends_at = time.monotonic() + self.seconds
        while time.monotonic() < ends_at:
            text = f"{run} {'x' * chance.randint(*CHARACTERS)}"
            card = user(Text(text=text))
            request = ModelRequest(system=("be brief",), tools=(), turns=(card,), max_output_tokens=1000)
            with suppress(ModelFailed):
                chain.ask(request, stop=lambda: time.monotonic() >= ends_at)


def without_pace(chain: ModelChain) -> ModelChain:
    contenders = [replace(one, open=lambda one=one: cast(Paced, one.open()).provider) for one in chain.contenders]
    return replace(chain, contenders=tuple(contenders))


if __name__ == "__main__":
    main()
