"""Journals of runs, written event by event with times of their own: no run has to be waited for."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from plans import (
    RUN,
    answered,
    check_sent,
    course,
    intended,
    landing,
    queued,
    review_answered,
    review_sent,
    sent,
    task,
    verdict,
)

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.run.run_folder import RunOptions, keep
from forgepool.supervisor.messages.answers import ReviewApproval
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack, Spent
from forgepool.workers.schema.settings import Settings

BEGAN = 1_700_000_000.0
SPENT = Spent(turns=3, input_tokens=1000, output_tokens=200, cached_tokens=400, cost_usd=0.25)
_APPROVAL = ReviewApproval(patch_id="", families=("gpt",), models=("gpt-x",))
Timed = tuple[float, e.Event]


def taken(message: str) -> e.MessageTaken:
    return e.MessageTaken(message_id=message, host="h", pid=7)


def land_task(name: str) -> list[Timed]:
    """Return the events of a task that lands at once: 4 s until it is taken, 20 s of checks, a minute in all."""
    order = answered(name, spent=SPENT, models=("claude-x",), started_at=BEGAN + 4, finished_at=BEGAN + 30)
    return [
        (0, sent(name)),
        (4, taken(f"r-1.{name}.1")),
        (30, order),
        (30, queued(name, reviewed=True)),
        (30, check_sent(name)),
        (31, taken(f"r-1.{name}.1.check-1")),
        (31, review_sent(name)),
        (51, e.CheckAnswered(task=name, result=verdict(name, seconds=20.0, host="h"))),
        (55, review_answered(name)),
        (56, intended(name, approval=_APPROVAL.model_copy(update={"patch_id": f"patch-{name}-1"}))),
        (60, e.LandingAnswered(task=name, result=landing(name))),
    ]


def fail_task(name: str) -> list[Timed]:
    """Return the events of a task whose only attempt fails in its checks."""
    reason = ReasonPack(attempt=1, kind="check_failed", summary="'tests' is red: 1 test failed")
    order = answered(name, spent=SPENT, models=("claude-x",), started_at=BEGAN + 60, finished_at=BEGAN + 70)
    return [
        (60, sent(name)),
        (70, order),
        (70, queued(name)),
        (70, check_sent(name)),
        (90, e.CheckAnswered(task=name, result=verdict(name, "red", seconds=20.0, host="h"))),
        (90, e.TaskFailed(task=name, reason=reason)),
    ]


@contextmanager
def written_run(settings: Settings, tasks: Sequence[str], events: Sequence[Timed]) -> Iterator[Journal]:
    """Write the folder of a run, which is live inside this context."""
    of = course(*(task(name, agent=BuiltinAgent(), title=f"Title of {name}") for name in tasks))
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p.yaml", plan_file_digest="")
    journal = Journal(keep(settings, options, of.plan).folder)
    journal.append([e.RunStarted(run=RUN, plan_digest="d", hub="/hub", target="t", tip="c0")], at=BEGAN)
    append(journal, events)
    try:
        yield journal
    finally:
        journal.close()


def append(journal: Journal, events: Sequence[Timed]) -> None:
    for at, alike in groupby(events, key=lambda one: one[0]):
        journal.append([event for _, event in alike], at=BEGAN + at)
