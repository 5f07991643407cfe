"""The terminal's screens: what they show follows the journals, and an action is the command line's word."""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import Repository, make_repository
from plans import RUN, answered, check_sent, queued, review_sent, sent, task, verdict
from textual.pilot import Pilot
from textual.widgets import Static

from forgepool.orchestrator.decisions.plan_index import gate_plan
from forgepool.orchestrator.interfaces.watch.command import watch
from forgepool.orchestrator.interfaces.watch.dialog import ActionDialog
from forgepool.orchestrator.interfaces.watch.panes import home_pane, run_pane
from forgepool.orchestrator.interfaces.watch.screens import ListScreen, TaskScreen, WatchApp
from forgepool.orchestrator.interfaces.watch.source import OwnHome
from forgepool.orchestrator.interfaces.watch.widgets import LongText, RowList, cut_lines, cut_middle
from forgepool.orchestrator.interfaces.web.pages import RowFilter
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    EntrySubmitted,
    Event,
    MessageTaken,
    RunStarted,
    TaskFailed,
    TaskParked,
)
from forgepool.orchestrator.journal.inbox import waiting
from forgepool.orchestrator.journal.store import Journal, read
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.reports.home import HomeView, RunSummary
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import NoSuchRun, RunOptions, keep
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.workspace import attempt_logs

HOSTILE = "[bold red]taken[/] \x1b]0;taken\x07\x1b[31mred\x1b[0m ‮evil"
SHOWN = "[bold red]taken[/] red \\u202eevil"
QUEUE = "gate-t"
NAMES = tuple(f"t{number}" for number in range(6))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return a repository with two commits: the base, and a candidate."""
    made = make_repository(tmp_path_factory.mktemp("hub") / "hub", {"README.md": "hello\n"})
    (made.path / "new.txt").write_text("[b]new[/b]\n")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "Add it")
    return made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


def begin_run(settings: Settings, hub: Path) -> Journal:
    """Begin a run whose tasks need a person's review."""
    tasks = [task(name, agent=BuiltinAgent(), files=(f"{name}.txt",), title=HOSTILE) for name in NAMES]
    options = RunOptions(run=RUN, hub=str(hub), target="t", workers=1, plan_file="p.yaml", plan_file_digest="")
    plan = Plan(name="p", checks="none", tasks=tuple(tasks), review=PlanReview(person=True))
    journal = Journal(keep(settings, options, plan).folder)
    journal.append([RunStarted(run=RUN, plan_digest="d", hub=str(hub), target="t", tip="c0")], at=100.0)
    return journal


def asks(name: str) -> list[Event]:
    asking = answered(name, 1, "needs_human", question=HOSTILE, resumable=True)
    return [sent(name), asking, TaskParked(task=name, question=HOSTILE, why="question")]


def wants_approval(name: str, attempt: int = 1, *, commit: str = "", base: str = "c0") -> list[Event]:
    answer = answered(name, attempt)
    answer = answer.model_copy(update={"result": answer.result.model_copy(update={"commit": commit or "c" * 40})})
    waits = TaskParked(task=name, question="a person has to approve it", why="review")
    return [sent(name, attempt, base=base), answer, queued(name, reviewed=True), waits]


def begin_queue(settings: Settings) -> None:
    """Keep a queue that no process serves, with two entries in line."""
    options = RunOptions(run=QUEUE, hub="/hub", target="t", workers=1, plan_file="", plan_file_digest="", gate=True)
    journal = Journal(keep(settings, options, gate_plan(QUEUE, "t")).folder)
    entries = [
        EntrySubmitted(task=name, branch=f"feature/{name}", revision=1, commit=name * 20, title=name) for name in "ab"
    ]
    journal.append([RunStarted(run=QUEUE, plan_digest="", hub="/hub", target="t", tip="c0"), *entries], at=time.time())
    journal.close()


@contextmanager
def kept(journal: Journal) -> Iterator[Journal]:
    try:
        yield journal
    finally:
        journal.close()


Steps = Callable[[WatchApp, Pilot[BaseException]], Awaitable[None]]


def play(settings: Settings, steps: Steps, run: str = "") -> None:
    """Open the screens on a terminal of 80x24, and take the steps."""

    async def go() -> None:
        app = WatchApp(OwnHome(home=HomeView(settings)), run)
        async with app.run_test(size=(80, 24)) as pilot:
            await steps(app, pilot)
        assert app.return_value is None, app.return_value

    asyncio.run(go())


def text_of(app: WatchApp) -> str:
    """Return all texts of the screen on top."""
    lines = [str(one.content) for one in app.screen.query(Static)]
    lines += [line for one in app.screen.query(LongText) for _, line in one._folded]
    lines += [str(option.prompt) for one in app.screen.query(RowList) for option in one.options]
    return "\n".join(lines)


async def see(app: WatchApp, words: str) -> None:
    """Wait until the screen shows the words."""
    for _ in range(200):
        if words in text_of(app):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no {words!r} in: {text_of(app)}")


async def open_task(app: WatchApp, pilot: Pilot[BaseException], words: str) -> None:
    """Choose the first row of the list that has the focus, and wait for the words."""
    for _ in range(200):
        if isinstance(app.focused, RowList) and app.focused.current():
            break
        await asyncio.sleep(0.05)
    await pilot.press("enter")
    await see(app, words)
    assert isinstance(app.screen, TaskScreen)


def kinds(settings: Settings, run: str) -> list[str]:
    return [one.event.kind for one in read(settings.home / "runs" / run)]


def lives(name: str) -> list[list[Event]]:
    """Return ways that a task can go, as events in their order."""
    taken = MessageTaken(message_id=f"{RUN}.{name}.1", host="h", pid=1)
    reason = ReasonPack(attempt=1, kind="agent_failed", summary=f"{name} is red")
    checked = [sent(name), taken, answered(name), queued(name), check_sent(name)]
    return [
        asks(name),
        [sent(name), taken, answered(name, 1, "agent_failed"), TaskFailed(task=name, reason=reason)],
        [*checked, CheckAnswered(task=name, result=verdict(name))],
        [sent(name), taken, answered(name), queued(name, reviewed=True), review_sent(name)],
    ]


@pytest.mark.parametrize(("run", "seed"), [("", 1), (RUN, 2), (RUN, 3)])
def test_a_screen_that_was_open_shows_what_a_fresh_start_shows(settings: Settings, run: str, seed: int) -> None:
    chance = random.Random(seed)
    left = [chance.choice(lives(name)) for name in NAMES]

    async def steps(app: WatchApp, pilot: Pilot[BaseException]) -> None:
        screen = app.screen
        assert isinstance(screen, ListScreen)
        while any(left):
            some = [chance.choice([one for one in left if one]) for _ in range(chance.randint(1, 6))]
            journal.append([one.pop(0) for one in some if one], at=time.time())
            for _ in range(400):  # A row that tells minutes is made again after 15 s at the latest.
                fresh = HomeView(settings)
                wanted = run_pane(fresh, run, RowFilter()) if run else home_pane(fresh)
                if screen.pane == wanted:
                    break
                await asyncio.sleep(0.05)
            assert screen.pane == wanted
            rows = screen.query_one("#rows", RowList)
            assert rows.rows == wanted.rows and rows.option_count == len(wanted.rows)

    with kept(begin_run(settings, Path("/hub"))) as journal:
        play(settings, steps, run)


def test_foreign_text_is_shown_as_text(settings: Settings, hub: Repository) -> None:
    with kept(begin_run(settings, hub.path)) as journal:
        journal.append(asks("t0"), at=time.time())
    logs = attempt_logs(settings.home / "runs" / RUN, "t0", 1)
    logs.mkdir(parents=True)
    (logs / "agent.log").write_text(f"{HOSTILE}\n")

    async def steps(app: WatchApp, pilot: Pilot[BaseException]) -> None:
        await see(app, f"It asks: {SHOWN}")
        await open_task(app, pilot, SHOWN)
        await pilot.press("4")
        await see(app, "agent, attempt 1 (log 1 of 1)")
        assert SHOWN in text_of(app)
        drawn = app.export_screenshot().replace("&#160;", " ")
        assert "[bold red]taken[/] red" in drawn and "\x1b" not in drawn

    play(settings, steps)


def test_an_answer_is_journaled_at_once_where_no_process_runs_the_run(settings: Settings, hub: Repository) -> None:
    with kept(begin_run(settings, hub.path)) as journal:
        journal.append(asks("t0"), at=time.time())

    async def steps(app: WatchApp, pilot: Pilot[BaseException]) -> None:
        await open_task(app, pilot, "a Answer")
        await pilot.press("a")
        await see(app, f"$ forgepool answer {RUN} t0 TEXT")
        await pilot.press("enter", "enter")
        await see(app, "the answer is empty; write one")
        await pilot.press("shift+tab", *"tabs", "enter", "enter")
        await see(app, ". ready")

    play(settings, steps)
    (replied,) = (one.event for one in read(settings.home / "runs" / RUN) if one.event.kind == "task.replied")
    assert replied.reply.answer == "tabs" and replied.reply.by


def test_a_live_run_finds_the_word_in_its_inbox(settings: Settings, hub: Repository) -> None:
    with kept(begin_run(settings, hub.path)) as journal:
        journal.append(wants_approval("t0", commit="c" * 40), at=time.time())

        async def steps(app: WatchApp, pilot: Pilot[BaseException]) -> None:
            await open_task(app, pilot, "x Reject")
            await pilot.press("x", *"short", "enter", "enter")
            await pilot.pause()
            while isinstance(app.screen, ActionDialog):
                await asyncio.sleep(0.05)

        play(settings, steps)
        ((_, left),) = waiting(settings.home / "runs" / RUN)
    assert (left.do, left.task, left.text, left.candidate) == ("reject", "t0", "short", "c" * 40)


def test_an_approval_holds_for_the_candidate_that_is_shown(settings: Settings, hub: Repository) -> None:
    base, commit = (hub.git("rev-parse", name).strip() for name in ("HEAD~1", "HEAD"))
    with kept(begin_run(settings, hub.path)) as journal:
        journal.append(wants_approval("t0", commit=commit, base=base), at=time.time())

    async def steps(app: WatchApp, pilot: Pilot[BaseException]) -> None:
        await open_task(app, pilot, "y Approve")
        await pilot.press("3")
        await see(app, "+[b]new[/b]")
        await pilot.press("y")
        await see(app, f"Approve {commit[:12]}")
        reason = ReasonPack(attempt=1, kind="rejected", summary="no")
        with kept(Journal(settings.home / "runs" / RUN)) as journal:
            journal.append([_rejected("t0", reason), *wants_approval("t0", 2)], at=time.time())
        await pilot.press("enter")
        await see(app, "'t0' has another candidate by now")
        await pilot.press("escape")
        await see(app, "c" * 12)

    play(settings, steps)
    assert "task.approved" not in kinds(settings, RUN)


def _rejected(name: str, reason: ReasonPack) -> Event:
    from forgepool.orchestrator.journal.events import TaskRejected

    return TaskRejected(task=name, by="Ada", reason=reason, again=True)


def test_the_keys_of_a_queue_do_what_its_commands_do(settings: Settings) -> None:
    begin_queue(settings)

    async def steps(app: WatchApp, pilot: Pilot[BaseException]) -> None:
        await see(app, " 1 feature/a")
        await pilot.press("z")
        await see(app, "$ forgepool queue pause WHY --target t")
        await pilot.press(*"lunch", "enter")
        await see(app, "The queue is paused: lunch")
        await pilot.press("g", "enter")
        await see(app, "z Pause")
        assert isinstance(app.focused, RowList) and app.focused.id == "wants" and len(app.focused.rows) == 1
        await pilot.press("up", "down")
        assert app.focused is app.screen.query_one("#rows"), "Down goes on from the upper list"
        await pilot.press("h")
        await see(app, "h Hold")
        assert isinstance(app.screen, TaskScreen), "a key of an entry opens it first"
        await pilot.press("h", "enter")
        await see(app, "l Release")
        await pilot.press("l", "enter")
        await see(app, "h Hold")
        await pilot.press("p", *"soon", "enter")
        await see(app, "'soon' is none of ")
        await pilot.press("escape", "p", *"hotfix", "enter")
        await see(app, "hotfix")
        await pilot.press("c", "enter")
        await see(app, "Are you sure?")
        assert "task.cancelled" not in kinds(settings, QUEUE)
        await pilot.press("enter")
        await see(app, "withdrawn")
        await pilot.press("r", "enter")
        await see(app, "c Withdraw")

    play(settings, steps, QUEUE)
    assert kinds(settings, QUEUE)[3:] == [
        *("gate.paused", "gate.resumed", "entry.held", "entry.held", "entry.reclassed"),
        *("task.cancelled", "entry.submitted"),
    ]


def test_a_cut_text_says_so_and_a_cut_name_keeps_its_end() -> None:
    assert cut_lines("one two three four", 9, 3) == ["one two ", "three ", "four"]
    assert cut_lines("one two three four", 9, 2) == ["one two ", "three…"]
    assert cut_lines("one two three", 9, 0) == []
    assert cut_middle("p-1", 5) == "p-1  "
    assert cut_middle("a-long-plan-20261127-2201", 12) == "a-long…-2201"


def test_a_run_that_goes_away_is_told_in_one_sentence(settings: Settings) -> None:
    begin_run(settings, Path("/hub")).close()

    async def steps(app: WatchApp, pilot: Pilot[BaseException]) -> None:
        await see(app, "0 of 6 done")
        (settings.home / "runs" / RUN / "options.json").unlink()
        await see(app, f"there is no run '{RUN}'")
        await pilot.press("c", "escape")
        await see(app, "There are no runs yet")
        assert isinstance(app.screen, ListScreen)

    play(settings, steps, RUN)


class Broken(HomeView):
    def summaries(self) -> list[RunSummary]:
        raise ZeroDivisionError


def test_a_bug_ends_the_screens_and_is_left_to_the_command_line(settings: Settings) -> None:
    async def go() -> BaseException | None:
        app = WatchApp(OwnHome(home=Broken(settings)))
        async with app.run_test(size=(80, 24)):
            while app.is_running:
                await asyncio.sleep(0.05)
        return app.return_value

    assert isinstance(asyncio.run(go()), ZeroDivisionError)


def test_a_signal_ends_the_screens_as_their_key_does(settings: Settings) -> None:
    """They put the terminal back as it was, which a process that dies of the signal cannot."""

    async def steps(app: WatchApp, pilot: Pilot[BaseException]) -> None:
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            while app._exit is False:
                await pilot.pause()

    play(settings, steps)


def test_what_cannot_be_shown_is_one_sentence(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setenv("FORGEPOOL_HOME", str(settings.home))
    with pytest.raises(NoSuchRun, match="there are no runs yet"):
        watch("nothing")
    with pytest.raises(CannotRun, match="needs a terminal; without one, `forgepool attention`"):
        watch()
