"""Kill the orchestrator at every event of a lead's run, and the lead's worker in every order: no task is doubled."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Machine, Repository, Started, events_of, wait_until
from lead_kit import BRANCH, OBJECTION, ROAD, SHORT, write_led_plan, write_reviewed_plan

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow
NothingLeft = Callable[[Path, Machine], None]

_OWN = ("tasks.added", "lead.replied")
"""Events of a lead's run that no other run has."""
_KINDS = ("order.sent", "message.taken", "order.answered", "task.reported", "entry.queued")
_LANDING = ("check.sent", "check.answered", "landing.intended", "landing.answered")
_EVERY = [
    *zip(_OWN, ("journaled", "unjournaled"), strict=True),
    *(pytest.param(*one, marks=pytest.mark.soak) for one in zip(_OWN, ("unjournaled", "journaled"), strict=True)),
    *(
        pytest.param(kind, when, marks=pytest.mark.soak)
        for kind in (*_KINDS, *_LANDING)
        for when in ("unjournaled", "journaled")
    ),
    pytest.param("run.ended", "unjournaled", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("kind", "when"), _EVERY)
def test_a_killed_orchestrator_resumes_a_led_run_without_doubling_a_task(
    kind: str, when: str, ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    died = ground / "died"
    machine.variables["FORGEPOOL_FAULT"] = f"{kind}.{when}:{died}"
    plan = write_led_plan(ground, *ROAD)
    machine.run("run", plan, "--repo", repository.path, "--workers", "2")
    assert died.exists()
    _is_whole(machine, repository, machine.start("resume", machine.the_run()))
    nothing_left(ground, machine)


@pytest.mark.parametrize("order", [1, *(pytest.param(late, marks=pytest.mark.soak) for late in (2, 3, 4))])
def test_a_lead_whose_worker_is_killed_goes_on_without_doubling_a_task(
    order: int, ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    plan = write_led_plan(ground, *ROAD, pause_s=0.7)
    under_way = machine.start("run", plan, "--repo", repository.path, "--workers", "2")
    taken = machine.wait_for("message.taken", task="lead", count=order).event
    assert isinstance(taken, e.MessageTaken)
    os.kill(taken.pid, signal.SIGKILL)
    _is_whole(machine, repository, under_way)
    lost = [event.message_id for event in events_of(machine.journal(), e.MessageLost)]
    assert lost == [taken.message_id]
    nothing_left(ground, machine)


@pytest.mark.parametrize(
    ("kind", "when"),
    [
        ("review.answered", "unjournaled"),
        pytest.param("review.sent", "unjournaled", marks=pytest.mark.soak),
        pytest.param("review.sent", "journaled", marks=pytest.mark.soak),
        pytest.param("review.answered", "journaled", marks=pytest.mark.soak),
        pytest.param("run.ended", "unjournaled", marks=pytest.mark.soak),
    ],
)
def test_a_killed_orchestrator_has_the_synthesis_reviewed_and_lists_an_objection_once(
    kind: str, when: str, ground: Path, machine: Machine, repository: Repository
) -> None:
    died = ground / "died"
    machine.variables["FORGEPOOL_FAULT"] = f"{kind}.{when}:{died}"
    plan = write_reviewed_plan(ground, OBJECTION, road=SHORT)
    machine.run("run", plan, "--repo", repository.path, "--workers", "2")
    assert died.exists()
    _is_reviewed(machine, machine.start("resume", machine.the_run()))


def test_a_killed_reviewer_of_a_synthesis_is_asked_once_more(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    plan = write_reviewed_plan(ground, OBJECTION, road=SHORT, pause_s=1.5)
    under_way = machine.start("run", plan, "--repo", repository.path, "--workers", "2")
    asked = machine.wait_for("review.sent", task="lead").event
    assert isinstance(asked, e.ReviewSent)

    def holder() -> e.MessageTaken | None:
        taken = events_of(machine.journal(), e.MessageTaken)
        return next((one for one in taken if one.message_id == asked.message_id), None)

    os.kill(wait_until(holder, "the reviewer").pid, signal.SIGKILL)
    _is_reviewed(machine, under_way)
    assert [event.message_id for event in events_of(machine.journal(), e.MessageLost)] == [asked.message_id]
    nothing_left(ground, machine)


def _is_reviewed(machine: Machine, under_way: Started) -> None:
    ended = under_way.ended(within_s=120)
    assert ended.status == 0, ended.out + ended.err + machine.logs()
    assert len([*events_of(machine.journal(), e.ReviewSent)]) <= 2
    assert len([*events_of(machine.journal(), e.ReviewAnswered)]) == 1
    told = machine.run("brief", machine.the_run(), "--json").answer
    assert told["synthesis_review"]["objections"] == [OBJECTION]
    assert told["synthesis"].count(OBJECTION["why"]) == 1


def _is_whole(machine: Machine, repository: Repository, under_way: Started) -> None:
    ended = under_way.ended(within_s=120)
    assert ended.status == 0, ended.out + ended.err + machine.logs()
    added = Counter(task.id for event in events_of(machine.journal(), e.TasksAdded) for task in event.tasks)
    assert added == {"survey": 1, "fix": 1}
    assert repository.landed(BRANCH) == ["fix"]
    reported = Counter(event.task for event in events_of(machine.journal(), e.TaskReported))
    assert reported == {"survey": 1, "lead": 1}
    replies = Counter(event.reply.number for event in events_of(machine.journal(), e.LeadReplied))
    assert replies == {1: 1, 2: 1, 3: 1}
    assert "- `fix` landed: greeting.txt holds it." in machine.run("brief", machine.the_run()).out
