"""Parts of pages that are made of a whole run, and what begins and ends with a run: its pages beside it."""

import http.client
import re
import signal
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kit import Machine, command, make_repository, wait_until, write_plan
from plans import RUN, answered, begun, course, follow, sent, task
from test_actions import after
from web_home import RealHome, serving

from forgepool.orchestrator.cli.run.pages_beside import serve_pages, wait_for_ctrl_c
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request, why_refused
from forgepool.orchestrator.interfaces.web.actions import act_on
from forgepool.orchestrator.interfaces.web.parts import MOST_DRAWN, locks_of, needs_of
from forgepool.orchestrator.interfaces.web.text import timeline
from forgepool.orchestrator.journal.events import (
    BudgetSet,
    Event,
    ProfileChosen,
    RunForecast,
    RunStarted,
    TaskReturned,
)
from forgepool.orchestrator.journal.inbox import waiting
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.reports.attention import Liveness
from forgepool.orchestrator.reports.costs import add_bills, report_money
from forgepool.orchestrator.reports.home import HomeView, RunLook
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import RunOptions, keep
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.queue.broker import PROTOCOL, Redis
from forgepool.workers.queue.leases import Present, announce, is_drained
from forgepool.workers.sandbox import tree
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack, Spent
from forgepool.workers.schema.settings import Settings


def look_at(folder: Path, of: PlanIndex, *events: Event) -> RunLook:
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="")
    kept = keep(Settings(home=folder), options, of.plan)
    return RunLook(kept=kept, course=of, state=begun(of, *events), alive=Liveness(live=True, now=1.0), began=1.0)


def test_a_lock_names_the_tasks_that_could_start_without_it(tmp_path: Path) -> None:
    of = course(
        task("a", files=["src/*.py"]), task("b", files=["src/x.py"]), task("c", "a", files=["src/y.py"]), task("d")
    )
    (row,) = locks_of(look_at(tmp_path, of, sent("a")))
    assert (row.task, row.holds, row.waiters, row.words) == ("a", ("src/*.py",), ("b",), "running")


def test_each_task_is_drawn_right_of_those_it_needs(tmp_path: Path) -> None:
    drawn = str(needs_of(look_at(tmp_path, course(task("a"), task("b", "a"), task("c", "a", "b"))))["drawing"])
    places = re.findall(r"<title>(\S+): \w+</title><rect[^>]* x=\"(\d+)\"", drawn)
    assert [name for name, x in sorted(places, key=lambda one: int(one[1]))] == ["a", "b", "c"]
    assert len({x for _, x in places}) == 3 and drawn.count('class="edge"') == 3
    assert f'href="/runs/{RUN}/tasks/a"' in drawn and drawn.count(">pending</text>") == 3
    (lane,), (top, height) = (
        re.findall(r" (\d+)H\d+", drawn),
        re.findall(r"<rect[^>]* y=\"(\d+)\".*?height=\"(\d+)", drawn)[1],
    )
    assert int(lane) >= int(top) + int(height), "the line from a to c passes below the box of b"


def test_a_large_plan_is_a_list_of_what_most_tasks_wait_for(tmp_path: Path) -> None:
    of = course(task("last", "first"), task("first"), *(task(f"t{n}", "first") for n in range(MOST_DRAWN)))
    shown = needs_of(look_at(tmp_path, of))
    assert shown["drawing"] is None
    assert [(row.task, row.behind) for row in shown["rows"][:1]] == [("first", MOST_DRAWN + 1)]  # type: ignore[index]  # a list


def test_money_by_task_and_by_model_adds_up_to_what_was_used() -> None:
    of = course(task("a"), task("b"), task("free"), budget=Budget(usd=9.0))
    spent = [Spent(cost_usd=usd, turns=1, input_tokens=100, cached_tokens=40, output_tokens=9) for usd in (1.0, 0.5)]
    events = (
        *(sent("a"), answered("a", 1, "agent_failed", spent=spent[0], models=("claude-x",))),
        *(sent("b"), answered("b", spent=spent[1], models=("gpt-y", "claude-x")), sent("free"), answered("free")),
    )
    state = begun(of, *events)
    report = report_money(state, of.ledger(state))
    assert [(row.name, row.used.cost_usd) for row in report.tasks] == [("a", 1.0), ("b", 0.5)]
    assert [(row.name, row.used.cost_usd) for row in report.models] == [("claude-x", 1.0), ("gpt-y, claude-x", 0.5)]
    assert report.used.cost_usd == add_bills(row.used for row in report.tasks).cost_usd == 1.5
    assert (report.waste.cost_usd, report.used.cached_share) == (1.5, 0.4), "nothing has landed yet"


def test_a_host_is_drained_and_readmitted_on_its_page(home: RealHome, redis_url: str, redis: Redis) -> None:
    announce(redis, Present(host="far", pid=1, queues=("orders",), concurrency=2, since=time.time(), protocol=PROTOCOL))
    machine = Machine(folder=home.machine.folder, name="host-1", broker=redis_url)
    with serving(machine) as server:
        cookie = server.enter("operator")
        origin = f"http://127.0.0.1:{server.port}"
        for do, drained in (("drain", True), ("readmit", False)):
            page = server.ask("GET", "/hosts", cookie=cookie).text
            form = re.search(r'action="/hosts/act">(.*?)</form>', page)
            assert form is not None and f'value="{do}"' in form[1], page
            fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[1]))
            assert server.post_to("/hosts/act", {**fields, "token": "x"}, cookie=cookie, origin=origin).status == 403
            said = after(server, server.post_to("/hosts/act", fields, cookie=cookie, origin=origin), cookie)
            assert said.startswith("far ") and is_drained(redis, "far") is drained
        gone = server.post_to("/hosts/act", {**fields, "host": "nope"}, cookie=cookie, origin=origin)
        assert (gone.status, "is not there any more" in gone.text) == (409, True)


def fetch(where: str, path: str, **headers: str) -> tuple[str, str]:
    """Return a page, and the cookie that it sets."""
    with closing(http.client.HTTPConnection(where, timeout=30)) as connection:
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as answer:
            return answer.read().decode(), answer.headers.get("set-cookie", "")


def test_it_is_told_that_the_pages_beside_a_run_died(tmp_path: Path) -> None:
    told = list[str]()
    with serve_pages(Settings(home=tmp_path), wanted=True, tell=told.append) as pages:
        assert pages is not None
        pages.process.kill()
        wait_for_ctrl_c(pages)
    assert [line.partition(": ")[0] for line in told] == [
        "to watch it in a browser, open this link; it works once",
        "the pages have ended too early",
    ]
    assert told[-1].endswith(": signal 9 ended their process")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_pages_beside_a_run_show_it_and_end_with_it(tmp_path: Path, redis_program: str, number: int) -> None:
    hub = make_repository(tmp_path / "hub", {"README.md": "hello\n"})
    machine = Machine(folder=tmp_path / "m", name="host-1")
    machine.folder.mkdir()
    tasks = [{"id": "sleeps", "agent": command("sleep 60"), "files": []}]
    plan = write_plan(machine.folder, {"name": "slow", "target": "slow", "checks": "none", "tasks": tasks})
    started = machine.start("run", plan, "--repo", hub.path, "--workers", "1", "--serve")
    link = wait_until(lambda: re.search(r"http://(\S+?)(/enter\S+)", started.out.read_text()), "its link")
    run = wait_until(lambda: next(iter(machine.runs()), None), "the run")
    wait_until(lambda: "message.taken" in [one.event.kind for one in machine.journal(run)], "its task under way")
    _, cookie = fetch(link[1], link[2])
    page, _ = fetch(link[1], f"/runs/{run}", cookie=cookie.partition(";")[0])
    assert ">running<" in page, "a run kills its orphans, and the pages are none"
    below = tree.descendants(started.pid)
    assert len(below) > 2
    started.process.send_signal(number)
    started.ended(within_s=60)
    wait_until(lambda: not any(map(tree.alive, below)), "the end of the pages and of all else")


def test_the_timeline_has_a_bar_for_each_attempt_and_a_line_for_the_forecast() -> None:
    state = RunState.blank(["a", "b"])
    forecast = RunForecast(seconds=(40.0, 50.0, 60.0), spans={"a": (0.0, 40.0), "b": (10.0, 50.0)})
    back = TaskReturned(task="a", reason=ReasonPack(attempt=1, kind="agent_failed", summary="a is red"))
    timed: list[tuple[float, Event]] = [
        (0.0, RunStarted(run=RUN, plan_digest="d", hub="/hub", target="t", tip="c0")),
        *((0.0, forecast), (1.0, sent("a")), (11.0, answered("a", 1, "agent_failed")), (12.0, back)),
        *((15.0, sent("a", 2)), (25.0, answered("a", 2))),
    ]
    for number, (at, event) in enumerate(timed, start=1):
        apply(state, event, number=number, at=at)
    drawn = str(timeline(state, 0.0, 30.0))
    said = re.findall(r'<rect class="([a-z ]+)"[^>]*><title>([^<]*)</title>', drawn)
    assert said == [
        ("bar off", "a, order 1: 10.0 s at work, 4.0 s after that"),
        ("bar after off", "a, order 1: 10.0 s at work, 4.0 s after that"),
        ("bar wait", "a, order 2: 10.0 s at work, 5.0 s after that"),
        ("bar after wait", "a, order 2: 10.0 s at work, 5.0 s after that"),
        ("promised", "a: forecast to take 40.0 s, from start to landing"),
        ("promised", "b: forecast to take 40.0 s, from start to landing"),
    ]


def test_a_budget_and_a_profile_are_changed_while_the_run_is_under_way(tmp_path: Path) -> None:
    settings, of = Settings(home=tmp_path, cache=tmp_path / "cache"), course(task("a", agent=BuiltinAgent()))
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="")
    folder, home = keep(settings, options, of.plan).folder, HomeView(settings)
    with closing(Journal(folder)) as journal:
        journal.append([RunStarted(run=RUN, plan_digest="d", hub="/hub", target="t", tip="c0"), sent("a")], at=1.0)
        for wrong in ("much", "0", "nan"):
            with pytest.raises(CannotRun, match=f"'{wrong}' is no budget; give a number above 0, such as 20"):
                act_on(home, RUN, {"do": "budget", "text": wrong})
        said = act_on(home, RUN, {"do": "budget", "text": "20"})
        assert said == f"The run is asked to change the budget of {RUN}; it does so at its next turn."
        said = act_on(home, RUN, {"do": "context", "task": "a", "text": "off"})
        assert said == "The run is asked to change the context profile of a; it does so at its next turn."
    requests = [request for _, request in waiting(folder)]
    state = begun(of, sent("a"))
    assert [grant_request(of, state, one) for one in requests] == [
        [BudgetSet(budget=Budget(usd=20.0))],
        [ProfileChosen(task="a", profile="off")],
    ]
    follow(state, BudgetSet(budget=Budget(usd=20.0)))
    assert grant_request(of, state, requests[0]) == [], "it has that budget already"
    use = replace(state.tasks["a"].uses[1], reserved_usd=30.0)
    state.tasks["a"].uses = {1: use}
    less = requests[0].model_copy(update={"budget": Budget(usd=25.0)})
    assert grant_request(of, state, less) == []
    assert "more of the budget of run" in (why_refused(of, state, less) or "")
