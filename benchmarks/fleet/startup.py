"""
Prints the CPU seconds of starting: commands, a host's worker processes, and a run on one machine; then memory per task.

    python benchmarks/fleet/startup.py [--rounds 7] [--only TEXT]

CPU is user and system time of the whole process tree, the least of all rounds. A round goes through all rows, so that
the machine's other work meets all of them alike. The baseline is `python -c pass`. The modules are those that the first
interpreter of a row imports.

The tasks of a run are commands that write one file. Six tasks less one give the cost of a task; the boot is a run of
one task less that. The memory is what one more task under way adds: the proportional share (PSS) of the worker
processes with six tasks under way, less that with one, divided by five. The commands of the tasks are not counted.
"""

import argparse
import ctypes
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import redis

sys.path.append(str(Path(__file__).parents[1]))

from road import _PR_SET_CHILD_SUBREAPER, environment, measure, run_command

from forgepool.orchestrator.launch.embedded import redis_binary
from forgepool.workers.sandbox.tree import descendants
from forgepool.workers.schema.settings import Settings

COMMAND = (sys.executable, "-m", "forgepool.orchestrator.cli")
COMPLETE = "_FORGEPOOL_COMPLETE=complete_bash COMP_WORDS='forgepool sta' COMP_CWORD=1 exec \"$@\""
HOST = (sys.executable, "-m", "forgepool.workers.queue.host_main")
ORDERS, GATE = ("orders=1",), ("checks,landings=2",)
FEW, MANY = 1, 6
FILES = 20
PATIENCE_S = 60


class Row(NamedTuple):
    cpu_s: Callable[[], float]
    argv: Sequence[str] = ()
    """The command, for counting its modules."""


class Bench:
    """A folder with a run that has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0
        self.home = self._folder()
        ran = run_command(self.home, FEW, FILES, 1, 0)
        measure(ran, self.home)
        self.plan_and_hub = ran[4:7]

    def rows(self) -> dict[str, Row]:
        complete = ("/bin/sh", "-c", COMPLETE, "sh")
        commands = {
            "python -c pass": (sys.executable, "-c", "pass"),
            "--version": (*COMMAND, "--version"),
            "--help": (*COMMAND, "--help"),
            "completion": (*complete, *COMMAND),
            "runs": (*COMMAND, "runs"),
            "status": (*COMMAND, "status"),
            "events": (*COMMAND, "events", "no-ops"),
            "check": (*COMMAND, "check", *self.plan_and_hub),
        }
        found = {name: Row(partial(self.command, argv), argv) for name, argv in commands.items()}
        for name, posts in {"host: orders": ORDERS, "host: gate": GATE, "host of a run": ORDERS + GATE}.items():
            found[name] = Row(partial(self.host, posts))
        found["run, 1 task"] = Row(partial(self.tasks, FEW))
        found[f"run, {MANY} tasks"] = Row(partial(self.tasks, MANY))
        return found

    def command(self, argv: Sequence[str]) -> float:
        return measure(argv, self.home)[1]

    def modules(self, argv: Sequence[str]) -> int:
        env = environment(self.home) | {"PYTHONPROFILEIMPORTTIME": "1"}
        ended = subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return ended.stderr.count(b"import time:") - 1

    def tasks(self, count: int) -> float:
        """Return the CPU seconds of a run of so many tasks, in a repository and folders of its own."""
        folder = self._folder()
        return measure(run_command(folder, count, FILES, 1, 0), folder)[1]

    def host(self, posts: Sequence[str]) -> float:
        """Return the CPU seconds of a host that starts these posts' workers and then ends."""
        with a_redis(self.folder) as url, (self.folder / "host.log").open("ab") as log:
            client = redis.Redis.from_url(url)
            argv = (*HOST, *(f"{post}={self.folder / 'worker.log'}" for post in posts))
            env = environment(self.home) | {"FORGEPOOL_BROKER_URL": url}
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            started = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
            wait_for(lambda: sum(one["cmd"] == "brpop" for one in client.client_list()) == len(posts))
            started.send_signal(signal.SIGTERM)
            assert started.wait() == 0
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def memory_mb(self, count: int) -> float:
        """Return the PSS of the worker processes of so many tasks under way at once."""
        folder = self._folder()
        argv = run_command(folder, count, FILES, count, 0)
        plan = Path(argv[4])
        plan.write_text(plan.read_text().replace("true &&", "sleep 600 &&"))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running = subprocess.Popen(argv, env=environment(folder), **quiet)
        try:
            wait_for(lambda: sum(words(pid)[:1] == ["sleep"] for pid in descendants(running.pid)) == count)
            own = ([*HOST[1:]], [*COMMAND[1:]])
            return sum(pss_mb(pid) for pid in descendants(running.pid) if words(pid)[1:3] in own)
        finally:
            running.kill()
            running.wait()

    def _folder(self) -> Path:
        self.made += 1
        return self.folder / str(self.made)


def words(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return []


def pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def wait_for(reached: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < give_up, "it did not start"
        time.sleep(0.02)


@contextmanager
def a_redis(folder: Path) -> Iterator[str]:
    socket = folder / "redis.sock"
    argv = (redis_binary(Settings()), "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder))
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        wait_for(socket.exists)
        yield f"unix://{socket}"
    finally:
        running.terminate()
        running.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="only rows with this text in their name")
    chosen = parser.parse_args()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="forgepool-bench-") as made:
        bench = Bench(Path(made))
        rows = {name: row for name, row in bench.rows().items() if chosen.only in name}
        least = dict.fromkeys(rows, float("inf"))
        for _ in range(chosen.rounds):
            for name, row in rows.items():
                least[name] = min(least[name], row.cpu_s())
        print(f"{'start of':16} {'CPU s':>7} {'modules':>8}   (least of {chosen.rounds})")
        for name, row in rows.items():
            print(f"{name:16} {least[name]:7.2f} {bench.modules(row.argv) if row.argv else '':>8}")
        if not chosen.only:
            task_s = (least[f"run, {MANY} tasks"] - least["run, 1 task"]) / (MANY - FEW)
            print(f"{'boot of a run':16} {least['run, 1 task'] - task_s:7.2f}\n{'a task':16} {task_s:7.2f}")
            each = (bench.memory_mb(MANY) - bench.memory_mb(FEW)) / (MANY - FEW)
            print(f"{'a task under way':16} {each:7.1f} MB")


if __name__ == "__main__":
    main()
