"""The hosts of a home: those at its shared Redis, and those that answered in runs which are live."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from forgepool.orchestrator.cli.hosts import list_present_hosts
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.reports.event_text import clock
from forgepool.orchestrator.reports.home import HomeView, RunLook
from forgepool.workers.queue import broker as wire


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringHost:
    """A host in a live run."""

    host: str
    run: str
    held: int
    """Messages of the run that it works on."""
    answers: int
    failed: int
    """Of its last answers, those that infrastructure has failed."""
    suspended: str
    """The reason why it gets no orders for now; empty where it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsBody:
    shared: bool
    """A shared Redis is set."""
    trouble: str
    """The sentence of a Redis that cannot be asked."""
    present: list[dict[str, JsonValue]]
    """The rows of `forgepool hosts --json`."""
    answered: tuple[AnsweringHost, ...]


def hosts_of(home: HomeView) -> HostsBody:
    """Return the hosts; asks Redis where one is shared."""
    url, trouble = home.settings.broker_url, ""
    present: list[dict[str, Any]] = []
    if url is not None:
        try:
            client = wire.connect(url)
            wire.ping(client, url)
            present = list_present_hosts(client)
            client.close()
        except (*wire.BrokerAway, wire.BrokerRefused) as away:
            trouble = str(away)
    return HostsBody(shared=url is not None, present=present, trouble=trouble, answered=tuple(_answered(home)))


def _answered(home: HomeView) -> Iterator[AnsweringHost]:
    """Yield the hosts of live runs, with what they work on and how well they answered."""
    for one in home.summaries():
        if one.live:
            try:
                yield from home.view(one.run).look(_hosts_in)
            except JournalUnreadable:
                continue


def _hosts_in(look: RunLook) -> list[AnsweringHost]:
    state = look.state
    held = Counter(holder.rpartition("/")[0] for one in state.outstanding().values() if (holder := state.holder(one)))
    names = sorted(set(held) | set(state.hosts))
    return [
        AnsweringHost(
            host=name,
            run=state.run,
            held=held[name],
            answers=len(health.last) if (health := state.hosts.get(name)) else 0,
            failed=sum(health.last) if health else 0,
            suspended=f"{health.why}; probed at {clock(health.until, state.at)}" if health and health.until else "",
        )
        for name in names
    ]
