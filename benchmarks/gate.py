"""
Prints which candidates pass the gate: dishonest ones, honest ones, and pairs that are green alone and red together.

    python benchmarks/gate.py [--named] [--checks-alone]
    python benchmarks/gate.py --landings [--count 200] [--pairs 50]

The first form sends every candidate of tests/supervisor/gate/adversary through the gate, and then asks for its landing.
There are no reviews: scans and checks alone stop a candidate. The same run prints what a plain CI says of the same
trees. It runs the commands that the tree's own forgepool.yaml names, in one checkout and in the same sandbox, and
judges by their exit status.

`--named` lists where each candidate landed or was stopped. Candidates that only a reader could see through are counted
separately. `--checks-alone` sends the dishonest ones once more, with every rule of the scans waived. It shows how many
of those the checks stop by themselves (about ten minutes).

The second form lands a stream of candidates, eight at a time made on the same tip. Some of them are pairs that break
the check only together. Afterwards the check runs, outside the gate, on every commit that the target ever was. The last
figures say how many commits would be red if everything landed that was green where it was made. This number comes from
the stream's own rules; no command runs for it.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))

import find_helpers  # noqa: F401  # before any helper
from candidates import EXECUTABLE, LINK, SUBMODULE, Candidate, Tree
from dishonest import BEYOND, DISHONEST
from ground import Ground, Tried, make_ground, target_of
from honest import HONEST
from semantic import BY_STATUS, Road, red_without_a_gate, stream

from forgepool.workers.policy.gate_file.document import RULES
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.sandbox.run.process import Command, run, shell
from forgepool.workers.sandbox.sandbox_profile import Shelter, private

STAGES = ("landed", "scan", "check", "git")
"""The ends of a candidate. `git` means that there was nothing to compose, or that it was out of date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One candidate's result at the gate and in a plain CI."""

    candidate: Candidate
    tried: Tried
    plain: bool
    plain_s: float

    @property
    def stage(self) -> str:
        if self.tried.landed:
            return "landed"
        if self.tried.found.failures:
            return "check"
        return "scan" if self.tried.found.verdict == "findings" else "git"


def plain_ci(candidate: Candidate, ground: Ground, folder: Path) -> tuple[bool, float]:
    """Tell whether the commands of the tree's own gate file all exit with 0, in order; also return the seconds."""
    started = time.monotonic()
    if candidate.shape == "no commit":
        return False, 0.0
    tree = candidate.tree(target_of(candidate))
    lay_out(tree, folder / "work")
    gate = tree.get("forgepool.yaml")
    checks = read_gate_file(gate.content.decode()).checks if gate else ()
    shelter = Shelter(settings=ground.settings, writable=(folder / "work",), protected=(), readable=())
    with private({}, shelter) as own:
        for check in checks:
            command = Command(
                argv=shell(check.run),
                cwd=folder / "work",
                env=own.env,
                confined=own.confined,
                log=folder / f"{check.name}.log",
                timeout_s=check.timeout_s,
            )
            if not run(command).succeeded:
                return False, time.monotonic() - started
    return True, time.monotonic() - started


def lay_out(tree: Tree, folder: Path) -> None:
    for name, file in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == LINK:
            path.symlink_to(file.content.decode())
        elif file.mode == SUBMODULE:
            path.mkdir()
        else:
            path.write_bytes(file.content)
            path.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def send(candidates: Sequence[Candidate], ground: Ground, folder: Path) -> Iterable[Line]:
    for number, candidate in enumerate(candidates, start=1):
        tried = ground.try_out(candidate)
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own:
            plain, plain_s = plain_ci(candidate, ground, Path(own))
        print(f"\r{number} of {len(candidates)} ", end="", file=sys.stderr, flush=True)
        yield Line(candidate=candidate, tried=tried, plain=plain, plain_s=plain_s)
    print("\r" + " " * 20 + "\r", end="", file=sys.stderr)


def table(title: str, lines: Sequence[Line]) -> None:
    print(f"\n{title}")
    print(f"{'kind':12}{'candidates':>11}{'landed':>8}{'by scan':>9}{'by check':>9}{'by git':>8}{'plain CI lands':>16}")
    kinds = list(dict.fromkeys(line.candidate.kind for line in lines))
    for kind in [*kinds, "all"]:
        these = [line for line in lines if kind in ("all", line.candidate.kind)]
        stages = Counter(line.stage for line in these)
        counts = "".join(f"{stages[stage]:>{width}}" for stage, width in zip(STAGES, (8, 9, 9, 8), strict=True))
        print(f"{kind:12}{len(these):>11}{counts}{sum(line.plain for line in these):>16}")
    landed, plain = (
        100 * sum(chosen) / len(lines)
        for chosen in ([line.stage == "landed" for line in lines], [line.plain for line in lines])
    )
    print(f"landed: {landed:.1f} %; with a plain CI {plain:.1f} %")


def seconds(lines: Sequence[Line]) -> None:
    print("\nseconds each, mean and longest")
    for stage in STAGES:
        taken = [line.tried.seconds for line in lines if line.stage == stage]
        if taken:
            print(f"{stage:12}{len(taken):>6}{sum(taken) / len(taken):>9.2f}{max(taken):>9.2f}")
    plain = [line.plain_s for line in lines]
    print(f"{'plain CI':12}{len(plain):>6}{sum(plain) / len(plain):>9.2f}{max(plain):>9.2f}")


def named(lines: Sequence[Line]) -> None:
    print()
    for line in lines:
        said = ", ".join(line.tried.said) if line.stage != "landed" else ""
        plain = "plain CI lands it" if line.plain else ""
        print(f"{line.stage:8}{line.candidate.kind:10}{line.candidate.name:44}{plain:19}{said}")


def without_scans(candidates: Sequence[Candidate], ground: Ground) -> None:
    """Print the checks' verdicts on the candidates, with every rule of the scans waived."""
    said: Counter[str] = Counter()
    let_in: list[str] = []
    for candidate in candidates:
        found = ground.examine(replace(candidate, waive=tuple(RULES)))
        said[found.verdict] += 1
        let_in += [candidate.name] if found.verdict == "green" else []
    print("\nthe dishonest ones, with every rule of the scans waived")
    print("  ".join(f"{verdict} {count}" for verdict, count in said.most_common()))
    print("let in:", ", ".join(let_in))


def candidates(folder: Path, *, names: bool, checks_alone: bool) -> int:
    ground = make_ground(folder, [*DISHONEST, *BEYOND, *HONEST])
    dishonest, beyond, honest = (list(send(each, ground, folder)) for each in (DISHONEST, BEYOND, HONEST))
    if names:
        named([*dishonest, *beyond, *honest])
    table("dishonest: nothing may land", dishonest)
    table("dishonest in a way that only a reader can see: a review is what stops it", beyond)
    table("honest: 49 of 50 must land", honest)
    seconds([*dishonest, *beyond, *honest])
    if checks_alone:
        without_scans(DISHONEST, ground)
    refused = sum(line.stage != "landed" for line in honest)
    return int(any(line.stage == "landed" for line in dishonest) or refused > len(honest) / 50)


def landings(folder: Path, count: int, pairs: int) -> int:
    start, windows = stream(count, pairs)
    road = Road(folder=folder, check=BY_STATUS)
    road.begin(start)
    started = time.monotonic()
    for number, window in enumerate(windows, start=1):
        road.drive([window])
        print(f"\r{number} of {len(windows)} ", end="", file=sys.stderr, flush=True)
    took = time.monotonic() - started
    print("\r" + " " * 20 + "\r", end="", file=sys.stderr)
    every = [work for window in windows for work in window]
    partners = sum(road.refused[work.name].partner == work.partner for work in every if work.name in road.refused)
    red = road.red_commits()
    print(f"{len(every)} candidates, {pairs} pairs that are green alone and red together")
    print(f"landed {len(road.landed)}, refused {len(road.refused)}, with the right partner named {partners}")
    print(f"commits of the target that are red: {len(red)}")
    print(f"and if all landed that is green where it was made: {red_without_a_gate(start, windows)} of {len(every)}")
    print(f"{took:.0f} s, {took / len(every):.2f} s for each candidate")
    return int(bool(red) or len(road.landed) != count or partners != pairs)


def main() -> int:
    wanted = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    wanted.add_argument("--landings", action="store_true", help="the stream of landings instead of the candidates")
    wanted.add_argument("--count", type=int, default=200)
    wanted.add_argument("--pairs", type=int, default=50)
    wanted.add_argument("--named", action="store_true", help="list every candidate")
    wanted.add_argument("--checks-alone", action="store_true", help="and the dishonest ones with all scans waived")
    asked = wanted.parse_args()
    # Commands of checks find this Python's programs first, as the tests' own do.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    with tempfile.TemporaryDirectory(prefix="gate-", ignore_cleanup_errors=True) as name:
        if asked.landings:
            return landings(Path(name), asked.count, asked.pairs)
        return candidates(Path(name), names=asked.named, checks_alone=asked.checks_alone)


if __name__ == "__main__":
    sys.exit(main())
