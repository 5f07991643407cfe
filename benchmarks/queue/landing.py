"""
Prints how long a landing holds the target, from request to answer, by the number of files and of entries.

    python benchmarks/queue/landing.py [--files 5000 50000] [--entries 1 8] [--rounds 5]

It uses real git, a bare hub on this disk, the real gate and the real lander, with one check that costs nothing. Each
round also times plain git on the same disk: it merges the same branches in a worktree and pushes them. Plain git asks
for no evidence and composes nothing again.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from forgepool.supervisor.gate.check_entry import examine
from forgepool.supervisor.gate.land import land
from forgepool.supervisor.messages.requests import Author, CheckRequest, EntryRef, LandRequest
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.settings import Settings

CHECK = CheckDefinition(name="nothing", run="true", waive=("cannot_fail",))
ME = ("-c", "user.name=B", "-c", "user.email=b@localhost", "-c", "gc.auto=0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--entries", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    print(f"seconds; median and worst of {chosen.rounds} rounds")
    print(f"{'files':>7}{'entries':>9}{'landing':>10}{'worst':>8}{'plain git':>11}{'worst':>8}")
    for files in chosen.files:
        with tempfile.TemporaryDirectory(prefix="forgepool-benchmark-") as place:
            for entries, ours, plain in measured(Path(place), files, chosen.entries, chosen.rounds):
                middle, usual = statistics.median(ours), statistics.median(plain)
                print(f"{files:>7}{entries:>9}{middle:>10.3f}{max(ours):>8.3f}{usual:>11.3f}{max(plain):>8.3f}")


def measured(
    place: Path, files: int, sizes: Sequence[int], rounds: int
) -> Iterator[tuple[int, list[float], list[float]]]:
    """Yield each number of entries, and the seconds of each round: of our landing, and of git's merges and push."""
    hub, work = place / "hub.git", place / "work"
    git(place, "init", "-q", "--bare", "-b", "main", str(hub))
    git(place, "clone", "-q", str(hub), str(work))
    git(work, "checkout", "-q", "-b", "main")
    for number in range(files):
        path = work / f"d{number % 100}" / f"e{number % 7}" / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * 20)
    git(work, "add", "-A")
    git(work, *ME, "commit", "-q", "-m", "base")
    git(work, "push", "-q", "origin", "main")
    settings = Settings(home=place / "home", cache=place / "cache", host="here", sandbox="off")
    for size in sizes:
        ours, plain = [], []
        for number in range(rounds):
            names = [f"b{size}-{number}-{one}" for one in range(size)]
            branches(work, names)
            ours.append(landed(hub, settings, names))
            plain.append(merged(work, [f"plain-{name}" for name in names]))
        yield size, ours, plain


def branches(work: Path, names: Sequence[str]) -> None:
    """Make two branches for each name, one for us and one for git, with one commit each in a file of its own."""
    git(work, "fetch", "-q", "origin")
    for name in [*names, *(f"plain-{name}" for name in names)]:
        git(work, "checkout", "-q", "-B", name, "origin/main")
        (work / f"{name}.txt").write_text(name)
        git(work, "add", "-A")
        git(work, *ME, "commit", "-q", "-m", name)
    git(work, "push", "-q", "origin", *names)


def landed(hub: Path, settings: Settings, names: Sequence[str]) -> float:
    at = {name: git(hub, "rev-parse", f"refs/heads/{name}") for name in names}
    entries = tuple(
        EntryRef(
            task=name,
            attempt=1,
            commit=commit,
            ref=f"refs/heads/{name}",
            message=f"{name}\n\nForgepool-Task: {name}\n",
            author=Author(agent="command"),
        )
        for name, commit in at.items()
    )
    asked = {
        "request_id": names[-1],
        "token": "t",
        "run": "benchmark",
        "hub": str(hub),
        "target": "main",
        "base": git(hub, "rev-parse", "refs/heads/main"),
        "entries": entries,
        "plan_checks": (CHECK,),
        "issued_at": 1.0,
        "start_by": 2.0,
    }
    found = examine(CheckRequest.model_validate(asked), settings, stop=lambda: False)
    if found.verdict != "green":
        raise SystemExit(f"the gate found {found.verdict}: {found.detail}")
    evidence = {"commit": found.commit, "tree": found.tree, "certificates": found.certificates}
    began = time.perf_counter()
    answer = land(LandRequest.model_validate({**asked, **evidence}), settings, stop=lambda: False)
    took = time.perf_counter() - began
    if answer.outcome != "landed":
        raise SystemExit(f"the lander answered {answer.outcome}: {answer.detail}")
    return took


def merged(work: Path, names: Sequence[str]) -> float:
    git(work, "fetch", "-q", "origin")
    git(work, "checkout", "-q", "-B", "main", "origin/main")
    began = time.perf_counter()
    for name in names:
        git(work, *ME, "merge", "-q", "--no-ff", "-m", name, name)
    git(work, "push", "-q", "origin", "main")
    return time.perf_counter() - began


def git(where: Path, *argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=where, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
