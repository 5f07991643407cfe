"""
Prints what traced checks save on a repository's own history, what a trace costs, and whether they miss a red test.

    python benchmarks/traced.py REPOSITORY [--run 'python -m pytest -q'] [--commits 40] [--every 5]
                                [--mutants 40] [--source SRC] [--rounds 3] [--path FOLDER]

REPOSITORY is a clone or a bundle. Its last commits of the first parent are replayed as landings, the oldest first. For
each, the check runs whole, and then as the gate runs it: without the test files that are proven. After every fifth the
target is traced, as after a post-merge check. Then single lines of the last commit's source are changed, one for each
mutant, and both runs are compared: a test that is red in the whole run and was left out is a miss.

The command finds its tools in --path, and on this PATH. It runs in bubblewrap, without a network.
"""

import argparse
import os
import random
import re
import sys
import tempfile
import time
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
        if to.count % 2:
            (spared,) = runs.run((self.check,), commit, label="spared", spare_on=runs.at_tip)
            whole = self.whole(commit)
        else:
            whole = self.whole(commit)
            (spared,) = runs.run((self.check,), commit, label="spared", spare_on=runs.at_tip)
        to.count += 1
        to.whole_s += whole.seconds
        to.spared_s += spared.seconds
        numbers = re.match(r"(\d+) of (\d+)", spared.traced)
        count = len({case.file for case in whole.ran.evidence.report.cases}) if whole.ran.evidence.report else 0
        to.files += count
        to.left_out += int(numbers[1]) if numbers else 0
        red = whole.failure is not None
        to.red += red
        if red and spared.failure is None:
            to.missed.append(name)
        return whole


def replay(bench: Bench, commits: Sequence[CommitId], every: int) -> tuple[Sum, float, int]:
    """Return the sums, and the seconds and number of the traces."""
    found, traced_s, traces = Sum(), 0.0, 0
    for number, commit in enumerate(commits):
        last = bench.compare(commit, commit[:12], found) if number else bench.whole(commit)
        if number % every == 0:
            started = time.monotonic()
            proofs = trace_tip(bench.check, bench.runs(commit), last.ran, last.seconds, reused=False)
            traced_s, traces = traced_s + time.monotonic() - started, traces + 1
            say(f"{commit[:12]}: {proofs.words if proofs else f'red: {last.tail[-200:]}'}")
    return found, traced_s, traces


def mutate(bench: Bench, work: Path, tip: CommitId, source: str, count: int, seed: int) -> Sum:
    """Trace the tip until nothing is left to trace, then compare the runs of its mutants."""
    whole = bench.whole(tip)
    for _ in range(20):
        proofs = trace_tip(bench.check, bench.runs(tip), whole.ran, whole.seconds, reused=True)
        if proofs is None or not proofs.missing:
            break
    say(f"before the mutants: {proofs.words if proofs else 'the tip is red'}")
    found = Sum()
    for name, commit in mutants(work, tip, source, count, random.Random(seed)):
        bench.place.mirror.ensure(commit)
        bench.compare(commit, name, found)
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
    """Return the shortest seconds of the check untraced and traced, in turns."""
    plain, traced = zip(
        *((bench.whole(tip).seconds, bench.whole(tip, traced=True).seconds) for _ in range(rounds)), strict=True
    )
    return min(plain), min(traced)


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
        landings, traced_s, traces = replay(bench, commits, given.every)
        changed = mutate(bench, folder / "work", commits[-1], given.source, given.mutants, given.seed)
        plain, traced = overhead(bench, commits[-1], given.rounds)
    print(f"{'':9}{'runs':>6}{'whole, s':>10}{'spared, s':>10}{'ratio':>8}{'files spared':>13}{'red':>5}{'missed':>8}")
    show("landings", landings)
    if changed.count:
        show("mutants", changed)
    each = traced_s / landings.count if landings.count else 0
    print(f"traces: {traces}, {traced_s:.1f} s, or {each:.2f} s for each landing")
    print(f"the check whole: {plain:.2f} s, traced {traced:.2f} s, {traced / plain - 1:+.0%}")


if __name__ == "__main__":
    main()
