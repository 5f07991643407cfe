"""
Reviews by a vendor's batch lane in whole runs, with worker and orchestrator killed at each step: none is paid twice,
none is lost, and nothing stays reserved.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from kit import Machine, Repository, command, events_of, wait_until, write_plan
from processes import in_role
from vendors.answers import Answer, Say, Seen
from vendors.batches import Step
from vendors.server import BATCH_PATH, VendorServer

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow

NothingLeft = Callable[[Path, Machine], None]
_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
_REVIEWERS = {"north": "anthropic", "south": "openai-responses"}
_PASS = {"verdict": "pass", "findings": [], "confidence": 0.9, "summary": "it is one line"}
_WIDE = {"usd": 1.0}


def _judged(seen: Seen) -> Answer:
    return Say(calls=[("verdict", _PASS)])


def _know(machine: Machine, url: str) -> None:
    lines = ["accounts:"]
    for family, wire in _REVIEWERS.items():
        where = url + ("" if wire == "anthropic" else "/v1")
        lines.append(f"  {family}: {{wire: {wire}, key: ROAD_KEY, base_url: '{where}', batch: 0.5}}")
    lines.append("models:")
    usual = "window_tokens: 100000, max_output_tokens: 4000, price: {input: 1, output: 5}"
    lines += [f"  {family}-1: {{account: {family}, family: {family}, {usual}}}" for family in _REVIEWERS]
    told = "reason: a test, source: here, date: '2026-11-01'"
    lines += ["routes:", f"  code: {{primary: north-1, {told}}}", f"  review: {{primary: north-1, {told}}}"]
    table = machine.folder / "models.yaml"
    table.write_text("\n".join([*lines, "budget: north-1", ""]))
    machine.variables |= {"ROAD_KEY": "key-of-the-road", "FORGEPOOL_MODELS": str(table)} | dict.fromkeys(_KEYS, "")


def _plan(ground: Path, by: str, deadline: str = "120s", tasks: int = 1) -> Path:
    names = [f"t{number}" for number in range(1, tasks + 1)]
    made = [{"id": one, "files": [f"{one}.txt"], "agent": command(f"echo {one} > {one}.txt")} for one in names]
    review = {"by": [f"{by}-1"], "commands": True, "context_mode": "injected", "lane": "batch", "deadline": deadline}
    plan = {"name": "read", "checks": {"readme": "test -f README.md"}, "budget": _WIDE, "tasks": made, "review": review}
    return write_plan(ground, plan)


def _assert_paid_once(machine: Machine, server: VendorServer, repository: Repository, tasks: int = 1) -> None:
    """Every review is one answer of one batch, its price is in the report, and nothing else counts as used."""
    assert repository.landed("forgepool/read") == [f"t{number}" for number in range(1, tasks + 1)]
    assert server.batches.answered == len(server.batches.all) == len(server.seen) == tasks
    assert all(seen.path == BATCH_PATH for seen in server.seen) and server.invalid == []
    journal = machine.journal()
    assert [one.result.outcome for one in events_of(journal, e.ReviewAnswered)].count("passed") == tasks
    report = json.loads((machine.home / "runs" / machine.the_run() / "report.json").read_text())
    spent = [one.result.spent.cost_usd or 0.0 for one in events_of(journal, e.ReviewAnswered)]
    assert 0 < sum(spent) < 0.1 and report["cost"]["total_usd"] == pytest.approx(sum(spent), abs=1e-6)
    held = {one.reserved_usd for one in events_of(journal, e.ReviewSent)}
    assert len(held) == 1 or tasks > 1, held


def _deaths(first: str) -> list[Any]:
    """Return every step at both vendors; CI tries one of them."""
    steps = [*get_args(Step), *([first] if first not in get_args(Step) else [])]
    every = [(by, step) for by in _REVIEWERS for step in steps]
    return [pytest.param(*one, marks=() if one == ("north", first) else pytest.mark.soak) for one in every]


@pytest.mark.parametrize(("by", "step"), _deaths("made"))
def test_a_worker_that_is_killed_at_any_step_has_the_review_paid_once(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft, by: str, step: Step
) -> None:
    killed = threading.Event()

    def hear(now: Step) -> None:
        if now == step and not killed.is_set():
            killed.set()
            (working,) = in_role(ground, "working")
            working.kill()
        if killed.is_set():
            server.batches.delay_s = 0.0

    with VendorServer(_judged, models=["m"]) as server:
        _know(machine, server.url)
        server.batches.delay_s, server.batches.heard = (0.0 if step == "ended" else 3600.0), hear
        ran = machine.run("run", _plan(ground, by), "--repo", repository.path, "--workers", "1")
        assert ran.status == 0 and killed.is_set(), ran.out + ran.err
        _assert_paid_once(machine, server, repository)
    (lost,) = events_of(machine.journal(), e.MessageLost)
    assert ".review-" in lost.message_id
    nothing_left(ground, machine)


@pytest.mark.parametrize(("by", "step"), _deaths("between looks"))
def test_an_orchestrator_that_is_killed_at_any_step_has_the_review_paid_once(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft, by: str, step: str
) -> None:
    reached = threading.Event()

    def hear(now: Step) -> None:
        if now == step and not reached.is_set():
            under_way.kill()
            reached.set()

    with VendorServer(_judged, models=["m"]) as server:
        _know(machine, server.url)
        server.batches.delay_s, server.batches.heard = (0.0 if step == "ended" else 3600.0), hear
        under_way = machine.start("run", _plan(ground, by), "--repo", repository.path, "--workers", "1")
        if step == "between looks":
            machine.wait_for("review.answered", task="t1")
            under_way.kill()
        else:
            wait_until(reached.is_set, f"the step '{step}'")
        server.batches.delay_s = 0.0
        ran = machine.run("resume", machine.the_run())
        assert ran.status == 0, ran.out + ran.err
        _assert_paid_once(machine, server, repository)
    nothing_left(ground, machine)


@pytest.mark.soak
@pytest.mark.parametrize("by", ["north", pytest.param("south", marks=pytest.mark.soak)])
def test_reviews_in_batches_hold_no_slot_and_say_where_they_are(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft, by: str
) -> None:
    """Three reviews lie in batches at once, and one worker has time for all of them."""
    with VendorServer(_judged, models=["m"]) as server:
        _know(machine, server.url)
        server.batches.delay_s = 3600.0
        under_way = machine.start("run", _plan(ground, by, tasks=3), "--repo", repository.path, "--workers", "1")
        wait_until(lambda: len(server.batches.all) == 3, "three batches")
        machine.wait_for("review.answered", task="t3")
        assert repository.landed("forgepool/read") == []
        status = machine.run("status", machine.the_run()).out
        assert "its review is in a batch, and is made live after" in status, status
        server.batches.delay_s = 0.0
        ran = under_way.ended()
        assert ran.status == 0 and "its review: it is in batch " in ran.out + ran.err, ran.out + ran.err
        assert (ran.out + ran.err).count("review requested") == 3
        assert sorted(repository.landed("forgepool/read")) == ["t1", "t2", "t3"]
        assert server.batches.answered == len(server.batches.all) == len(server.seen) == 3
    nothing_left(ground, machine)


@pytest.mark.parametrize("by", ["south", pytest.param("north", marks=pytest.mark.soak)])
def test_at_its_deadline_a_review_is_made_live(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft, by: str
) -> None:
    with VendorServer(_judged, models=["m"]) as server:
        _know(machine, server.url)
        server.batches.delay_s = 3600.0
        ran = machine.run("run", _plan(ground, by, deadline="3s"), "--repo", repository.path, "--workers", "1")
        assert ran.status == 0, ran.out + ran.err
        assert "its review: it is made live: its batch is cancelled, past its deadline" in ran.out + ran.err
        assert repository.landed("forgepool/read") == ["t1"]
        assert [seen.path.rpartition("/v1/")[2] for seen in server.seen] in (["messages"], ["responses"])
        (batch,) = server.batches.all
        assert batch.ended == "cancelled" and server.invalid == []
    sent: list[Any] = list(events_of(machine.journal(), e.ReviewSent))
    assert [one.batch is None for one in sent][-1] and all(one.batch for one in sent[:-1])
    nothing_left(ground, machine)
