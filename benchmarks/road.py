"""
Prints the road's overhead: landed tasks per second, and seconds per task, for tasks that do next to nothing.

    python benchmarks/road.py [--tasks 100] [--workers 1,2,4] [--work 0]

With `--work 0.5` each task first computes for half a second of processor time, as a compiler or a test suite would.
Only then do more workers show their gain.

One run compares a plain shell loop with `forgepool run` on 1, 2 and 4 workers. The loop does the same git work, one
task after another: worktree add, the change, commit, merge --no-ff, the check `true`, worktree remove. The seconds of a
run count from its first order to its last landing, as its journal has them. The time to start and stop Redis and the
workers is printed beside them. Everything is made in a temporary folder.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOOP = """
set -eu
cd "$1"
i=0
while [ "$i" -lt "$2" ]; do
    git worktree add --quiet --detach "$3/w$i" main
    ( cd "$3/w$i" && $4 && echo "$i" > "f$i.txt" && git add --all && git commit --quiet --message "task $i" )
    commit=$(git -C "$3/w$i" rev-parse HEAD)
    git -C "$3/main" merge --quiet --no-ff --message "land $i" "$commit"
    ( cd "$3/main" && true )
    git worktree remove "$3/w$i"
    i=$((i + 1))
done
"""


def repository(folder: Path, files: int) -> Path:
    """Make a repository with one commit of `files` small files."""
    git = {"cwd": folder, "check": True, "env": environment(folder)}
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], **git)
    for number in range(files):
        path = folder / f"d{number % 20}" / f"f{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n" * 10)
    subprocess.run(["git", "add", "--all"], **git)
    subprocess.run(["git", "commit", "--quiet", "--message", "first"], **git)
    return folder


def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "B",
        "GIT_AUTHOR_EMAIL": "b@forgepool.invalid",
        "GIT_COMMITTER_NAME": "B",
        "GIT_COMMITTER_EMAIL": "b@forgepool.invalid",
        "FORGEPOOL_HOME": str(home / "home"),
        "FORGEPOOL_CACHE": str(home / "cache"),
    }


def busy(folder: Path, seconds: float) -> str:
    """Return a command that uses that much processor time."""
    if not seconds:
        return "true"
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "busy.py"
    script.write_text(f"import time\nwhile time.process_time() < {seconds}:\n    pass\n")
    return f"{sys.executable} -I -S {script}"


def shell_loop(folder: Path, tasks: int, files: int, seconds: float) -> float:
    """Return the seconds the plain loop takes."""
    hub = repository(folder / "hub", files)
    git = {"cwd": hub, "check": True, "env": environment(folder)}
    subprocess.run(["git", "branch", "target"], **git)
    trees = folder / "trees"
    trees.mkdir()
    subprocess.run(["git", "worktree", "add", "--quiet", str(trees / "main"), "target"], **git)
    started = time.perf_counter()
    subprocess.run(
        ["/bin/sh", "-c", LOOP, "loop", str(hub), str(tasks), str(trees), busy(folder, seconds)],
        check=True,
        env=environment(folder),
    )
    return time.perf_counter() - started


def forgepool(folder: Path, tasks: int, files: int, workers: int, seconds: float) -> tuple[float, float, int]:
    """Return the seconds from first order to last landing, the seconds in all, and how many tasks landed."""
    hub = repository(folder / "hub", files)
    plan = folder / "plan.yaml"
    work = busy(folder, seconds)
    lines = ["version: 1", "name: no-ops", "checks: [{name: check, run: 'true'}]", "tasks:"]
    lines += [
        f"  - {{id: t{n}, files: [t{n}.txt], agent: {{command: '{work} && echo {n} > t{n}.txt'}}}}"
        for n in range(tasks)
    ]
    plan.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "forgepool.orchestrator"]
    started = time.perf_counter()
    subprocess.run(
        [*command, "run", str(plan), "--repo", str(hub), "--workers", str(workers), "--json"],
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    in_all = time.perf_counter() - started
    told = subprocess.run(
        [*command, "events", "no-ops", "--json"],
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    events = [json.loads(line) for line in told.stdout.splitlines()]
    first = min(event["at"] for event in events if event["kind"] == "order.sent")
    landed = [event["at"] for event in events if event["kind"] == "landing.answered"]
    return max(landed) - first, in_all, len(landed)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    arguments.add_argument("--tasks", type=int, default=100)
    arguments.add_argument("--files", type=int, default=200, help="files in the repository")
    arguments.add_argument("--workers", default="1,2,4")
    arguments.add_argument("--work", type=float, default=0.0, help="processor seconds each task takes")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="forgepool-bench-") as made:
        folder = Path(made)
        loop_s = shell_loop(folder / "loop", chosen.tasks, chosen.files, chosen.work) / chosen.tasks
        print(f"{chosen.tasks} tasks of {chosen.work:g} s, {chosen.files} files, {os.cpu_count()} cores")
        print(f"{'':14} {'s/task':>8} {'tasks/s':>8} {'x loop':>7} {'start+end s':>12}")
        print(f"{'shell loop':14} {loop_s:8.3f} {1 / loop_s:8.1f} {1:7.2f} {'':>12}")
        for workers in map(int, chosen.workers.split(",")):
            run_s, in_all, landed = forgepool(
                folder / f"run{workers}", chosen.tasks, chosen.files, workers, chosen.work
            )
            assert landed == chosen.tasks, f"{landed} of {chosen.tasks} landed"
            each = run_s / chosen.tasks
            name = f"{workers} worker{'s' if workers > 1 else ''}"
            print(f"{name:14} {each:8.3f} {1 / each:8.1f} {each / loop_s:7.2f} {in_all - run_s:12.1f}")


if __name__ == "__main__":
    main()
