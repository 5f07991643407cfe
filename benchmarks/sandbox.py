"""
Prints what confinement adds to a command's start: milliseconds from asking for /bin/true to knowing that it has ended.

    python benchmarks/sandbox.py [--starts 200] [--parent-mb 1024]

Every way runs in turn, start after start in one run, so that the machine's other work meets all of them alike. Then all
of it runs again from a process that holds a gigabyte, whose page tables a plain fork would copy. Run it as the user who
will run Forgepool: commands of root also need a uid and mounts of their own.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.launch.confined import bubblewrap_program
from forgepool.workers.sandbox.launch.launch import launch
from forgepool.workers.sandbox.layers import why_level_fails
from forgepool.workers.sandbox.run.process import Command, run
from forgepool.workers.sandbox.sandbox_profile import Private, Shelter, private
from forgepool.workers.schema.confinement import OPEN, Confinement
from forgepool.workers.schema.settings import Settings

TRUE = "/bin/true"
HOST = "example.org"
"""A host that is granted and never contacted."""
Start = Callable[[], None]
BY_HAND = (
    *("--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"),
    *("--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
    *("--proc", "/proc", "--dev", "/dev"),
)


@contextmanager
def ways(folder: Path) -> Iterator[dict[str, Start]]:
    """Yield, by the name of each row of the table, what it does once."""
    worktree = folder / "worktree"
    worktree.mkdir()
    shelter = Shelter(settings=Settings(), writable=(worktree,))
    with ExitStack() as stack:
        rows: dict[str, Start] = {"plain subprocess": plain}
        unheld = stack.enter_context(private({}, None))
        rows["process.run, nothing held"] = running(unheld, OPEN, folder, worktree)
        if why_level_fails("landlock") is None:
            rows["the launcher alone"] = launched
            own = stack.enter_context(private({}, replace(shelter, level="landlock")))
            rows["process.run, Landlock and seccomp"] = running(own, own.confined, folder, worktree)
        if why_level_fails("bubblewrap") is None:
            rows["bwrap by hand, a small root"] = by_hand
            own = stack.enter_context(private({}, replace(shelter, level="bubblewrap")))
            ungrouped = replace(own.confined, groups=())
            rows["process.run, bubblewrap"] = running(own, ungrouped, folder, worktree)
            if own.confined.groups:
                rows["... in a control group"] = running(own, own.confined, folder, worktree)
            way = stack.enter_context(private({}, replace(shelter, level="bubblewrap", network=(HOST,))))
            rows["... and a host granted"] = running(way, way.confined, folder, worktree)
        yield rows


def plain() -> None:
    subprocess.Popen((TRUE,), env={}).wait()


def launched() -> None:
    with Path(os.devnull).open("r+b", buffering=0) as null:
        pid = launch({"argv": [TRUE], "env": {}, "cwd": "/", "limits": {}}, [null.fileno()] * 3)
    os.waitpid(pid, 0)


def by_hand() -> None:
    subprocess.Popen((bubblewrap_program() or "bwrap", *BY_HAND, TRUE), env={}).wait()
    # This process has become a sub-reaper, so bwrap's first process inside becomes its child.
    for pid in tree.children(os.getpid()):
        found = tree.stat(pid)
        if found is not None and found.state == "Z":
            os.waitpid(pid, 0)


def running(own: Private, confined: Confinement, folder: Path, worktree: Path) -> Start:
    command = Command(argv=(TRUE,), cwd=worktree, env=own.env, log=folder / "log", timeout_s=60, confined=confined)

    def start() -> None:
        ended = run(command)
        if not ended.succeeded:
            raise SystemExit(f"{TRUE} ended with {ended.how}: {ended.tail}")

    return start


@dataclass(slots=True)
class Row:
    """Milliseconds of each start, and of processor time for all starts, the harness's own and the command's."""

    each: list[float] = field(default_factory=list)
    processor: float = 0.0


def measured(rows: dict[str, Start], starts: int) -> dict[str, Row]:
    """Return the row of each way; its first start, which starts launchers and fills caches, is left out."""
    for start in rows.values():
        start()
    found = {name: Row() for name in rows}
    for _ in range(starts):
        for name, start in rows.items():
            used, began = processor_ms(), time.perf_counter()
            start()
            found[name].each.append((time.perf_counter() - began) * 1000)
            found[name].processor += processor_ms() - used
    return found


def processor_ms() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used) * 1000


def show(title: str, found: dict[str, Row]) -> None:
    print(f"\n| {title} | median, ms | over plain | p95, ms | least, ms | processor, ms |")
    print("|:---|---:|---:|---:|---:|---:|")
    base = statistics.median(next(iter(found.values())).each)
    for name, row in found.items():
        each = sorted(row.each)
        middle, late = statistics.median(each), each[int(len(each) * 0.95)]
        used = row.processor / len(each)
        print(f"| {name} | {middle:.1f} | {middle - base:+.1f} | {late:.1f} | {each[0]:.1f} | {used:.1f} |")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--parent-mb", type=int, default=1024)
    asked = parser.parse_args()
    who = "root" if os.geteuid() == 0 else "an ordinary user"
    print(
        f"{asked.starts} starts each, as {who}; others at work: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    )
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ways(Path(os.path.realpath(folder))) as rows:
        show("small parent", measured(rows, asked.starts))
        held = bytearray(asked.parent_mb << 20)
        held[::4096] = b"x" * len(held[::4096])
        show(f"parent of {asked.parent_mb} MB", measured(rows, asked.starts))


if __name__ == "__main__":
    main()
