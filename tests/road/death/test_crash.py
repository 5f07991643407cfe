"""Kill the orchestrator after an event of each kind and resume it: the same tasks land, each once."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Machine, Repository, command, wait_until, write_plan

NothingLeft = Callable[[Path, Machine], None]

_TASKS = [
    {"id": "first", "files": ["a.txt"], "agent": command("sleep 0.2; echo a >> a.txt")},
    {"id": "beside", "files": ["b.txt"], "agent": command("sleep 0.3; echo b >> b.txt")},
    {"id": "second", "files": ["a.txt"], "needs": ["first"], "agent": command("sleep 0.1; echo c >> a.txt")},
]
_KINDS = [
    "order.sent",
    "landing.intended",
    *(
        pytest.param(kind, marks=pytest.mark.soak)
        for kind in (
            *("run.started", "message.taken", "order.answered", "entry.queued", "check.sent", "check.answered"),
            "landing.answered",
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", _KINDS)
def test_a_killed_orchestrator_resumes_to_the_same_landed_set(
    kind: str, ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    """Kill after the first event of the kind, resume, and kill after the second such event from there."""
    told = {"name": "crash", "checks": {"once": 'test -z "$(sort a.txt b.txt | uniq -d)"'}, "tasks": _TASKS}
    plan = write_plan(ground, told)
    under_way = machine.start("run", plan, "--repo", repository.path, "--workers", "2")
    machine.wait_for(kind)
    under_way.kill()
    run = machine.the_run()
    seen = _count(machine, kind)
    under_way = machine.start("resume", run)
    if kind != "run.started":
        wait_until(lambda: _count(machine, kind) > seen or not under_way.running(), f"another {kind}")
        under_way.kill()
        under_way = machine.start("resume", run)
    ended = under_way.ended(within_s=90)
    assert ended.status == 0, ended.out + ended.err

    landed = Counter(repository.landed("forgepool/crash"))
    assert landed == {"first": 1, "beside": 1, "second": 1}
    assert repository.file("forgepool/crash", "a.txt").split() == ["a", "c"]
    assert repository.file("forgepool/crash", "b.txt") == "b"
    assert [one for one in repository.refs("refs/forgepool") if "/orders/" not in one] == []
    nothing_left(ground, machine)


def _count(machine: Machine, kind: str) -> int:
    return sum(one.event.kind == kind for one in machine.journal())
