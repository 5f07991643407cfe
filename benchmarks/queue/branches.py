"""
Sends sixty branches of a real repository, some with planted faults, through a real gate and through other queues.

    python benchmarks/queue/branches.py [--branches 60] [--seeds 1-5] [--queue NAME ...] [--trials N] [--sandbox off]
                                        [--broken-host] [--mergetrain PATH]

One branch in seven is bad (its own test fails), and one in ten is flaky. Of every fifteen, two conflict in the text,
and two are green alone and red together. All are submitted at once, and a queue ends when nothing is in line. Then the
check runs again on every commit at which the target has stood. Each queue gets the same branches in the same order, on
a fresh hub:

    forgepool    a real daemon, `queue serve`, its checks in a sandbox. `--sandbox off` runs them as the other queues
                 do, and is slower: without a sandbox no run is remembered
    serial       merge --no-ff, check, push, one branch at a time; a red check runs once more
    batch        up to eight at once, halved where red, as bors does; a single branch is tried once more
    mergetrain   that program, where it is installed: its daemon, with every branch approved beforehand

The table adds the seeds up. CPU is user and system time of all processes that a queue starts, its start and end
included. One branch of a pair has to land, and the queue is right to return the other; `pairs named` counts the pairs
whose returned branch is told the other's name. With `--broken-host` the check's tool fails from the 20th run on, and is
mended after ten runs, or when forgepool has paused; a person then resumes it. Exit status 1 means that forgepool did
not show something that it has to show.
"""

import argparse
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from branches_kit import (
    MOST_BRANCHES,
    Branch,
    Ended,
    Ground,
    History,
    git,
    look_back,
    make_ground,
    opened,
    plain_environment,
    run_check,
)
from plain_queues import PATIENCE_S, batch, mergetrain, serial, worktree

from forgepool.orchestrator.cli.output.terminal import out
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.merge_queue.serve.serve import gate_name
from forgepool.orchestrator.reports.queue_board import QueueView
from forgepool.orchestrator.reports.queue_status import EntryStanding, standings

Queue = Callable[[Ground, Path], Ended]
BROKEN_FROM = 20
COLUMNS = (
    "queue",
    "wall s",
    "CPU s",
    "runs",
    "runs per branch",
    "landed",
    "returned",
    "wrongly returned",
    "pairs named",
    "moves of the target",
    "red moves",
)
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLook:
    """The entries as `queue status` has them, and why the queue is paused."""

    entries: list[EntryStanding]
    paused: str


def forgepool(words: Sequence[str], ground: Ground, hub: Path) -> Ended:
    """Run forgepool's gate; its time runs from the push of all branches until nothing is in line."""
    home = ground.folder / "gate"
    path = os.pathsep.join((str(ground.folder / "bin"), plain_environment()["PATH"]))
    env = plain_environment(
        PATH=path, FORGEPOOL_HOME=str(home / "home"), FORGEPOOL_CACHE=str(home / "cache"), FORGEPOOL_HOST="b"
    )
    refs = [f"{one.commit}:refs/forgepool/for/main/{one.name}" for one in ground.branches]

    def ask(*words: str) -> str:
        command = [sys.executable, "-m", "forgepool.orchestrator.cli", "queue", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    def has_ended() -> bool:
        seen = looked(view)
        if seen is not None and seen.paused and ground.shop.book.broken_from:
            out().print(f"  the queue pauses: {seen.paused.splitlines()[0]}", style="dim", highlight=False)
            ground.shop.book.broken_from = 0
            ask("resume")
        ended = [one for one in seen.entries if one.state in ENDED] if seen is not None else []
        return len(ended) == len(refs)

    with served(home, hub, env, words):
        view = QueueView(home / "home" / "runs" / gate_name(str(hub.resolve()), "main"))
        wait(lambda: looked(view) is not None, "the gate to open")
        began = time.monotonic()
        git(ground.seed, "push", "-q", str(hub), *refs)
        wait(has_ended, "an empty line", lambda: told(view))
        wall_s = time.monotonic() - began
        said = json.loads(ask("status", "--json"))
    found = {one["entry"]: one for one in said["entries"]}
    return Ended(
        wall_s=wall_s,
        landed={name for name, one in found.items() if one["state"] == "landed"},
        returned={name: one["blocked_by"] for name, one in found.items() if one["state"] != "landed"},
    )


ENDED = ("landed", "returned", "withdrawn", "wants a person")


@contextmanager
def served(home: Path, hub: Path, env: dict[str, str], words: Sequence[str]) -> Iterator[None]:
    """Serve a gate with its own Redis and workers, and end it as Ctrl-C twice does."""
    home.mkdir()
    command = ("queue", "serve", "--repo", str(hub.resolve()), "--target", "main", *words)
    with (home / "said").open("w") as said:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "forgepool.orchestrator.cli", *command],
            env=env,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield
    finally:
        for _ in range(2):
            daemon.send_signal(signal.SIGINT)
        try:
            daemon.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(daemon.pid, signal.SIGKILL)


def looked(view: QueueView) -> QueueLook | None:
    """Return what `queue status` reads; None as long as there is no gate."""
    try:
        return view.look(lambda state: QueueLook(entries=standings(state, time.time()), paused=state.halted))
    except JournalUnreadable:
        return None


def told(view: QueueView) -> str:
    seen = looked(view)
    entries = seen.entries if seen is not None else ()
    return "\n".join(f"{one.entry} {one.state}: {one.why}" for one in entries if one.state != "landed")


def wait(seen: Callable[[], bool], what: str, more: Callable[[], str] = str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < until, f"waited {PATIENCE_S:.0f} s in vain for {what}\n{more()}"
        time.sleep(0.1)


def wrongly(ground: Ground, ended: Ended) -> list[str]:
    """Return the names of branches that were wrongly returned: good or flaky ones, and one of a pair returned whole."""
    return [
        one.name
        for one in ground.branches
        if one.name in ended.returned
        and one.kind != "bad"
        and (not one.partner or (one.partner in ended.returned and not one.second))
    ]


def pairs_of(ground: Ground) -> list[Branch]:
    """Return the older branch of each pair."""
    return [one for one in ground.branches if one.partner > one.name]


def named(ground: Ground, ended: Ended) -> int:
    """Count the pairs of which one branch was returned with the other's name."""
    told = ((one.name, one.partner) for one in pairs_of(ground))
    return sum(ended.returned.get(one) == other or ended.returned.get(other) == one for one, other in told)


def faults(ground: Ground, ended: Ended, history: History) -> Iterator[str]:
    """Yield a sentence for each thing that a gate has to show and that does not hold."""
    for one in ground.branches:
        landed = one.name in ended.landed
        if landed != (history.brought[one.name] == 1):
            yield f"'{one.name}' is said to be {'in' if landed else 'out'}, and {history.brought[one.name]} brought it"
        if one.kind in ("good", "flaky") and not landed:
            yield f"'{one.name}' is {one.kind}, and was returned"
        if one.kind == "bad" and (landed or ended.returned[one.name]):
            said = "landed" if landed else f"was held against '{ended.returned[one.name]}'"
            yield f"'{one.name}' is bad, and {said}"
        if one.partner and landed == (one.partner in ended.landed):
            how = "both" if landed else "neither"
            yield f"'{one.name}' and '{one.partner}' are a {one.kind} pair, and {how} landed"
        if one.partner and not landed and ended.returned[one.name] != one.partner:
            other = ended.returned[one.name] or "nobody"
            yield f"'{one.name}' was returned and {other} named, where '{one.partner}' is its {one.kind} partner"
    for commit in history.red_moves:
        yield f"the target stood at {commit[:12]}, which is red"


@dataclass(slots=True, kw_only=True)
class Row:
    """The sums of one queue over all seeds."""

    branches: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    runs: int = 0
    counts: list[int] | None = None
    """Landed, returned, wrongly returned, pairs named, pairs, moves of the target, red moves."""

    def add(self, ground: Ground, runs: int, cpu_s: float, ended: Ended, history: History) -> None:
        self.branches, self.runs = self.branches + len(ground.branches), self.runs + runs
        self.wall_s, self.cpu_s = self.wall_s + ended.wall_s, self.cpu_s + cpu_s
        pairs = (named(ground, ended), len(pairs_of(ground)))
        outcomes = (len(ended.landed), len(ended.returned), len(wrongly(ground, ended)))
        found = (*outcomes, *pairs, len(history.moves), len(history.red_moves))
        self.counts = [one + more for one, more in zip(self.counts or [0] * len(found), found, strict=True)]

    def cells(self, queue: str) -> tuple[str, ...]:
        landed, returned, wrong, told, pairs, moves, red = self.counts or [0] * 7
        figures = (f"{self.wall_s:.0f}", f"{self.cpu_s:.0f}", str(self.runs), f"{self.runs / self.branches:.2f}")
        return (queue, *figures, str(landed), str(returned), str(wrong), f"{told} of {pairs}", str(moves), str(red))


def children_cpu_s() -> float:
    """Return the CPU seconds of all children that have ended; what daemons have left behind is waited for first."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tell_ground(seed: int, ground: Ground) -> None:
    kinds = [one.kind for one in ground.branches]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds)))
    place = worktree(ground, ground.fresh("trial"), "trial-tree")
    began = time.monotonic()
    assert run_check(ground, place), "the project's own tests are red before anything begins"
    took = time.monotonic() - began
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    out().print(f"seed {seed}: {len(kinds)} branches: {counts}; a check takes {took:.1f} s", highlight=False)
    out().print(f"{os.cpu_count()} cores, load before it begins {load}", highlight=False)


def measure(ground: Ground, queues: dict[str, Queue], rows: dict[str, Row], broken_from: int) -> list[str]:
    """Add one seed to the rows, and return what does not hold of forgepool."""
    wrong = list[str]()
    for name, queue in queues.items():
        hub = ground.fresh(name)
        ground.shop.book.broken_from = broken_from
        before = children_cpu_s()
        ended = queue(ground, hub)
        cpu_s, runs = children_cpu_s() - before, len(ground.shop.book.runs)
        ran = f"{ended.wall_s:.0f} s, {cpu_s:.0f} s CPU, {runs} runs"
        said = f"{name}: {ran}, {len(ended.landed)} landed, load {os.getloadavg()[0]:.1f}"
        out().print(said, style="dim", highlight=False)
        history = look_back(ground, name, hub)
        rows.setdefault(name, Row()).add(ground, runs, cpu_s, ended, history)
        found = list(faults(ground, ended, history))
        if name == "forgepool":
            wrong = found
            tell_pairs(ground, ended)
            tell_runs(ground.folder / "gate")
        for said in found:
            out().print(f"  {name}: {said}", style="red" if name == "forgepool" else "dim", highlight=False)
    return wrong


def tell_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print the table at its full width, also where it is written into a file."""
    widths = [max(len(row[at]) for row in (COLUMNS, *rows)) for at in range(len(COLUMNS))]
    for each in (COLUMNS, *rows):
        first, *rest = (cell.rjust(width) for cell, width in zip(each, widths, strict=True))
        print("  ".join((first.strip().ljust(widths[0]), *rest)))


def tell_runs(home: Path) -> None:
    """Print the purposes of the gate's runs, counted by the names of their logs."""
    logs = [one.name.split("-")[0] for one in home.glob("home/runs/*/logs/checks/*/*-test.log")]
    counts = ", ".join(f"{logs.count(kind)} {kind}" for kind in sorted(set(logs), key=lambda one: -logs.count(one)))
    out().print(f"runs by what they were for: {counts}", highlight=False)


def tell_pairs(ground: Ground, ended: Ended) -> None:
    """Print in how many conflicting pairs the older branch landed, as is fair to those in line."""
    pairs = pairs_of(ground)
    older = sum(one.name in ended.landed for one in pairs)
    out().print(f"of {len(pairs)} conflicting pairs the older was kept in {older}", highlight=False)


def program_of(path: str | None) -> str | None:
    beside = Path(sys.executable).parent / "mergetrain"
    return path or shutil.which("mergetrain") or (str(beside) if beside.exists() else None)


@contextmanager
def place_for(keep: str | None, seed: int) -> Iterator[str]:
    if keep is not None:
        place = Path(keep) / str(seed)
        place.mkdir(parents=True)
        yield str(place)
        return
    with tempfile.TemporaryDirectory(prefix="br-", ignore_cleanup_errors=True) as made:
        yield made


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--branches", type=int, default=60, choices=range(15, MOST_BRANCHES + 1), metavar="N")
    parser.add_argument("--seeds", default="7", help="one, or a range such as 1-5")
    parser.add_argument("--queue", action="append", choices=("forgepool", "serial", "batch", "mergetrain"))
    parser.add_argument("--trials", default="2", help="forgepool's batches tested at once")
    parser.add_argument("--sandbox", default="auto", choices=("auto", "require", "off"), help="of forgepool's checks")
    parser.add_argument("--broken-host", action="store_true", help="the check's tool breaks in the middle")
    parser.add_argument("--keep", metavar="FOLDER", help="a new folder for all of it, which stays")
    parser.add_argument("--mergetrain", metavar="PATH", help="where that program is, if it is on no search path")
    asked = parser.parse_args()
    words = ("--trials", asked.trials, "--sandbox", asked.sandbox)
    queues: dict[str, Queue] = {"forgepool": partial(forgepool, words), "serial": serial, "batch": batch}
    program = program_of(asked.mergetrain)
    if program is not None:
        queues["mergetrain"] = partial(mergetrain, program)
    chosen = {name: queue for name, queue in queues.items() if asked.queue is None or name in asked.queue}
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rows, wrong = dict[str, Row](), list[str]()
    low, _, high = asked.seeds.partition("-")
    for seed in range(int(low), int(high or low) + 1):
        with place_for(asked.keep, seed) as made, ExitStack() as held:
            folder = Path(made).resolve()
            ground = make_ground(folder, held.enter_context(opened(folder)), asked.branches, seed)
            tell_ground(seed, ground)
            wrong += measure(ground, chosen, rows, BROKEN_FROM if asked.broken_host else 0)
    tell_table([row.cells(name) for name, row in rows.items()])
    if program is None:
        say = "mergetrain is not installed: python -m venv V && V/bin/pip install mergetrain, then --mergetrain"
        out().print(f"{say} V/bin/mergetrain", highlight=False)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
