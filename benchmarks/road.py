"""
Prints the road's overhead: seconds and CPU for each landed task, for tasks that do next to nothing.

    python benchmarks/road.py [--tasks 100] [--workers 1,2,4] [--work 0 | --sleep 0] [--parts | --processes | --eighths]

With `--work 0.5` each task first computes for half a second of processor time, as a compiler or a test suite would.
Only then do more workers show their gain. With `--sleep 5` it waits for five seconds, as one for a model does.

One run compares a plain shell loop with `forgepool run` on 1, 2 and 4 workers. The loop does the same git work, one
task after another: worktree add, the change, commit, merge --no-ff, the check `test -d d0`, worktree remove. The
seconds of a run count from its first order to its last landing, as its journal has them. CPU is user and system time
of the whole process tree. A run of four tasks is measured too: the difference is what the further tasks cost, and the
rest is what starting and stopping costs. Everything is made in a temporary folder.

`--parts` tells which parts of Forgepool the CPU goes to, and which programs and git commands a task starts, in runs of
4 and of `--tasks` tasks. `--processes` prints the programs alone.

`--eighths` prints, without the loop, the tasks landed a second in each eighth of a run, and the loose objects in the
hub at the end. It also prints the share of the slots that the tasks' own seconds filled until the last order ended.
"""

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from helpers.process_cpu import measure_parts

FEW = 4
CHECK = "test -d d0"
_PR_SET_CHILD_SUBREAPER = 36

LOOP = """
set -eu
cd "$1"
i=0
while [ "$i" -lt "$2" ]; do
    git worktree add --quiet --detach "$3/w$i" main
    ( cd "$3/w$i" && $4 && echo "$i" > "d$((i % 20))/t$i.txt" && git add --all && git commit --quiet --message "t$i" )
    commit=$(git -C "$3/w$i" rev-parse HEAD)
    git -C "$3/main" merge --quiet --no-ff --message "land $i" "$commit"
    ( cd "$3/main" && test -d d0 )
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


def measure(command: Sequence[str], home: Path) -> tuple[float, float]:
    """Run the command, which must end well; return wall and CPU seconds of it and of all it started."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    wall = time.perf_counter() - started
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def shell_loop(folder: Path, tasks: int, files: int, seconds: float) -> tuple[float, float]:
    """Return the wall and CPU seconds the plain loop takes."""
    hub = repository(folder / "hub", files)
    git = {"cwd": hub, "check": True, "env": environment(folder)}
    subprocess.run(["git", "branch", "target"], **git)
    trees = folder / "trees"
    trees.mkdir()
    subprocess.run(["git", "worktree", "add", "--quiet", str(trees / "main"), "target"], **git)
    return measure(["/bin/sh", "-c", LOOP, "loop", str(hub), str(tasks), str(trees), busy(folder, seconds)], folder)


def run_command(folder: Path, tasks: int, files: int, workers: int, seconds: float, sleep: float = 0.0) -> list[str]:
    """Make a repository and a plan; return the command that runs it."""
    hub = repository(folder / "hub", files)
    plan = folder / "plan.yaml"
    work = f"sleep {sleep:g}" if sleep else busy(folder, seconds)
    lines = ["version: 1", "name: no-ops", f"checks: [{{name: check, run: '{CHECK}'}}]", "tasks:"]
    lines += [
        f"  - {{id: t{n}, files: [d{n % 20}/t{n}.txt], agent: {{command: '{work} && echo {n} > d{n % 20}/t{n}.txt'}}}}"
        for n in range(tasks)
    ]
    plan.write_text("\n".join(lines) + "\n")
    program = [sys.executable, "-m", "forgepool.orchestrator.cli"]
    return [*program, "run", str(plan), "--repo", str(hub), "--workers", str(workers), "--json"]


def times(folder: Path) -> tuple[float, float, list[float]]:
    """Return the Unix seconds of the run's first order, of its last answer to one, and of its landings."""
    told = subprocess.run(
        [sys.executable, "-m", "forgepool.orchestrator.cli", "events", "no-ops", "--json"],
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    events = [json.loads(line) for line in told.stdout.splitlines()]
    at = {kind: [event["at"] for event in events if event["kind"] == kind] for kind in ("order.sent", "order.answered")}
    landed = [
        event["at"] for event in events if event["kind"] == "landing.answered" for _ in event.get("entries") or "1"
    ]
    return min(at["order.sent"]), max(at["order.answered"]), sorted(landed)


def landing_seconds(folder: Path) -> float:
    """Return the seconds from the run's first order to its last landing."""
    first, _, landed = times(folder)
    return landed[-1] - first


def print_eighths(folder: Path, chosen: argparse.Namespace, workers: int) -> None:
    place = folder / f"eighths{workers}"
    _, cpu = measure(run_command(place, chosen.tasks, chosen.files, workers, chosen.work, chosen.sleep), place)
    first, answered, landed = times(place)
    ends = [first, *(landed[len(landed) * eighth // 8 - 1] for eighth in range(1, 9))]
    rates = [len(landed) / 8 / max(1e-9, after - before) for before, after in pairwise(ends)]
    used = chosen.tasks * (chosen.sleep or chosen.work) / workers / (answered - first)
    loose = sum(1 for each in (place / "hub/.git/objects").glob("??/*"))
    print(f"{workers} workers: {len(landed)} landed, {cpu / chosen.tasks * 1000:.0f} ms CPU each with start and end")
    print(f"  landed a second, by eighths: {' '.join(f'{rate:.1f}' for rate in rates)}")
    print(f"  slots in use {used:.2f}; {loose} loose objects in the hub", flush=True)


def print_runs(folder: Path, chosen: argparse.Namespace) -> None:
    wall, cpu = (each / chosen.tasks for each in shell_loop(folder / "loop", chosen.tasks, chosen.files, chosen.work))
    print(f"{chosen.tasks} tasks of {chosen.work:g} s, {chosen.files} files, {os.cpu_count()} cores")
    print(f"{'':14} {'s/task':>8} {'x loop':>7} {'CPU ms/task':>12} {'x loop':>7} {'start+end s':>12} {'CPU s':>7}")
    print(f"{'shell loop':14} {wall:8.3f} {1:7.2f} {cpu * 1000:12.0f} {1:7.2f}")
    for workers in map(int, chosen.workers.split(",")):
        few, many = folder / f"few{workers}", folder / f"many{workers}"
        _, few_cpu = measure(run_command(few, FEW, chosen.files, workers, chosen.work), few)
        in_all, many_cpu = measure(run_command(many, chosen.tasks, chosen.files, workers, chosen.work), many)
        run_s = landing_seconds(many)
        each, each_cpu = run_s / chosen.tasks, (many_cpu - few_cpu) / (chosen.tasks - FEW)
        name = f"{workers} worker{'s' if workers > 1 else ''}"
        print(
            f"{name:14} {each:8.3f} {each / wall:7.2f} {each_cpu * 1000:12.0f} {each_cpu / cpu:7.2f}"
            f" {in_all - run_s:12.1f} {few_cpu - FEW * each_cpu:7.1f}",
            flush=True,
        )


def print_parts(folder: Path, chosen: argparse.Namespace, workers: int) -> None:
    """Print processes and CPU of each part for a further task; or the programs alone."""
    few, many = (folder / f"parts{workers}-{tasks}" for tasks in (FEW, chosen.tasks))
    before = measure_parts(run_command(few, FEW, chosen.files, workers, chosen.work), environment(few))
    after = measure_parts(run_command(many, chosen.tasks, chosen.files, workers, chosen.work), environment(many))
    further = chosen.tasks - FEW
    cpu = {part: 1000 * (after.cpu[part] - before.cpu[part]) / further for part in after.cpu}
    started = {part: (after.started[part] - before.started[part]) / further for part in after.cpu}
    git = sum(count for part, count in started.items() if " git " in f" {part}")
    head = f"a task, {workers} worker{'s' if workers > 1 else ''}"
    print(f"{head}: {sum(cpu.values()):.0f} ms CPU, {git:.1f} git processes of {sum(started.values()):.1f} programs")
    for part in sorted(cpu, key=lambda part: -cpu[part]):
        if chosen.processes and started[part] >= 0.05:
            print(f"{part:28} {started[part]:6.2f}")
        elif chosen.parts and (cpu[part] >= 0.05 or started[part] >= 0.05):
            print(f"{part:28} {started[part]:6.2f} {cpu[part]:7.1f}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    arguments.add_argument("--tasks", type=int, default=100)
    arguments.add_argument("--files", type=int, default=200, help="files in the repository")
    arguments.add_argument("--workers", default="1,2,4")
    arguments.add_argument("--work", type=float, default=0.0, help="processor seconds each task takes")
    arguments.add_argument("--sleep", type=float, default=0.0, help="seconds each task waits, with --eighths")
    arguments.add_argument("--eighths", action="store_true", help="print the rate along each run instead")
    arguments.add_argument("--parts", action="store_true", help="print the CPU of each part instead")
    arguments.add_argument("--processes", action="store_true", help="count the programs started instead")
    chosen = arguments.parse_args()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="forgepool-bench-") as made:
        if chosen.eighths or chosen.parts or chosen.processes:
            show = print_eighths if chosen.eighths else print_parts
            for workers in map(int, chosen.workers.split(",")):
                show(Path(made), chosen, workers)
        else:
            print_runs(Path(made), chosen)


if __name__ == "__main__":
    main()
