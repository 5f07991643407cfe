"""
Prints how many faults of each kind the plan validator finds, in plans made of real commits, and its false alarms.

    python benchmarks/planning/validator.py REPOSITORIES [--seed 1] [--half tuned|shown|both] [--list]

REPOSITORIES is a folder of git bundles. The rules were tuned on the plans of three of them; those of the other three
are only shown. Each plan is validated as it is, and once for each kind with one fault put into one task. The baseline
is `forgepool check` without `--thorough`: the reader's mistakes, what keeps the plan from running, and the pairs of
tasks that never run together. Acceptance commands run for real, in the sandbox, on the base. `--list` prints each
fault that was missed, and each fault of a good plan.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml
from good_plans import GoodPlan, make_plans
from injections import KINDS, Injected, inject

from forgepool.orchestrator.cli.planning.faults import estimate_plan
from forgepool.orchestrator.cli.run.check import describe_plan, find_problems
from forgepool.orchestrator.launch.plan_facts import BaseCheckout, find_names, gather_facts
from forgepool.orchestrator.plan.document import Plan, PlanWrong, Task
from forgepool.orchestrator.plan.validation.facts import BaseResult, Estimate, Fault, PlanFacts, PlanLimits
from forgepool.orchestrator.plan.validation.lines import PlanLines
from forgepool.orchestrator.plan.validation.validate import validate
from forgepool.orchestrator.run.hub import Hub, open_hub, read_plan
from forgepool.supervisor.checks.cannot_fail import why_unfailing
from forgepool.workers.schema.settings import Settings

TUNED = {"boltons": 8, "tomlkit": 6, "flower": 6}
SHOWN = {"humanize": 8, "python-slugify": 5, "pytest-testmon": 7}
LIMITS = PlanLimits(makespan_s=8 * 3600)


@dataclass(slots=True)
class Bench:
    """One repository with the results of its commands, each of which runs once."""

    hub: Hub
    settings: Settings
    folder: Path
    results: dict[tuple[str, str], BaseResult] = field(default_factory=dict)
    bases: dict[str, PlanFacts] = field(default_factory=dict)
    estimates: dict[tuple[object, ...], Estimate] = field(default_factory=dict)

    def read(self, plan: GoodPlan) -> tuple[Plan, Path]:
        path = self.folder / f"{plan.name}.yaml"
        path.write_text(yaml.safe_dump(plan.document, sort_keys=False, allow_unicode=True))
        return read_plan(path, self.hub), path

    def facts_of(self, plan: Plan) -> PlanFacts:
        """Return the facts of a plan. What has been found out about its base before is not looked for again."""
        tip = self.hub.tip_for(plan)
        if tip not in self.bases:
            bare = plan.model_copy(update={"tasks": ()})
            self.bases[tip] = gather_facts(bare, self.hub, self.settings, folder=self.folder, stop=lambda: False)
        durations = tuple((task.id, task.duration_s) for task in plan.tasks)
        if (tip, durations) not in self.estimates:
            self.estimates[tip, durations] = estimate_plan(plan, self.hub, self.settings)
        return replace(
            self.bases[tip],
            names=find_names(plan, self.hub.mirror.git, tip),
            results={
                (task.id, command): self._result(plan, task, command)
                for task in plan.tasks
                for command in task.acceptance
                if not why_unfailing(command)
            },
            estimate=self.estimates[tip, durations],
        )

    def _result(self, plan: Plan, task: Task, command: str) -> BaseResult:
        tip = self.hub.tip_for(plan)
        if (tip, command) not in self.results:
            only = task.model_copy(update={"acceptance": (command,), "guards": ()})
            base = BaseCheckout(
                plan=plan.model_copy(update={"tasks": (only,)}),
                mirror=self.hub.mirror,
                tip=tip,
                settings=self.settings,
                folder=self.folder,
                stop=lambda: False,
            )
            ((_, self.results[tip, command]),) = base.run_all()
        return self.results[tip, command]

    def judge(self, plan: GoodPlan) -> list[Fault]:
        """Return all faults of a plan, those of its reader included."""
        try:
            read, path = self.read(plan)
        except PlanWrong as wrong:
            return [Fault(rule="plan file", sentence=sentence) for sentence in wrong.mistakes]
        facts = self.facts_of(read)
        lines = PlanLines.of(path.read_text(), path.name, lambda: facts.paths)
        return validate(read, lines, facts, plan.requirements, LIMITS)

    def check(self, plan: GoodPlan) -> set[str]:
        """Return what `forgepool check` says without `--thorough`."""
        try:
            read, path = self.read(plan)
        except PlanWrong as wrong:
            return set(wrong.mistakes)
        problems = find_problems(read, self.hub, self.settings, path.parent)
        pairs = (pair["tasks"] for pair in describe_plan(read, self.hub, [])["conflicts"])
        return {*problems, *(f"{first} and {second} never run together" for first, second in pairs)}


@dataclass(slots=True)
class Tally:
    """Counts of one half, by kind."""

    injected: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    baseline: Counter[str] = field(default_factory=Counter)
    plans: int = 0
    false_errors: Counter[str] = field(default_factory=Counter)
    false_warnings: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def drop_red_guards(bench: Bench, plan: GoodPlan) -> None:
    """Remove a guard that does not pass on the base with what is installed here: no author would write it."""
    read, _ = bench.read(plan)
    results = bench.facts_of(read).results
    for task in plan.tasks:
        guards = [each for each in task.pop("guards", []) if results[task["id"], each].outcome == "green"]
        if guards:
            task["guards"] = guards


def try_plan(bench: Bench, plan: GoodPlan, seed: int, tally: Tally) -> None:
    drop_red_guards(bench, plan)
    good = bench.judge(plan)
    usual = bench.check(plan)
    tally.plans += 1
    tally.false_errors.update(fault.rule for fault in good if fault.level == "error")
    tally.false_warnings.update(fault.rule for fault in good if fault.level == "warning")
    tally.notes += [f"good plan {plan.name}: {fault.level}: {fault.sentence} [{fault.rule}]" for fault in good]
    before = {(fault.rule, fault.sentence) for fault in good}
    for kind in KINDS:
        if (spoilt := inject(kind, plan, seed)) is None:
            continue
        tally.injected[kind] += 1
        new = [fault for fault in bench.judge(spoilt.plan) if (fault.rule, fault.sentence) not in before]
        found = {fault.level for fault in new if _names(fault, spoilt)}
        tally.errors[kind] += "error" in found
        tally.warnings[kind] += found == {"warning"}
        tally.baseline[kind] += bool(bench.check(spoilt.plan) - usual)
        if not found:
            tally.notes.append(f"missed in {plan.name}: {kind}; other faults: {sorted({fault.rule for fault in new})}")


def _names(fault: Fault, spoilt: Injected) -> bool:
    if fault.rule != spoilt.rule:
        return False
    return not spoilt.tasks or fault.task in spoilt.tasks or any(f"'{task}'" in fault.sentence for task in spoilt.tasks)


def run_half(bundles: Path, counts: dict[str, int], seed: int, place: Path) -> Tally:
    tally = Tally()
    for name, count in counts.items():
        repository = place / name
        subprocess.run(("git", "clone", "-q", bundles / f"{name}.bundle", repository), check=True)
        settings = Settings(home=place / "home", cache=place / "cache")
        bench = Bench(open_hub(str(repository), settings), settings, place)
        for plan in make_plans(repository, count, seed):
            try_plan(bench, plan, seed, tally)
            print(f"{plan.name}: {len(plan.tasks)} tasks", file=sys.stderr)
    return tally


def table(tallies: dict[str, Tally]) -> Iterator[str]:
    heads = [f"{half}: {word}" for half in tallies for word in ("injected", "caught", "as errors", "check alone")]
    yield f"| fault | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(heads)}"
    for kind in KINDS:
        yield _row(kind, [_cells(tally, [kind]) for tally in tallies.values()])
    yield _row("all", [_cells(tally, list(KINDS)) for tally in tallies.values()])
    for half, tally in tallies.items():
        yield ""
        yield f"{half}: {tally.plans} good plans, {sum(tally.false_errors.values())} errors in them, "
        yield f"{sum(tally.false_warnings.values())} warnings: {dict(tally.false_errors)} {dict(tally.false_warnings)}"


def _cells(tally: Tally, kinds: Sequence[str]) -> list[int]:
    counts = (tally.injected, tally.errors + tally.warnings, tally.errors, tally.baseline)
    return [sum(count[kind] for kind in kinds) for count in counts]


def _row(name: str, cells: list[list[int]]) -> str:
    return f"| {name} | {' | '.join(str(cell) for half in cells for cell in half)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--half", choices=("tuned", "shown", "both"), default="both")
    parser.add_argument("--plans", type=int, help="Plans of each repository; the default is 40 in all.")
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args()
    halves = {"tuned": TUNED, "shown": SHOWN}
    tallies = {}
    with tempfile.TemporaryDirectory(prefix="forgepool-benchmark-") as place:
        for half, counts in halves.items():
            if chosen.half in (half, "both"):
                counts = {name: chosen.plans or count for name, count in counts.items()}
                tallies[half] = run_half(chosen.repositories.resolve(), counts, chosen.seed, Path(place))
    print("\n".join(table(tallies)))
    for tally in tallies.values() if chosen.list else ():
        print("\n".join(tally.notes))


if __name__ == "__main__":
    main()
