"""
`/metrics` of `forgepool serve`: the figures of a home in Prometheus' format.

No series is about a single task, and only so many runs have series of their own. A counter never falls while the server
runs: what a removed run counted stays counted.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from forgepool.orchestrator.interfaces.web.desk import WebDesk, plain, visitor_of
from forgepool.orchestrator.reports.attention import RANKS
from forgepool.orchestrator.reports.home import HomeView, RunSummary
from forgepool.orchestrator.state.counts import BUCKETS_S, Counted, EventCounts, Timed

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from starlette.requests import Request
    from starlette.responses import Response

_MOST_NAMED = 50
"""Runs with series of their own: the latest."""
_COUNTED: Mapping[Counted, tuple[str, str, str]] = {
    "attempts": ("attempts", "Attempts at tasks that were sent to workers", ""),
    "answers": ("attempt_outcomes", "Attempts that ended", "outcome"),
    "landings": ("landings", "Tasks and branches that were to land, by what became of that", "outcome"),
    "returns": ("returns", "Candidates and attempts that came back, by the kind of reason", "reason"),
    "suspensions": ("host_suspensions", "Suspensions of hosts", ""),
}
_TIMED: Mapping[Timed, tuple[str, str, str]] = {
    "checks": ("check_seconds", "Seconds that the checks of one composed tree took", "verdict"),
    "waits": ("message_wait_seconds", "Seconds from sending a message until a worker took it", "kind"),
    "landed after": ("queue_wait_seconds", "Seconds from entering the merge queue until landing", ""),
}


class HomeMetrics:
    """Collects the figures of a home."""

    def __init__(self, home: HomeView) -> None:
        self._home = home
        self._known: dict[str, RunSummary] = {}
        """The last readable summary of each run, also of those that are gone."""

    def collect(self) -> "Iterator[Metric]":
        """Yield all families; an interface of prometheus_client."""
        runs = self._home.summaries()
        self._known |= {one.run: one for one in runs if not one.trouble}
        yield from _gauges(runs)
        yield from _of_single_runs(runs[:_MOST_NAMED])
        known = list(self._known.values())
        yield from _counters(known)
        yield from _usage(known)


def _gauges(runs: Sequence[RunSummary]) -> "Iterator[Metric]":
    yield _gauge("runs", "Runs and queues", ["state"], Counter((one.outcome,) for one in runs).items())
    tasks = Counter[tuple[str, ...]]()
    for one in runs:
        kind = "queue" if one.gate else "run"
        tasks.update({(kind, phase): count for phase, count in one.figures.tasks.items()})
    yield _gauge("tasks", "Tasks of runs, and branches in queues", ["kind", "phase"], tasks.items())
    causes = Counter({(cause,): 0 for cause in RANKS})
    causes.update((row.cause,) for one in runs for row in one.rows)
    yield _gauge(
        "attention", "Things that need a person, as `forgepool attention` lists them", ["cause"], causes.items()
    )
    live = [one for one in runs if one.live]
    waiting = Counter[tuple[str, ...]]({(kind,): 0 for kind in ("order", "check", "review", "landing")})
    for one in live:
        waiting.update({(kind,): count for kind, count in one.figures.untaken.items()})
    yield _gauge("messages_waiting", "Messages of live runs that no worker has taken yet", ["kind"], waiting.items())
    hosts = frozenset[str]().union(*(one.figures.hosts for one in live))
    suspended = frozenset[str]().union(*(one.figures.suspended for one in live))
    states = {("well",): len(hosts - suspended), ("suspended",): len(suspended)}
    yield _gauge("hosts", "Hosts that have answered live runs", ["state"], states.items())


def _of_single_runs(runs: Sequence[RunSummary]) -> "Iterator[Metric]":
    length = {(one.run, one.target): one.waiting for one in runs if one.live}
    yield _gauge(
        "queue_length", "Candidates in the merge queue of a live run or queue", ["run", "target"], length.items()
    )
    costs = {(one.run, models): bill.priced_usd for one in runs for models, bill in one.figures.bills.items()}
    yield _gauge("run_cost_usd", "Known cost of a run", ["run", "model"], costs.items())
    tokens = {
        (one.run, models): bill.input_tokens + bill.output_tokens
        for one in runs
        for models, bill in one.figures.bills.items()
    }
    yield _gauge("run_tokens", "Tokens of a run", ["run", "model"], tokens.items())


def _counters(known: Sequence[RunSummary]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import HistogramMetricFamily

    whole = EventCounts()
    for one in known:
        whole.merge(one.figures.counts)
    for counted, (name, words, label) in _COUNTED.items():
        if label:
            found = [((of,), count) for (kind, of), count in whole.counted.items() if kind == counted]
            yield _counter(name, words, [label], found)
        else:
            yield _counter(name, words, [], [((), whole.counted[counted, ""])])
    for timed, (name, words, label) in _TIMED.items():
        family = HistogramMetricFamily(f"forgepool_{name}", words, labels=[label] if label else [])
        bounds = [*(str(bound) for bound in BUCKETS_S), "+Inf"]
        for (kind, of), durations in whole.timed.items():
            if kind == timed:
                buckets = list(zip(bounds, map(float, accumulate(durations.counts)), strict=True))
                family.add_metric([of] if label else [], buckets, durations.total_s)
        yield family


def _usage(known: Sequence[RunSummary]) -> "Iterator[Metric]":
    usd, tokens, unpriced = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for one in known:
        for models, used in one.figures.bills.items():
            usd.update({(models,): used.priced_usd})
            unpriced[models,] += used.unpriced_attempts
            tokens[models, "input"] += used.input_tokens - used.cached_tokens
            tokens[models, "cached"] += used.cached_tokens
            tokens[models, "output"] += used.output_tokens
    yield _counter("cost_usd", "Known cost in US dollars", ["model"], usd.items())
    yield _counter("unpriced_attempts", "Attempts whose cost is not known", ["model"], unpriced.items())
    yield _counter("tokens", "Tokens, where input is without what came from caches", ["model", "type"], tokens.items())


def _gauge(name: str, words: str, labels: Sequence[str], found: Iterable[tuple[tuple[str, ...], float]]) -> "Metric":
    from prometheus_client.metrics_core import GaugeMetricFamily

    family = GaugeMetricFamily(f"forgepool_{name}", words, labels=labels)
    for values, number in found:
        family.add_metric(values, number)
    return family


def _counter(name: str, words: str, labels: Sequence[str], found: Iterable[tuple[tuple[str, ...], float]]) -> "Metric":
    from prometheus_client.metrics_core import CounterMetricFamily

    family = CounterMetricFamily(f"forgepool_{name}", words, labels=labels)
    for values, number in found:
        family.add_metric(values, number)
    return family


def metrics_endpoint(home: HomeView) -> "Callable[[WebDesk, Request], Awaitable[Response]]":
    """Return the endpoint that a Prometheus scrapes, with a token as its credentials."""
    metrics = HomeMetrics(home)

    async def scrape(desk: WebDesk, request: "Request") -> "Response":
        from starlette.concurrency import run_in_threadpool

        if visitor_of(desk, request) is None:
            return plain(401, "a token is needed as `Authorization: Bearer`; `forgepool serve --tokens` prints it")
        accept = request.headers.get("accept", "")
        make = partial(_render, metrics, accept)
        return await run_in_threadpool(desk.shared.take, ("/metrics", accept), time.monotonic(), make)

    return scrape


def _render(metrics: HomeMetrics, accept: str) -> "Response":
    from prometheus_client.exposition import choose_encoder
    from starlette.responses import Response

    encode, kind = choose_encoder(accept)
    return Response(encode(metrics), headers={"content-type": kind})
