"""
The queues that forgepool is measured against: one branch at a time, batches, and mergetrain, a program of others.

Each works in a clone of its own, and pushes to the hub.
"""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from branches_kit import Branch, Ended, Ground, git, plain_environment, run_check, said_by_git

from forgepool.orchestrator.cli.output.terminal import out

PATIENCE_S = 3600.0
MOST_IN_BATCH = 8


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
