"""Kill the orchestrator at every event of a lead's run, and the lead's worker in every order: no task is doubled."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Machine, Repository, Started, events_of
from lead_kit import BRANCH, ROAD, write_led_plan

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow
NothingLeft = Callable[[Path, Machine], None]

_OWN = ("tasks.added", "lead.replied")
"""Events of a lead's run that no other run has."""
_KINDS = ("order.sent", "message.taken", "order.answered", "task.reported", "entry.queued")
_LANDING = ("check.sent", "check.answered", "landing.intended", "landing.answered")
_EVERY = [
    *(pytest.param(kind, when) for kind in _OWN for when in ("unjournaled", "journaled")),
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
