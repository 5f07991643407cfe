"""`/metrics` says what the journals say, in few series, and never counts backwards."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import Machine
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from web_home import WebServer, serving
from written_runs import BEGAN, append, fail_task, land_task, written_run

from forgepool.orchestrator.interfaces.export.metrics import HomeMetrics
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.reports.home import HomeView
from forgepool.workers.schema.settings import Settings

ROOT = Path(__file__).parents[4]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


def numbers(text: str) -> dict[str, float]:
    """Return the series with their numbers, as `name{label=value}`."""
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(metrics: HomeMetrics) -> dict[str, float]:
    return numbers(generate_latest(metrics).decode())


EXPECTED = {
    "forgepool_runs state=running": 1,
    "forgepool_tasks kind=run phase=landed": 1,
    "forgepool_tasks kind=run phase=failed": 1,
    "forgepool_tasks kind=run phase=running": 1,
    "forgepool_attempts_total": 3,
    "forgepool_attempt_outcomes_total outcome=candidate": 2,
    "forgepool_landings_total outcome=landed": 1,
    "forgepool_returns_total reason=check_failed": 1,
    "forgepool_check_seconds_count verdict=green": 1,
    "forgepool_check_seconds_sum verdict=red": 20,
    "forgepool_check_seconds_bucket le=15.0 verdict=green": 0,
    "forgepool_check_seconds_bucket le=60.0 verdict=green": 1,
    "forgepool_message_wait_seconds_sum kind=order": 4,
    "forgepool_message_wait_seconds_sum kind=check": 1,
    "forgepool_queue_wait_seconds_sum": 30,
    "forgepool_cost_usd_total model=claude-x": 0.5,
    "forgepool_run_cost_usd model=claude-x run=r-1": 0.5,
    "forgepool_tokens_total model=claude-x type=input": 1200,
    "forgepool_tokens_total model=claude-x type=cached": 800,
    "forgepool_tokens_total model=claude-x type=output": 400,
    "forgepool_messages_waiting kind=order": 1,
    "forgepool_queue_length run=r-1 target=t": 0,
    "forgepool_attention cause=failed": 1,
    "forgepool_attention cause=question": 0,
    "forgepool_hosts state=well": 1,
    "forgepool_hosts state=suspended": 1,
    "forgepool_host_suspensions_total": 1,
}


def test_the_figures_are_those_of_the_journal(settings: Settings) -> None:
    suspended = e.HostSuspended(host="ill", why="its disk is full", until=BEGAN + 9999)
    events = [*land_task("a"), *fail_task("b"), (91.0, suspended), *((92.0, one[1]) for one in land_task("c")[:1])]
    with written_run(settings, "abc", events):
        found = scrape(HomeMetrics(HomeView(settings)))
    assert {name: found.get(name) for name in EXPECTED} == EXPECTED


def test_a_scrape_takes_in_what_is_new_and_a_removed_run_stays_counted(settings: Settings) -> None:
    with written_run(settings, "abc", land_task("a")) as journal:
        metrics = HomeMetrics(HomeView(settings))
        assert scrape(metrics)["forgepool_landings_total outcome=landed"] == 1
        append(journal, fail_task("b"))
        before = scrape(metrics)
        assert before["forgepool_returns_total reason=check_failed"] == 1
        assert scrape(HomeMetrics(HomeView(settings))) == before, "a server that is started again counts the same"
    shutil.rmtree(settings.home / "runs" / "r-1")
    after = scrape(metrics)
    totals = {name: number for name, number in before.items() if re.match(r"\w+_(total|count|sum|bucket)\b", name)}
    assert totals and {name: after[name] for name in totals} == totals
    assert "forgepool_runs state=running" not in after


def test_the_number_of_series_does_not_grow_with_the_tasks(settings: Settings) -> None:
    """Prometheus keeps each series for ever: one for each task would end it."""
    with written_run(settings, "abc", [*land_task("a"), *fail_task("b")]):
        small = scrape(HomeMetrics(HomeView(settings)))
    shutil.rmtree(settings.home / "runs" / "r-1")
    names = [f"t{number}" for number in range(20)]
    events = [*land_task("t0"), *(one for name in names[1:19] for one in fail_task(name))]
    with written_run(settings, names, events):
        large = scrape(HomeMetrics(HomeView(settings)))
    assert small["forgepool_tasks kind=run phase=landed"] == 1 and large["forgepool_tasks kind=run phase=failed"] == 18
    assert large.keys() == small.keys() and len(large) < 200


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    machine = Machine(folder=tmp_path, name="host-1")
    machine.home.mkdir()
    settings = Settings(home=machine.home, cache=machine.cache)
    with written_run(settings, "abc", [*land_task("a"), *fail_task("b")]), serving(machine) as started:
        yield started


def test_a_program_with_a_viewers_token_scrapes_what_the_dashboard_shows(server: WebServer) -> None:
    refused = server.ask("GET", "/metrics")
    assert (refused.status, "forgepool serve --tokens" in refused.text) == (401, True)
    page = server.get("/metrics")
    assert (page.status, page.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    served = {name.partition(" ")[0] for name in numbers(page.text)}
    served |= {family.name for family in text_string_to_metric_families(page.text)}
    assert numbers(page.text)["forgepool_landings_total outcome=landed"] == 1
    open_metrics = server.ask(
        "GET", "/metrics", token=server.tokens["viewer"], accept="application/openmetrics-text;version=1.0.0"
    )
    assert open_metrics.text.endswith("# EOF\n")
    dashboard = json.loads((ROOT / "docs" / "reference" / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    named = {name for expression in asked for name in re.findall(r"\bforgepool_\w+", expression)}
    assert len(asked) >= 10 and named <= served, f"the dashboard shows what is not served: {named - served}"
