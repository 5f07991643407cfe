"""The use of all runs of a home is the sum of their bills, to the cent, and nothing counts twice."""

import json
import time
from pathlib import Path

import pytest
from people import Person, person_in
from plans import RUN, answered, course, review_answered, review_sent, sent, task

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.plan.budget import SeenUse
from forgepool.orchestrator.reports.costs import RunBill, SpendBy, add_bills, bill, report_spending
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.neighbours.spending import RunSpending, SpendLine, keep_spending, read_home
from forgepool.orchestrator.run.run_folder import RunOptions
from forgepool.workers.schema.orders import BuiltinAgent, Spent
from forgepool.workers.schema.settings import Settings

PLAN = course(*(task(name, agent=BuiltinAgent()) for name in "abcd"), task("free")).plan
DAY_S = 24 * 3600.0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


def use(usd: float | None, tokens: int, turns: int = 1) -> Spent:
    return Spent(turns=turns, cost_usd=usd, input_tokens=tokens, cached_tokens=tokens // 2, output_tokens=7)


def keep(settings: Settings, name: str, *events: e.Event, hub: str = "/hub", at: float = 100.0) -> Journal:
    options = RunOptions(run=name, hub=hub, target="t", workers=1, plan_file="", plan_file_digest="")
    kept = run_folder.keep(settings, options, PLAN)
    journal = Journal(kept.folder)
    journal.append([e.RunStarted(run=RUN, plan_digest="d", hub=hub, target="t", tip="c0"), *events], at=at)
    return journal


def order(name: str, attempt: int = 1, *, usd: float | None = 5.0, at: float = 100.0, **said: object) -> e.OrderSent:
    return sent(name, attempt).model_copy(update={"reserved_usd": usd, "issued_at": at, **said})


def finished(name: str, spent: Spent, attempt: int = 1, **said: object) -> e.OrderAnswered:
    answer = answered(name, attempt, "infrastructure", spent=spent, models=("claude-x",))
    return answer.model_copy(update={"result": answer.result.model_copy(update=said)})


RESUMED = (
    order("a"),
    finished("a", use(0.3333, 1000), resumable=True),
    order("a", 2, at=100.0 + DAY_S, resumes=1),
    finished("a", use(1.1111, 3000), 2, includes=(1,), carried=use(0.3333, 1000)),
    order("b", usd=2.0),
    e.MessageTaken(message_id=f"{RUN}.b.1", host="h", pid=1),
    e.MessageLost(message_id=f"{RUN}.b.1", why="gone", used=SeenUse(used=use(0.25, 500), largest_turn=use(0.05, 100))),
    order("c", usd=None),
    finished("c", use(None, 800), models=("unpriced",)),
    order("free", usd=None),
    answered("free", spent=Spent()),
)


def bills(settings: Settings) -> RunBill:
    states = (run_folder.open_run(settings, name).state() for name in run_folder.run_names(settings))
    return add_bills([bill(state.uses()) for state in states])


@pytest.mark.parametrize("by", ["day", "project", "model", "task"])
def test_the_sums_are_those_of_the_bills_of_all_runs(settings: Settings, by: SpendBy) -> None:
    keep(settings, "p-1", *RESUMED).close()
    live = keep(settings, "p-2", order("d", usd=1.5), order("a"), finished("a", use(0.01, 10)), hub="/other")
    report = report_spending(read_home(settings, unread=[]), by)
    known = bills(settings)
    for one in (report.used, add_bills([row.used for row in report.rows])):
        assert one.priced_usd == pytest.approx(known.priced_usd, abs=1e-9) == pytest.approx(1.1111 + 0.25 + 0.01)
        assert (one.input_tokens, one.output_tokens) == (known.input_tokens, known.output_tokens)
        assert one.unpriced_attempts == known.unpriced_attempts == 1 and one.cost_usd is None
    assert [(one.run, one.reserved_usd, one.used.priced_usd) for one in report.live] == [("p-2", 1.5, 0.01)]
    live.close()


def test_each_attempt_counts_once_on_the_day_on_which_it_was_sent(settings: Settings) -> None:
    keep(settings, "p-1", *RESUMED).close()
    rows = {row.name: row.used for row in report_spending(read_home(settings, unread=[]), "day").rows}
    assert {name: round(used.priced_usd, 4) for name, used in rows.items()} == {
        "1970-01-01": round(0.3333 + 0.25, 4),
        "1970-01-02": round(1.1111 - 0.3333, 4),
    }
    of_models = {row.name: row.attempts for row in report_spending(read_home(settings, unread=[]), "model").rows}
    assert of_models == {"claude-x": 2, "(not known)": 1, "unpriced": 1}
    of_tasks = {row.name for row in report_spending(read_home(settings, unread=[]), "task").rows}
    assert of_tasks == {"p-1 a", "p-1 b", "p-1 c"}, "a command uses nothing"


def test_a_journal_is_read_again_only_when_it_has_grown(settings: Settings) -> None:
    keep(settings, "p-1", order("a"), finished("a", use(0.5, 10))).close()
    (first,) = read_home(settings, unread=[])
    folder = run_folder.runs_folder(settings) / "p-1"
    marked = first.model_copy(update={"project": "kept"})
    keep_spending(folder, marked)
    assert [*read_home(settings, unread=[])] == [marked], "the lines beside the journal are taken"
    journal = Journal(folder)
    journal.append([order("b")], at=101.0)
    journal.close()
    (again,) = read_home(settings, unread=[])
    assert again.project == "/hub" and len(again.lines) == 2 and again.number == first.number + 1


def test_plannings_count_and_a_broken_journal_hides_no_other(settings: Settings) -> None:
    keep(settings, "p-1", order("a"), finished("a", use(0.5, 10))).close()
    keep(settings, "p-2").close()
    (run_folder.runs_folder(settings) / "p-2" / "journal.db").write_bytes(b"not a journal" * 100)
    folder = settings.home / "plans" / "goal-1"
    folder.mkdir(parents=True)
    line = SpendLine(what="planning", at=100.0, models=("claude-x",), spent=use(0.2, 20))
    keep_spending(folder, RunSpending(run="goal-1", project="/hub", lines=(line,)))
    unread: list[str] = []
    report = report_spending(read_home(settings, unread=unread), "task")
    assert [(row.name, row.used.priced_usd) for row in report.rows] == [("p-1 a", 0.5), ("goal-1 (planning)", 0.2)]
    assert len(unread) == 1 and "p-2" in unread[0]


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return person_in(tmp_path, {"a.py": "x = 1\n"})


def test_the_command_shows_rows_and_a_sum_and_refuses_a_period_that_is_none(ada: Person, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    assert ada.forgepool("spend").out == "no model has used anything in the runs of this host\n"
    now = time.time()
    recent = [order("a", at=now), finished("a", use(0.5, 2000)), order("b", at=now - 30 * DAY_S)]
    keep(settings, "p-1", *recent, finished("b", use(0.25, 1000))).close()
    lines = ada.forgepool("spend", "--by", "task").out.splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["task", "attempts", "USD", "tokens"],
        ["p-1", "a", "1", "0.50"],
        ["p-1", "b", "1", "0.25"],
        ["all", "2", "0.75", "3,000"],
    ]
    told = json.loads(ada.forgepool("spend", "--since", "7d", "--json").out)
    assert told["by"] == "day" and told["used"]["priced_usd"] == 0.5 and len(told["rows"]) == 1
    refused = ada.forgepool("spend", "--since", "yesterday")
    assert refused.status == 2 and refused.err == (
        "forgepool: --since is 'yesterday'; it must be a number of hours, days or weeks, such as 12h, 7d or 4w\n"
    )


def test_a_review_counts_with_its_task_once(settings: Settings) -> None:
    events = (
        order("a"),
        answered("a", spent=use(0.5, 10)),
        e.EntryQueued(task="a", reviewed=True),
        e.ReviewAwaited(task="a"),
    )
    asked = review_sent("a", reserved_usd=1.0)
    keep(settings, "p-1", *events, asked, review_answered("a", spent=use(0.125, 5))).close()
    report = report_spending(read_home(settings, unread=[]), "task")
    assert [(row.name, row.attempts, row.used.priced_usd) for row in report.rows] == [("p-1 a", 2, 0.625)]
    assert report.used.priced_usd == bills(settings).priced_usd
