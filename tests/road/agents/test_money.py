"""Money that lands, in whole runs: real workers, a local server that speaks a vendor's format, its prices."""

import json
import re
from pathlib import Path

import pytest
from kit import Machine, Repository, events_of, write_plan
from models_kit import know, planning
from vendors.answers import Say, Seen, Tokens
from vendors.server import VendorServer

from forgepool.orchestrator.journal import events as e

PRICES = "{input: 3, cached: 0.3, written: 3.75, output: 15}"
"""The prices of a model that is often used, in USD per million tokens."""
FOUR_CENTS, TENTH_OF_A_THIRD = Tokens(input=8_000, output=1_067), Tokens(input=6_667, output=889)
"""Usage of a call that costs 0.04 USD, and of one that costs 0.0333."""


class Burner:
    """A model that does each task in so many calls, all alike, and then writes the task's file."""

    def __init__(self, calls: int, usage: Tokens) -> None:
        self.calls, self.usage = calls, usage

    def __call__(self, seen: Seen) -> Say:
        match = re.search(r"# Task ([a-z-]+):", "".join(seen.texts))
        task = match[1] if match else "unknown"
        if planning(seen):
            plan = {"plan": f"write {task}.txt", "files_to_modify": [f"{task}.txt"]}
            return Say(calls=[("commit_plan", plan)], usage=self.usage)
        done = seen.answered + 1  # with the plan
        if done >= self.calls - 1:
            return Say(calls=[("finish", {"summary": f"wrote {task}.txt"})], usage=self.usage)
        line = {"path": f"{task}.txt", "content": f"{done} by {task}\n"}
        return Say(calls=[("write_file", line)], usage=self.usage)


def prepare(ground: Path, machine: Machine, server: VendorServer, names: list[str]) -> Path:
    """Have the machine ask the server's models, and return the file of a plan of such tasks."""
    know(machine, server)
    table = machine.folder / "models.yaml"
    table.write_text(re.sub(r"price: \{[^}]*\}", f"price: {PRICES}", table.read_text()))
    agent = {"builtin": {"model": "model-anthropic", "hints": False}}
    tasks = [
        {"id": name, "files": [f"{name}.txt"], "acceptance": [f"grep -q 'by {name}' {name}.txt"], "agent": agent}
        for name in names
    ]
    return write_plan(ground, {"name": "burn", "checks": {"there": "ls"}, "review": "none", "tasks": tasks})


def burn(ground: Path, machine: Machine, repository: Repository, *, names: list[str], model: Burner, cap: float) -> str:
    """Run tasks within a cap, all at once, and return the output."""
    with VendorServer(model) as server:
        ended = machine.run(
            *("run", prepare(ground, machine, server, names), "--repo", repository.path),
            *("--workers", f"{len(names)}", "--budget-usd", f"{cap}", "--budget-tokens", "9000000"),
        )
        assert server.invalid == []
    return ended.out + ended.err


def spent_usd(machine: Machine) -> float:
    results = [event.result for event in events_of(machine.journal(), e.OrderAnswered)]
    return sum((one.spent.cost_usd or 0.0) - ((one.carried.cost_usd or 0.0) if one.carried else 0.0) for one in results)


@pytest.mark.slow
def test_two_of_three_tasks_land_within_a_cap_that_does_not_pay_for_three(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    """Each needs 0.44 USD and 1.20 are there. In fair shares alone, all three would end at 0.30 and none would land."""
    said = burn(ground, machine, repository, names=["a", "b", "c"], model=Burner(11, FOUR_CENTS), cap=1.2)
    used, landed = spent_usd(machine), repository.landed("forgepool/burn")
    print(f"burn: {len(landed)} of 3 landed, {used:.2f} of 1.20 USD used")
    assert len(landed) >= 2, said
    assert used <= 1.2
    assert events_of(machine.journal(), e.MoneyGranted), "nobody asked for more"


@pytest.mark.slow
def test_a_cap_a_little_above_the_cost_of_a_plan_lands_it(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    said = burn(ground, machine, repository, names=["a"], model=Burner(3, TENTH_OF_A_THIRD), cap=0.13)
    used = spent_usd(machine)
    print(f"one task: {used:.2f} of 0.13 USD used")
    assert repository.landed("forgepool/burn") == ["a"], said
    kept = json.loads((machine.home / "runs" / machine.the_run() / "plan.json").read_text())
    assert kept["budget"] == {"usd": 0.13, "tokens": 9_000_000}, "a resumed run has the same caps"
    assert used <= 0.13


TREASURY = "version: 1\nkept_for_reviews: 0\nlimits:\n  - {account: anthropic, per: day, usd: USD}\n"


@pytest.mark.slow
def test_a_run_without_a_budget_keeps_the_treasurys_limit_of_an_account_and_goes_on_when_it_is_raised(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    """Each of two tasks needs 0.20 USD, and 0.30 are left for all runs of the day with that account."""
    machine.home.mkdir(parents=True, exist_ok=True)
    limits = machine.home / "treasury.yaml"
    limits.write_text(TREASURY.replace("USD", "0.3"))
    with VendorServer(Burner(5, FOUR_CENTS)) as server:
        plan = prepare(ground, machine, server, ["a", "b"])
        started = machine.start("run", plan, "--repo", repository.path, "--workers", "1")
        told = machine.wait_for("treasury.limited").event
        assert isinstance(told, e.TreasuryLimited) and told.effect == "waits"
        assert "by all runs of account anthropic" in told.words
        machine.wait_for("landing.answered")
        assert spent_usd(machine) <= 0.3 and repository.landed("forgepool/burn") == ["a"]
        assert f"waits: {told.words}" in machine.run("status").out
        beside = machine.run("run", plan, "--repo", repository.path, "--workers", "1")
        assert beside.status == 2 and "give all runs and queues one Redis with --broker" in beside.err
        assert machine.runs() == [machine.the_run()], "nothing of the refused run is kept"
        limits.write_text(TREASURY.replace("USD", "5"))
        ended = started.ended()
    assert ended.status == 0, ended.out + ended.err
    assert sorted(repository.landed("forgepool/burn")) == ["a", "b"]
    total = json.loads(machine.run("spend", "--json").out)["used"]["priced_usd"]
    assert total == pytest.approx(spent_usd(machine)), "what all attempts have used, and none twice"
