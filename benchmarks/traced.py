"""
Prints what traced checks save on a repository's own history, what a trace costs, and whether they miss a red test.

    python benchmarks/traced.py REPOSITORY [--run 'python -m pytest -q'] [--commits 40] [--every 5]
                                [--mutants 40] [--source SRC] [--rounds 3] [--path FOLDER]

REPOSITORY is a clone or a bundle. Its last commits of the first parent are replayed as landings, the oldest first. For
each, the check runs whole, and then as the gate runs it: without the test files that are proven. After every fifth the
target is traced, as after a post-merge check. Then single lines of the last commit's source are changed, one for each
mutant, and both runs are compared: a test that is red in the whole run and was left out is a miss.

The command finds its tools in --path, and on this PATH. It runs in bubblewrap, without a network. Seconds are those of
the processors, of the command and of this process, which prepares the checkout, hears the look-ups and keeps proofs.
"""

import argparse
import os
import random
import re
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))

import find_helpers  # noqa: F401  # before any helper
from repositories import git

from forgepool.supervisor.checks.certificates import Inputs, environment
from forgepool.supervisor.checks.running import CheckPlace, Selection, TriedCheck, run_line
from forgepool.supervisor.checks.runs import CheckRuns
from forgepool.supervisor.checks.store import Store
from forgepool.supervisor.checks.traced.tracing import trace_tip
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import open_mirror

CHANGES = (
    (r"==", "!="),
    (r"!=", "=="),
    (r" < ", " >= "),
    (r" > ", " <= "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r"\bTrue\b", "False"),
    (r"\bFalse\b", "True"),
    (r" and ", " or "),
    (r"\bnot ", ""),
    (r"\b1\b", "2"),
    (r"\b0\b", "1"),
    (r"return (?=\S)", "return None and "),
)


@dataclass(slots=True, kw_only=True)
class Sum:
    """The runs of one kind of commits."""

    count: int = 0
    whole_s: float = 0.0
    spared_s: float = 0.0
    files: int = 0
    left_out: int = 0
    red: int = 0
    missed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    place: CheckPlace
    check: CheckDefinition

    def inputs(self, commit: CommitId) -> Inputs:
        git = self.place.mirror.git
        return Inputs(git=git, tree=tree_of(git, commit), checks=(self.check,))

    def runs(self, tip: CommitId) -> CheckRuns:
        store = Store(folder=self.place.settings.cache / "verdicts")
        at_tip = self.inputs(tip)
        known = environment("bubblewrap")
        return CheckRuns(place=self.place, store=store, checks=(self.check,), environment=known, tip=tip, at_tip=at_tip)

    def whole(self, commit: CommitId, *, traced: bool = False) -> TriedCheck:
        selection = Selection(left_out=(), traced=traced)
        return run_line((self.check,), commit, self.place, label="whole", selection=selection)[0]

    def compare(self, commit: CommitId, name: str, to: Sum) -> TriedCheck:
        """Run the check whole and as the gate does, in changing order; return the whole run."""
        runs = self.runs(commit)
        for kind in ("whole", "spared") if to.count % 2 else ("spared", "whole"):
            started = cpu_s()
            if kind == "whole":
                whole = self.whole(commit)
                to.whole_s += cpu_s() - started
            else:
                (spared,) = runs.run((self.check,), commit, label="spared", spare_on=runs.at_tip)
                to.spared_s += cpu_s() - started
        to.count += 1
        numbers = re.match(r"(\d+) of (\d+)", spared.traced)
        count = len({case.file for case in whole.ran.evidence.report.cases}) if whole.ran.evidence.report else 0
        to.files += count
        to.left_out += int(numbers[1]) if numbers else 0
        red = whole.failure is not None
        to.red += red
        if red and spared.failure is None:
            to.missed.append(name)
        return whole


def replay(bench: Bench, commits: Sequence[CommitId], every: int) -> tuple[Sum, float]:
    """Trace the first commit to the end, then land the others; return the sums, and the seconds of the later traces."""
    found, traced_s = Sum(), 0.0
    trace_all(bench, commits[0])
    for number, commit in enumerate(commits[1:], start=1):
        last = bench.compare(commit, commit[:12], found)
        if number % every == 0:
            started = cpu_s()
            proofs = trace_tip(bench.check, bench.runs(commit), last.ran, last.seconds, reused=False)
            traced_s += cpu_s() - started
            say(f"{number} landed: {proofs.words if proofs else f'red: {last.tail[-200:]}'}")
    return found, traced_s


def trace_all(bench: Bench, tip: CommitId) -> None:
    started, whole = cpu_s(), bench.whole(tip)
    for _ in range(50):
        proofs = trace_tip(bench.check, bench.runs(tip), whole.ran, whole.seconds, reused=True)
        if proofs is None or not proofs.missing:
            break
    said = proofs.words if proofs else f"red: {whole.tail[-200:]}"
    say(f"{tip[:12]}: {said} in {cpu_s() - started:.1f} s, unproven: {proofs.unproven if proofs else ''}")


def mutate(bench: Bench, work: Path, tip: CommitId, source: str, count: int, seed: int) -> Sum:
    """Trace the tip to the end, then compare the runs of its mutants."""
    trace_all(bench, tip)
    found = Sum()
    for name, commit in mutants(work, tip, source, count, random.Random(seed)):
        bench.place.mirror.ensure(commit)
        bench.compare(commit, name, found)
        say(f"{found.count} mutants, {found.red} red, {len(found.missed)} missed")
    return found


def mutants(
    work: Path, tip: CommitId, source: str, count: int, chance: random.Random
) -> Iterator[tuple[str, CommitId]]:
    """Yield commits that change one line of the source each, on branches of the hub."""
    git(work, "checkout", "-q", "-B", "mutant", tip)
    files = sorted(path for path in (work / source).rglob("*.py"))
    made = 0
    while made < count:
        path = chance.choice(files)
        lines = path.read_text().splitlines(keepends=True)
        at = chance.randrange(len(lines)) if lines else 0
        pattern, now = chance.choice(CHANGES)
        if not lines or lines[at].lstrip().startswith(("#", "import ", "from ")) or not re.search(pattern, lines[at]):
            continue
        lines[at] = re.sub(pattern, now, lines[at], count=1)
        path.write_text("".join(lines))
        name = f"{path.relative_to(work)}:{at + 1}"
        git(work, "commit", "-q", "-a", "-m", name)
        made += 1
        git(work, "push", "-q", "-f", "origin", f"HEAD:refs/heads/mutant-{made}")
        yield name, CommitId(git(work, "rev-parse", "HEAD"))
        git(work, "reset", "-q", "--hard", tip)


def overhead(bench: Bench, tip: CommitId, rounds: int) -> tuple[float, float]:
    """Return the least seconds of the check untraced and traced, in turns."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * rounds):
        traced, started = bool(number % 2), cpu_s()
        bench.whole(tip, traced=traced)
        found[traced].append(cpu_s() - started)
    return min(found[False]), min(found[True])


def cpu_s() -> float:
    """Return the processor seconds of this process and of all it has waited for."""
    used = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def show(name: str, found: Sum) -> None:
    whole, spared = found.whole_s / found.count, found.spared_s / found.count
    share = found.left_out / found.files if found.files else 0
    print(
        f"{name:9}{found.count:>6}{whole:>10.2f}{spared:>10.2f}{spared / whole:>8.2f}{share:>12.0%}"
        f"{found.red:>6}{len(found.missed):>8}  {' '.join(found.missed)}"
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--run", default="python -m pytest -q -p no:cacheprovider")
    parser.add_argument("--commits", type=int, default=40)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--source", default="src")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--path", type=Path)
    given = parser.parse_args()
    if given.path is not None:
        os.environ["PATH"] = f"{given.path.absolute()}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="traced-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        git(folder, "clone", "-q", "--bare", str(given.repository.absolute()), "hub.git")
        git(folder, "clone", "-q", "hub.git", "work")
        settings = Settings(home=folder / "home", cache=folder / "cache", host="here")
        (logs := folder / "logs").mkdir()
        mirror = open_mirror(str(folder / "hub.git"), settings.cache)
        place = CheckPlace(mirror=mirror, settings=settings, logs=logs, stop=lambda: False)
        bench = Bench(place=place, check=CheckDefinition(name="test", run=given.run, traced=True))
        listed = git(folder / "work", "log", "--first-parent", "--format=%H", f"-{given.commits + 1}").split()
        commits = [CommitId(one) for one in reversed(listed)]
        for one in commits:
            mirror.ensure(one)
        landings, traced_s = replay(bench, commits, given.every)
        changed = mutate(bench, folder / "work", commits[-1], given.source, given.mutants, given.seed)
        plain, traced = overhead(bench, commits[-1], given.rounds)
    print(f"{'':9}{'runs':>6}{'whole, s':>10}{'spared, s':>10}{'ratio':>8}{'files spared':>13}{'red':>5}{'missed':>8}")
    show("landings", landings)
    if changed.count:
        show("mutants", changed)
    each = traced_s / landings.count if landings.count else 0
    print(f"later traces: {traced_s:.1f} s, or {each:.2f} s for each landing")
    print(f"the check whole: {plain:.2f} s, traced {traced:.2f} s, {traced / plain - 1:+.0%}")


if __name__ == "__main__":
    main()
