"""
Prints how long, and with how much CPU, a run is exported as a trace, and /metrics is scraped.

    python benchmarks/fleet/export.py [--tasks 455] [--many 10000]

The trace is that of a run of 455 tasks, which are 5,006 events: its journal is read and folded, and its spans are sent
to a collector on this machine that decodes them. The scrapes are of a run of 10,000 tasks, with their series.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

sys.path.append(str(Path(__file__).parents[2] / "tests"))

import find_helpers  # noqa: F401  # before any helper
from prometheus_client.exposition import generate_latest
from span_collector import SpanCollector
from written_runs import BEGAN, land_task, written_run

from forgepool.orchestrator.interfaces.export.metrics import HomeMetrics
from forgepool.orchestrator.interfaces.export.otlp import make_spans, send_spans
from forgepool.orchestrator.interfaces.export.traces import trace_run
from forgepool.orchestrator.reports.home import HomeView
from forgepool.orchestrator.run import run_folder
from forgepool.workers.schema.settings import Settings


def measure(what: str, work: Callable[[], object]) -> None:
    began, used = time.perf_counter(), time.process_time()
    said = work()
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    print(f"{what:<40} {seconds:6.2f} s, {cpu:6.2f} s of CPU   {said}", flush=True)


def export_once(settings: Settings, url: str) -> str:
    kept = run_folder.find(settings, None)
    state, recorded = kept.replay()
    spans = list(make_spans(state.run, trace_run(kept.course, state, recorded), state.at))
    send_spans(spans, url)
    return f"{len(recorded):,} events, {len(spans):,} spans"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=455)
    parser.add_argument("--many", type=int, default=10_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, SpanCollector() as collector:
        Thread(target=collector.serve_forever, daemon=True).start()
        few, many = (Settings(home=Path(folder) / name, cache=Path(folder) / "cache") for name in ("few", "many"))
        names = [f"t{number}" for number in range(asked.tasks)]
        with written_run(few, names, [one for name in names for one in land_task(name)]):
            for what in ("export, the library imported too", "export again"):
                measure(what, lambda: export_once(few, f"http://127.0.0.1:{collector.server_port}"))
        names = [f"t{number}" for number in range(asked.many)]
        with written_run(many, names, [one for name in names[:-1] for one in land_task(name)]) as journal:
            metrics = HomeMetrics(HomeView(many))

            def scrape() -> str:
                lines = generate_latest(metrics).decode().splitlines()
                return f"{sum(not line.startswith('#') for line in lines)} series"

            measure("first scrape", scrape)
            measure("scrape with nothing new", scrape)
            journal.append([land_task(names[-1])[0][1]], at=BEGAN + 100)
            measure("scrape with one new event", scrape)
        collector.shutdown()


if __name__ == "__main__":
    main()
