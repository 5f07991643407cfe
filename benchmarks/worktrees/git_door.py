"""
Prints the cost of starting git by each way: milliseconds of CPU (this process and git's) and of wall time.

    python benchmarks/worktrees/git_door.py [--calls 150]

Every way runs in turn, in rounds, so that the machine's other work meets all of them alike. The call is `hash-object`
of one byte. The baseline is `subprocess` without an environment, settings or a session of its own.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from git.cmd import Git as GitPython

from forgepool.worktrees.git.git import Git, fence_holds

CALL = ("hash-object", "--stdin")
ROUNDS = 5


def ways(folder: Path) -> dict[str, Callable[[], object]]:
    repository, tree = folder / "r.git", folder / "tree"
    tree.mkdir()
    subprocess.run(("git", "init", "-q", "--bare", str(repository)), check=True)
    bare, fenced = Git(git_dir=repository), Git(git_dir=repository, work_tree=tree)

    def by_gitpython() -> None:
        with tempfile.TemporaryFile() as given:
            given.write(b"x")
            given.seek(0)
            words = ["env", "-i", f"PATH={os.environ['PATH']}", "git", *CALL]
            GitPython(str(repository)).execute(words, istream=given, kill_after_timeout=600)

    rows: dict[str, Callable[[], object]] = {
        "subprocess": lambda: subprocess.run(("git", *CALL), input=b"x", capture_output=True, check=True),
        "the door": lambda: bare.run(*CALL, stdin=b"x"),
    }
    if fence_holds():
        rows["the door, fenced"] = lambda: fenced.run(*CALL, stdin=b"x")
    return {**rows, "GitPython behind `env -i`": by_gitpython}


def measured(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """Return CPU and wall milliseconds of one call."""
    cpu, wall = _cpu_s(), time.perf_counter()
    for _ in range(calls):
        call()
    return 1000 * (_cpu_s() - cpu) / calls, 1000 * (time.perf_counter() - wall) / calls


def _cpu_s() -> float:
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (0, resource.RUSAGE_CHILDREN)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=150)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory(prefix="forgepool-bench-") as folder:
        rows = ways(Path(folder))
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
        for _ in range(ROUNDS):
            for name, call in rows.items():
                found[name].append(measured(call, calls // ROUNDS))
    print(f"{'way':28} {'CPU ms':>8} {'wall ms':>8}   (medians of {ROUNDS} rounds)")
    for name, rounds in found.items():
        cpu, wall = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:28} {cpu:8.2f} {wall:8.2f}")


if __name__ == "__main__":
    main()
