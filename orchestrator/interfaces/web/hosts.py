"""The hosts of a home: those at its shared Redis, and those that answered in runs which are live."""

from collections import Counter

from forgepool.orchestrator.cli.hosts import list_present_hosts
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.reports.event_text import clock
from forgepool.orchestrator.reports.home import HomeView, RunLook
from forgepool.workers.queue import broker as wire


def hosts_of(home: HomeView) -> dict[str, object]:
    """Return what the page of hosts shows."""
    url, trouble = home.settings.broker_url, ""
    present: list[dict[str, object]] = []
    if url is not None:
        try:
            client = wire.connect(url)
            wire.ping(client, url)
            present = list_present_hosts(client)
            client.close()
        except (*wire.BrokerAway, wire.BrokerRefused) as away:
            trouble = str(away)
    return {"shared": url is not None, "present": present, "trouble": trouble, "answered": list(_answered(home))}


def _answered(home: HomeView) -> list[dict[str, object]]:
    """Return the hosts of live runs, with what they work on and how well they answered."""
    found: list[dict[str, object]] = []
    for one in home.summaries():
        if one.live:
            try:
                found += home.view(one.run).look(_hosts_in)
            except JournalUnreadable:
                continue
    return found


def _hosts_in(look: RunLook) -> list[dict[str, object]]:
    state = look.state
    held = Counter(holder.rpartition("/")[0] for one in state.outstanding().values() if (holder := state.holder(one)))
    names = sorted(set(held) | set(state.hosts))
    return [
        {
            "host": name,
            "run": state.run,
            "held": held[name],
            "answers": len(health.last) if (health := state.hosts.get(name)) else 0,
            "failed": sum(health.last) if health else 0,
            "suspended": f"{health.why}; probed at {clock(health.until, state.at)}" if health and health.until else "",
        }
        for name in names
    ]
