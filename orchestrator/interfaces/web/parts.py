"""Parts of pages: the locks and the needs of a run, the money of all runs, and the hosts of a home."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from pydantic import JsonValue

from forgepool.orchestrator.cli.hosts import change_host, list_present_hosts
from forgepool.orchestrator.interfaces.web.text import cut_name
from forgepool.orchestrator.interfaces.words import Tone, clean, state_words, tone
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.reports.costs import MoneyRow, RunBill, add_bills
from forgepool.orchestrator.reports.home import HomeView, RunLook, RunSummary
from forgepool.orchestrator.reports.host_text import clock
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.state.task import IN_FLIGHT, TERMINAL
from forgepool.workers.queue import broker as wire
from forgepool.worktrees.errors import UserError

MOST_DRAWN = 200
"""Tasks of a graph; a larger one is a list."""
_MOST_LOCKS, _MOST_NAMES = 40, 8
_MOST_LISTED = 100
_COLUMN, _WIDE, _ROW, _HIGH, _LANE, _PAD = 220, 180, 44, 35, 8, 6
_quote = partial(quote, safe="")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRow:
    """The paths that one task holds, and the tasks that could start without that."""

    task: str
    words: str
    tone: Tone
    holds: tuple[str, ...]
    more_holds: int
    waiters: tuple[str, ...]
    more_waiters: int


def locks_of(look: RunLook) -> list[LockRow]:
    """Return the tasks in flight with their locks, those first for which others wait."""
    state, course = look.state, look.course
    if look.kept.options.gate:
        return []
    done = course.find_done(state)
    able = [task.id for task in state.in_phase("pending") if course.graph.needs_landed(task.id, done)]
    rows = []
    for task in state.in_phase(*IN_FLIGHT)[:MOST_DRAWN]:
        lock = course.lock(task)
        holds = [pattern.text for pattern in lock.patterns] if lock is not None else []
        out = course.graph.find_locked_out(task.id, lock)
        waiters = [one for one in able if one in out]
        rows.append(
            LockRow(
                task=task.id,
                words=state_words(task.phase),
                tone=tone(task.phase),
                holds=tuple(holds[:_MOST_NAMES]),
                more_holds=max(0, len(holds) - _MOST_NAMES),
                waiters=tuple(waiters[:_MOST_NAMES]),
                more_waiters=max(0, len(waiters) - _MOST_NAMES),
            )
        )
    rows.sort(key=lambda row: -len(row.waiters))
    return rows[:_MOST_LOCKS]


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsRow:
    """A task that has not ended, in a plan that is too large to draw."""

    task: str
    words: str
    tone: Tone
    needs: int
    behind: int
    """The tasks that need it, directly or through others."""


def needs_of(look: RunLook) -> dict[str, object]:
    """Return the drawing of a plan's needs; of a large one, the tasks that most others wait for."""
    if look.kept.options.gate:
        return {"drawing": None, "rows": []}
    if len(look.state.tasks) <= MOST_DRAWN:
        return {"drawing": _drawing(look), "rows": []}
    graph = look.course.graph
    left = [task for task in look.state.tasks.values() if task.phase not in TERMINAL]
    left.sort(key=lambda task: (-graph.dependents(task.id), task.id))
    rows = [
        NeedsRow(
            task=task.id,
            words=state_words(task.phase),
            tone=tone(task.phase),
            needs=len(graph.tasks[task.id].needs),
            behind=graph.dependents(task.id),
        )
        for task in left[:_MOST_LISTED]
    ]
    return {"drawing": None, "rows": rows}


def _drawing(look: RunLook) -> Markup:
    """Return each task right of those it needs, with a line from each of them."""
    places = _places(look)
    lanes = _lanes(look, places)
    wide = _PAD + _COLUMN * (1 + max((column for column, _ in places.values()), default=0))
    ends = (*(_corner(place)[1] + _ROW for place in places.values()), *(y + _LANE for y in lanes.values()))
    high = _PAD + max(ends, default=0)
    body = Markup("").join((*_lines(look, places, lanes), *_nodes(look, places)))
    return Markup('<svg class="graph" width="{0}" height="{1}" viewBox="0 0 {0} {1}">{2}</svg>').format(
        wide, high, body
    )


def _places(look: RunLook) -> dict[str, tuple[int, int]]:
    """Return the column and the row of each task: the column after the last of those it needs."""
    graph = look.course.graph
    first = [task for task, needs in graph.tasks.items() if not needs.needs]
    columns: dict[str, int] = {}
    filled: dict[int, int] = {}
    places = {}
    for task in (*first, *graph.after_all(first)):
        column = columns[task] = max((columns[need] + 1 for need in graph.tasks[task].needs), default=0)
        row = filled.get(column, 0)
        places[task], filled[column] = (column, row), row + 1
    return places


def _lanes(look: RunLook, places: Mapping[str, tuple[int, int]]) -> dict[tuple[str, int], int]:
    """Return where lines from a task pass a column: below its boxes. Behind a box, a line would seem to end there."""
    boxes = Counter(column for column, _ in places.values())
    lanes: dict[tuple[str, int], int] = {}
    used = Counter[int]()
    for task, (last, _) in places.items():
        for need in look.course.graph.tasks[task].needs:
            for column in range(places[need][0] + 1, last):
                if (need, column) not in lanes:
                    lanes[need, column] = _PAD + _ROW * boxes[column] + _LANE * used[column]
                    used[column] += 1
    return lanes


def _lines(
    look: RunLook, places: Mapping[str, tuple[int, int]], lanes: Mapping[tuple[str, int], int]
) -> Iterator[Markup]:
    for task, place in places.items():
        for need in look.course.graph.tasks[task].needs:
            x, y = _corner(places[need])
            x, y = x + _WIDE, y + _HIGH // 2
            path = f"M{x} {y}"
            for column in range(places[need][0] + 1, place[0] + 1):
                to_x = _corner((column, 0))[0]
                to_y = lanes[need, column] if column < place[0] else _corner(place)[1] + _HIGH // 2
                middle = (x + to_x) // 2
                path += f"C{middle} {y} {middle} {to_y} {to_x} {to_y}"
                x, y = to_x + _WIDE, to_y
                path += f"H{x}" if column < place[0] else ""
            yield Markup('<path class="edge" d="{}"/>').format(path)


def _nodes(look: RunLook, places: Mapping[str, tuple[int, int]]) -> Iterator[Markup]:
    run = look.kept.options.run
    for task, place in places.items():
        x, y = _corner(place)
        phase = look.state.tasks[task].phase
        yield Markup(
            '<a href="/runs/{}/tasks/{}"><title>{}: {}</title><rect class="node {}" x="{}" y="{}" width="{}" '
            'height="{}" rx="4"/><text x="{}" y="{}">{}</text><text class="{}" x="{}" y="{}">{}</text></a>'
        ).format(
            *(_quote(run), _quote(task), clean(task), state_words(phase), tone(phase)),
            *(x, y, _WIDE, _HIGH, x + 8, y + 14, cut_name(clean(task)), tone(phase), x + 8, y + 28, state_words(phase)),
        )


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return _PAD + place[0] * _COLUMN, _PAD + place[1] * _ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeMoney:
    """The usage of all runs of a home."""

    used: RunBill
    waste: RunBill
    runs: tuple[MoneyRow, ...]
    """Those that used a model, the most expensive first."""


def home_money(summaries: Sequence[RunSummary]) -> HomeMoney:
    spent = [one for one in summaries if one.used.counts]
    spent.sort(key=lambda one: (-one.used.priced_usd, -one.used.input_tokens))
    return HomeMoney(
        used=add_bills(one.used for one in spent),
        waste=add_bills(one.waste for one in spent),
        runs=tuple(MoneyRow(name=one.run, attempts=one.total, used=one.used) for one in spent),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringHost:
    """A host in a live run."""

    host: str
    run: str
    held: int
    """Messages of the run that it works on."""
    answers: int
    failed: int
    """The part of its last answers that infrastructure has failed."""
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


def act_on_host(home: HomeView, given: dict[str, str]) -> str:
    """Drain or readmit the host that a form names; return what follows. Raises CannotRun."""
    url, do, host = home.settings.broker_url, given.get("do", ""), given.get("host", "")
    if url is None:
        raise CannotRun("no shared Redis is set (FORGEPOOL_BROKER_URL), so no host can be drained")
    if do not in ("drain", "readmit"):
        raise CannotRun(f"'{do[:40]}' is no action; actions are: drain, readmit")
    try:
        with wire.connect(url) as client:
            wire.ping(client, url)
            names = [str(one["host"]) for one in list_present_hosts(client)]
            if host not in names:
                raise CannotRun(f"host '{host[:100]}' is not there any more; load the page again")
            return change_host(client, "drain" if do == "drain" else "readmit", host, names)
    except (*wire.BrokerAway, wire.BrokerRefused, UserError) as away:
        raise CannotRun(str(away)) from away


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
