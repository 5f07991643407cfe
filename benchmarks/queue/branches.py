"""
Sends sixty branches of a real repository, some with planted faults, through a real gate and through other queues.

    python benchmarks/queue/branches.py [--branches 60] [--seed 7] [--queue NAME ...] [--sandbox off]
                                        [--mergetrain PATH]

One branch in seven is bad (its own test fails), and one in ten is flaky. Of every fifteen, two conflict in the text,
and two are green alone and red together. All are submitted at once, and a queue ends when nothing is in line. Then the
check runs again on every commit of the target. Each queue gets the same branches in the same order, on a fresh hub:

    forgepool    a real daemon, two trials at once: `gate serve --trials 2`, its checks in a sandbox. `--sandbox off`
                 runs them as the other queues do, and is slower: without a sandbox no run is remembered
    serial       merge --no-ff, check, push, one branch at a time; a red check runs once more
    batch        up to eight at once, halved where red, as bors does; a single branch is tried once more
    mergetrain   that program, where it is installed: its daemon, with every branch approved beforehand

One branch of a pair has to land, and the queue is right to return the other. `between` counts commits of the target's
history at which the target never stood; each landing of several branches has some. Exit status 1 means that forgepool
did not show something that it has to show.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
    said_by_git,
)

from forgepool.orchestrator.cli.output.terminal import out
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.merge_queue.serve.serve import gate_name
from forgepool.orchestrator.reports.queue_board import QueueView
from forgepool.orchestrator.reports.queue_status import EntryStanding, standings

Queue = Callable[[Ground, Path], Ended]
PATIENCE_S = 1200.0
MOST_IN_BATCH = 8
COLUMNS = (
    "queue",
    "wall s",
    "check runs",
    "runs per branch",
    "landed",
    "returned",
    "wrongly returned",
    "moves of the target",
    "red moves",
    "between",
    "red between",
)


def forgepool(sandbox: str, ground: Ground, hub: Path) -> Ended:
    """Run forgepool's gate; its time runs from the push of all branches until nothing is in line."""
    home = ground.folder / "gate"
    path = os.pathsep.join((str(ground.folder / "bin"), plain_environment()["PATH"]))
    env = plain_environment(
        PATH=path, FORGEPOOL_HOME=str(home / "home"), FORGEPOOL_CACHE=str(home / "cache"), FORGEPOOL_HOST="b"
    )
    refs = [f"{one.commit}:refs/forgepool/for/main/{one.name}" for one in ground.branches]
    with served(home, hub, env, sandbox):
        view = QueueView(home / "home" / "runs" / gate_name(str(hub.resolve()), "main"))
        wait(lambda: looked(view) is not None, "the gate to open")
        began = time.monotonic()
        git(ground.seed, "push", "-q", str(hub), *refs)
        wait(lambda: has_ended(looked(view), len(refs)), "an empty line", lambda: told(view))
        wall_s = time.monotonic() - began
        said = json.loads(
            subprocess.run(
                [sys.executable, "-m", "forgepool.orchestrator", "gate", "status", "--json"],
                env=env,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    found = {one["entry"]: one for one in said["entries"]}
    return Ended(
        wall_s=wall_s,
        landed={name for name, one in found.items() if one["state"] == "landed"},
        returned={name: one["blocked_by"] for name, one in found.items() if one["state"] != "landed"},
    )


@contextmanager
def served(home: Path, hub: Path, env: dict[str, str], sandbox: str) -> Iterator[None]:
    """Serve a gate with its own Redis and workers, and end it as Ctrl-C twice does."""
    home.mkdir()
    where = ("--repo", str(hub.resolve()), "--target", "main")
    words = ("gate", "serve", *where, "--trials", "2", "--sandbox", sandbox)
    with (home / "said").open("w") as said:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "forgepool.orchestrator", *words],
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


def looked(view: QueueView) -> list[EntryStanding] | None:
    """Return the entries as `gate status` has them; None as long as there is no gate."""
    try:
        return view.look(lambda state: standings(state, time.time()))
    except JournalUnreadable:
        return None


def has_ended(found: Sequence[EntryStanding] | None, count: int) -> bool:
    ended = [one for one in found or () if one.state in ("landed", "returned", "withdrawn", "wants a person")]
    return len(ended) == count


def told(view: QueueView) -> str:
    return "\n".join(f"{one.entry} {one.state}: {one.why}" for one in looked(view) or () if one.state != "landed")


def wait(seen: Callable[[], bool], what: str, more: Callable[[], str] = str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < until, f"waited {PATIENCE_S:.0f} s in vain for {what}\n{more()}"
        time.sleep(0.1)


def serial(ground: Ground, hub: Path) -> Ended:
    ended = Ended()
    began = time.monotonic()
    place = worktree(ground, hub, "serial-tree")
    for branch in ground.branches:
        git(place, "checkout", "-q", "--detach", "main")
        if merged(place, branch) and (run_check(ground, place) or run_check(ground, place)):
            git(place, "push", "-q", str(hub), "HEAD:main")
            git(place, "branch", "-q", "-f", "main", "HEAD")
            ended.landed.add(branch.name)
        else:
            ended.returned[branch.name] = ""
    ended.wall_s = time.monotonic() - began
    return ended


def batch(ground: Ground, hub: Path) -> Ended:
    ended = Ended()
    began = time.monotonic()
    place = worktree(ground, hub, "batch-tree")
    waiting, halves = list(ground.branches), list[list[Branch]]()
    while waiting or halves:
        some = halves.pop(0) if halves else [waiting.pop(0) for _ in range(min(MOST_IN_BATCH, len(waiting)))]
        if lands_together(ground, place, hub, some):
            ended.landed.update(one.name for one in some)
        elif len(some) == 1:
            ended.returned[some[0].name] = ""
        else:
            middle = len(some) // 2
            halves[:0] = [some[:middle], some[middle:]]
    ended.wall_s = time.monotonic() - began
    return ended


def lands_together(ground: Ground, place: Path, hub: Path, some: Sequence[Branch]) -> bool:
    git(place, "checkout", "-q", "--detach", "main")
    if not all(merged(place, one) for one in some):
        return False
    if not run_check(ground, place) and (len(some) > 1 or not run_check(ground, place)):
        return False
    git(place, "push", "-q", str(hub), "HEAD:main")
    git(place, "branch", "-q", "-f", "main", "HEAD")
    return True


def worktree(ground: Ground, hub: Path, name: str) -> Path:
    """Return a clone that has all branches, with the hub as its origin; the queues move its `main` with the hub's."""
    place = ground.folder / name
    git(ground.folder, "clone", "-q", str(ground.seed), str(place))
    git(place, "remote", "set-url", "origin", str(hub))
    git(place, "checkout", "-q", "--detach")
    return place


def merged(place: Path, branch: Branch) -> bool:
    status, _ = said_by_git(place, "merge", "-q", "--no-ff", "-m", f"land {branch.name}", branch.commit)
    if status:
        git(place, "merge", "--abort")
    return status == 0


def mergetrain(program: str, ground: Ground, hub: Path) -> Ended:
    """Run mergetrain its own way: a worktree for each branch, all approved, and its daemon until nothing is left."""
    place = worktree(ground, hub, "mergetrain-tree")
    git(place, "checkout", "-q", "main")
    for branch in ground.branches:
        tree = ground.folder / "trees" / branch.name
        git(place, "worktree", "add", "-q", "-b", branch.name, str(tree), branch.commit)
        peer(program, tree, "enqueue", "--auto", "--task", branch.name, "--branch", branch.name)
    began = time.monotonic()
    while "no auto-approved queued jobs" not in (said := peer(program, place, "daemon", "--once")):
        assert time.monotonic() < began + PATIENCE_S, said
        out().print(f"  mergetrain: {' '.join(said.split())[-100:]}", style="dim", highlight=False)
    wall_s = time.monotonic() - began
    held = {one.name for one in ground.branches if is_in(hub, one.commit)}
    return Ended(wall_s=wall_s, landed=held, returned={one.name: "" for one in ground.branches if one.name not in held})


def peer(program: str, place: Path, *words: str) -> str:
    ran = subprocess.run(
        [program, "--repo", str(place), *words],
        cwd=place,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr


def is_in(hub: Path, commit: str) -> bool:
    status, _ = said_by_git(hub, "merge-base", "--is-ancestor", commit, "main", ok=(0, 1, 128))
    return status == 0


def wrongly(ground: Ground, ended: Ended) -> list[str]:
    """Return the names of branches that were wrongly returned: good or flaky ones, and one of a pair returned whole."""
    return [
        one.name
        for one in ground.branches
        if one.name in ended.returned
        and one.kind != "bad"
        and (not one.partner or (one.partner in ended.returned and not one.second))
    ]


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
            named = ended.returned[one.name] or "nobody"
            yield f"'{one.name}' was returned and {named} named, where '{one.partner}' is its {one.kind} partner"
    for commit in history.red_moves:
        yield f"the target stood at {commit[:12]}, which is red"


def row(queue: str, ground: Ground, runs: int, ended: Ended, history: History) -> tuple[str, ...]:
    counts = (len(ended.landed), len(ended.returned), len(wrongly(ground, ended)), len(history.moves))
    reds = (len(history.red_moves), len(history.between), len(history.red_between))
    return (
        queue,
        f"{ended.wall_s:.0f}",
        str(runs),
        f"{runs / len(ground.branches):.2f}",
        *(str(one) for one in (*counts, *reds)),
    )


def tell_ground(ground: Ground) -> None:
    kinds = [one.kind for one in ground.branches]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds)))
    place = worktree(ground, ground.fresh("trial"), "trial-tree")
    began = time.monotonic()
    assert run_check(ground, place), "the project's own tests are red before anything begins"
    took = time.monotonic() - began
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    out().print(f"{len(kinds)} branches: {counts}; a check takes {took:.1f} s", highlight=False)
    out().print(f"{os.cpu_count()} cores, load before it begins {load}", highlight=False)


def measured(ground: Ground, queues: dict[str, Queue]) -> list[str]:
    """Print the table, and return what does not hold of forgepool."""
    rows, wrong = list[tuple[str, ...]](), list[str]()
    for name, queue in queues.items():
        hub = ground.fresh(name)
        ended = queue(ground, hub)
        runs = len(ground.shop.book.runs)
        said = f"{name}: {ended.wall_s:.0f} s, {runs} runs, {len(ended.landed)} landed, load {os.getloadavg()[0]:.1f}"
        out().print(said, style="dim", highlight=False)
        history = look_back(ground, name, hub)
        rows.append(row(name, ground, runs, ended, history))
        found = list(faults(ground, ended, history))
        if name == "forgepool":
            wrong = found
            tell_pairs(ground, ended)
            tell_runs(ground.folder / "gate")
        for said in found:
            out().print(f"  {name}: {said}", style="red" if name == "forgepool" else "dim", highlight=False)
    tell_table(rows)
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
    pairs = [one for one in ground.branches if one.partner > one.name]
    older = sum(one.name in ended.landed for one in pairs)
    out().print(f"of {len(pairs)} conflicting pairs the older was kept in {older}", highlight=False)


def program_of(named: str | None) -> str | None:
    beside = Path(sys.executable).parent / "mergetrain"
    return named or shutil.which("mergetrain") or (str(beside) if beside.exists() else None)


@contextmanager
def place_for(keep: str | None) -> Iterator[str]:
    if keep is not None:
        Path(keep).mkdir(parents=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="br-", ignore_cleanup_errors=True) as made:
        yield made


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--branches", type=int, default=60, choices=range(15, MOST_BRANCHES + 1), metavar="N")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--queue", action="append", choices=("forgepool", "serial", "batch", "mergetrain"))
    parser.add_argument("--sandbox", default="auto", choices=("auto", "require", "off"), help="of forgepool's checks")
    parser.add_argument("--keep", metavar="FOLDER", help="a new folder for all of it, which stays")
    parser.add_argument("--mergetrain", metavar="PATH", help="where that program is, if it is on no search path")
    asked = parser.parse_args()
    queues: dict[str, Queue] = {"forgepool": partial(forgepool, asked.sandbox), "serial": serial, "batch": batch}
    program = program_of(asked.mergetrain)
    if program is not None:
        queues["mergetrain"] = partial(mergetrain, program)
    chosen = {name: queue for name, queue in queues.items() if asked.queue is None or name in asked.queue}
    with place_for(asked.keep) as made, ExitStack() as held:
        folder = Path(made).resolve()
        ground = make_ground(folder, held.enter_context(opened(folder)), asked.branches, asked.seed)
        tell_ground(ground)
        wrong = measured(ground, chosen)
    if program is None:
        say = "mergetrain is not installed: python -m venv V && V/bin/pip install mergetrain, then --mergetrain"
        out().print(f"{say} V/bin/mergetrain", highlight=False)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
