"""
Compares a lease from the pool with `git worktree add` and `git worktree remove`, on the same generated trees.

    python benchmarks/worktrees/checkouts.py [--files 5000 50000] [--rounds 5]

Both sides are measured in the same run, round by round in turn, on the same repository and disk. The table shows
medians. "clean" means that nothing was written to the checkout. "worked in" means that 20 files were changed and 100
untracked ones made before. `git worktree` is timed for one `add` and one `remove --force`, the cost of each use of it.
A lease gives the slot back by closing a file. In the first row nothing is removed before the last round: ext4 looks for
a new file's inode past all that were freed in the last minutes, so who creates files after a removal pays for it.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from forgepool.worktrees.checkouts.checkout import lease_checkout
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, Git
from forgepool.worktrees.hub.mirror import Mirror, open_mirror

CHANGED, UNTRACKED = 20, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    print(f"median of {chosen.rounds} rounds, milliseconds")
    print(f"{'files':>7}  {'checkout':<28}{'git worktree':>13}{'pooled lease':>13}{'times faster':>14}")
    for files in chosen.files:
        with tempfile.TemporaryDirectory(prefix="forgepool-benchmark-") as place:
            for name, plain_ms, lease_ms in compare(Path(place), files, chosen.rounds):
                print(f"{files:>7}  {name:<28}{plain_ms:>13.1f}{lease_ms:>13.1f}{plain_ms / lease_ms:>14.1f}")


def compare(place: Path, files: int, rounds: int) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each case, and the median milliseconds of git's way and of the pool's."""
    hub = generate(place / "hub", files)
    mirror = open_mirror(str(hub / ".git"), place / "cache")
    tips = mirror.hub_refs("refs/heads/main", "refs/heads/next")
    main, following = tips["refs/heads/main"], tips["refs/heads/next"]
    pool, plain = place / "pool", place / "plain"
    yield (
        "first, of an empty pool",
        *medians(lambda: added(mirror.git, fresh(place), main), lambda: lease(mirror, main, fresh(place)), rounds=3),
    )
    lease(mirror, main, pool)
    yield (
        "clean, same commit",
        *medians(lambda: worktree(mirror.git, plain, main), lambda: lease(mirror, main, pool), rounds=rounds),
    )
    yield (
        "worked in, same commit",
        *medians(
            lambda: worktree(mirror.git, plain, main, soil),
            lambda: lease(mirror, main, pool, soil),
            rounds=rounds,
        ),
    )
    turns = [main, following] * rounds
    yield (
        "worked in, another commit",
        *medians(
            lambda: worktree(mirror.git, plain, following, soil),
            lambda: lease(mirror, turns.pop(), pool, soil),
            rounds=rounds,
        ),
    )
    yield (
        "and a snapshot of the work",
        *medians(
            lambda: worktree(mirror.git, plain, main, soil, photograph),
            lambda: lease(mirror, main, pool, soil, snapshot=True),
            rounds=rounds,
        ),
    )


def medians(plain: Callable[[], float], pooled: Callable[[], float], rounds: int) -> tuple[float, float]:
    """Return both median milliseconds; the two run in turn, so that the machine's other work falls on both."""
    taken = [(plain(), pooled()) for _ in range(rounds)]
    ours, theirs = (statistics.median(side) * 1000 for side in zip(*taken, strict=True))
    return ours, theirs


def lease(
    mirror: Mirror,
    commit: CommitId,
    pool: Path,
    work: Callable[[Path], None] | None = None,
    snapshot: bool = False,
) -> float:
    """Return the seconds to lease, to snapshot and to give back, without the seconds the work takes."""
    begun = time.perf_counter()
    with lease_checkout(mirror, commit, pool) as checkout:
        leased = time.perf_counter() - begun
        if work is not None:
            work(checkout.path)
        begun = time.perf_counter()
        if snapshot:
            assert checkout.snapshot() != tree_of(mirror.git, commit)
    return leased + time.perf_counter() - begun


def added(git: Git, path: Path, commit: CommitId) -> float:
    """Return the seconds of `git worktree add` alone."""
    begun = time.perf_counter()
    git.run("worktree", "add", "-f", "--detach", str(path), commit)
    return time.perf_counter() - begun


def worktree(
    git: Git,
    path: Path,
    commit: CommitId,
    work: Callable[[Path], None] | None = None,
    after: Callable[[Path], None] | None = None,
) -> float:
    """Return the seconds of git's own way, without the seconds the work takes."""
    begun = time.perf_counter()
    git.run("worktree", "add", "-f", "--detach", str(path), commit)
    added = time.perf_counter() - begun
    if work is not None:
        work(path)
    begun = time.perf_counter()
    if after is not None:
        after(path)
    git.run("worktree", "remove", "--force", str(path))
    return added + time.perf_counter() - begun


def photograph(path: Path) -> None:
    """Take a snapshot in a plain worktree, with as many git processes as ours and fewer checks."""
    plain(path, "add", "-A")
    plain(path, "write-tree")


def soil(path: Path) -> None:
    """Change some files and make others, as an agent does."""
    changed = sorted((path / "p0").rglob("*.py"))[:CHANGED]
    for file in changed:
        file.write_text("changed = True\n" * 20)
    (path / "build").mkdir(exist_ok=True)
    for number in range(UNTRACKED):
        (path / "build" / f"out{number}.bin").write_bytes(b"x" * 1000)


def generate(hub: Path, files: int) -> Path:
    """Make a repository with two commits that differ in a hundredth of the files."""
    hub.mkdir()
    plain(hub, "init", "-q", "-b", "main")
    for number in range(files):
        file = hub / f"p{number % 20}" / f"d{number // 20 % 25}" / f"module{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'"""Module {number}."""\n' + "".join(f"value_{n} = {n * number}\n" for n in range(40)))
    commit(hub, "first")
    plain(hub, "checkout", "-q", "-b", "next")
    for number in range(0, files, 100):
        file = hub / f"p{number % 20}" / f"d{number // 20 % 25}" / f"module{number}.py"
        file.write_text(f"value = {number}\n")
    commit(hub, "second")
    plain(hub, "checkout", "-q", "--detach")
    return hub


def commit(hub: Path, message: str) -> None:
    plain(hub, "add", "-A")
    plain(hub, "-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "-q", "-m", message)


def fresh(place: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="pool-", dir=place))


def plain(folder: Path, *argv: str) -> None:
    subprocess.run(["git", "-C", str(folder), "-c", "gc.auto=0", *argv], check=True, capture_output=True)


if __name__ == "__main__":
    main()
