"""
Measures a large repository as a hub on the same disk: its mirror, its first and later checkouts, and its loose objects.

    python benchmarks/worktrees/large_repository.py [--files 5000] [--history-mb 100] [--tasks 200]

The repository has a bare hub with `--files` files at its tip, and a history of random bytes. The mirror is compared
with `git clone --mirror`, by links (`--local`, git's own way on one disk) and by transfer (`--no-local`). Its size is
that of the files which the hub has not. The first lease is compared with `git worktree add`. Then `--tasks` candidates
of two files each are pushed, as orders do, and packed as at a run's end. CPU is that of this process and its children.
"""

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from forgepool.worktrees.checkouts.checkout import lease_checkout
from forgepool.worktrees.commits.candidate import commit_candidate, files_of, with_files
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate

BLOB_BYTES, BLOBS = 20_000, 25
"""Bytes of a random file, and the number of them that each commit of the history replaces."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--history-mb", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=200)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forgepool-benchmark-") as place:
        hub = generate(Path(place) / "hub.git", chosen.files, chosen.history_mb)
        print(f"{chosen.files} files, hub of {megabytes(hub):.0f} MB")
        print(f"{'step':<44}{'s':>8}{'CPU s':>8}{'MB':>8}{'loose':>8}")
        for name, (wall_s, cpu_s), size_mb, loose in measure(hub, Path(place), chosen.tasks):
            print(f"{name:<44}{wall_s:>8.2f}{cpu_s:>8.2f}{size_mb:>8.1f}{loose:>8}")


Row = tuple[str, tuple[float, float], float, str]


def measure(hub: Path, place: Path, tasks: int) -> Iterator[Row]:
    """Yield the name, seconds, megabytes and loose objects (hub, mirror) of each step."""
    for name, way in (("git clone --mirror, linked", "--local"), ("git clone --mirror, transferred", "--no-local")):
        spent = clock(lambda way=way: git(place, "clone", "-q", "--mirror", way, str(hub), "clone"))
        yield name, spent, megabytes(place / "clone", beside=hub), ""
        shutil.rmtree(place / "clone")
    spent = clock(lambda: open_mirror(str(hub), place / "cache"))
    mirror = open_mirror(str(hub), place / "cache")
    yield "mirror", spent, megabytes(mirror.path, beside=hub), ""
    tip = mirror.hub_refs("refs/heads/main")["refs/heads/main"]
    for round_ in ("", ", once more"):
        path = place / f"plain{round_}"
        spent = clock(lambda path=path: mirror.git.run("worktree", "add", "-f", "--detach", str(path), tip))
        yield f"git worktree add{round_}", spent, megabytes(path), ""
        pool = place / f"pool{round_}"
        yield f"first lease{round_}", clock(lambda pool=pool: lease(mirror, tip, pool)), megabytes(pool), ""
    yield "steady lease", clock(lambda: lease(mirror, tip, pool)), megabytes(pool), ""
    spent = clock(lambda: push_candidates(mirror, tip, tasks))
    yield f"{tasks} candidates", spent, megabytes(mirror.path, beside=hub), loose(hub, mirror)
    yield "packed", clock(mirror.pack), megabytes(mirror.path, beside=hub), loose(hub, mirror)


def lease(mirror: Mirror, commit: CommitId, pool: Path) -> None:
    with lease_checkout(mirror, commit, pool):
        pass


def push_candidates(mirror: Mirror, tip: CommitId, count: int) -> None:
    """Push candidates of two changed files each."""
    tree = tree_of(mirror.git, tip)
    paths = list(files_of(mirror.git, tree, below=["p0/d0"]))[:2]
    for number in range(count):
        blob = mirror.git.text("hash-object", "-w", "--stdin", stdin=f"{number}\n".encode())
        work = with_files(mirror.git, tree, paths, dict.fromkeys(paths, f"100644 {blob}"))
        commit = commit_candidate(mirror.git, base=tip, tree=work, message=f"{number}", at=number)
        ref = f"refs/forgepool/benchmark/orders/t{number}/1"
        assert mirror.push([RefUpdate(ref=ref, new=commit, expected=None)]) == Pushed()


def loose(hub: Path, mirror: Mirror) -> str:
    """Return the number of loose objects of the hub and of the mirror."""
    counts = [len(list((folder / "objects").glob("??/*"))) for folder in (hub, mirror.path)]
    return "{}, {}".format(*counts)


def megabytes(folder: Path, *, beside: Path | None = None) -> float:
    """Return the megabytes a folder takes on the disk, but for files that `beside` has too."""
    seen = set() if beside is None else {path.lstat().st_ino for path in beside.rglob("*")}
    sizes = {at.st_ino: at.st_blocks * 512 for path in folder.rglob("*") if (at := path.lstat()).st_ino not in seen}
    return sum(sizes.values()) / 1e6


def clock(step: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the seconds of CPU that a step takes."""
    wall, cpu = time.perf_counter(), cpu_s()
    step()
    return time.perf_counter() - wall, cpu_s() - cpu


def cpu_s() -> float:
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def generate(hub: Path, files: int, history_mb: int) -> Path:
    """Make a bare repository: a commit of text files, then commits that replace files of random bytes."""
    hub.mkdir()
    git(hub, "init", "-q", "--bare", "-b", "main")
    importing = subprocess.Popen(
        ["git", "-C", str(hub), "-c", "core.compression=1", "fast-import", "--quiet"], stdin=subprocess.PIPE
    )
    assert importing.stdin is not None
    for piece in history(files, history_mb):
        importing.stdin.write(piece)
    importing.stdin.close()
    if importing.wait():
        raise SystemExit("git fast-import could not make the repository")
    return hub


def history(files: int, history_mb: int) -> Iterator[bytes]:
    """Yield the input of `git fast-import`."""
    yield head(0)
    for number in range(files):
        text = f'"""Module {number}."""\n' + "".join(f"value_{n} = {n * number}\n" for n in range(40))
        yield file(f"p{number % 20}/d{number // 20 % 25}/module{number}.py", text.encode())
    for number in range(1, 1 + history_mb * 1_000_000 // (BLOB_BYTES * BLOBS)):
        yield head(number)
        for at in range(BLOBS):
            yield file(f"random/{at}.bin", os.urandom(BLOB_BYTES))


def head(number: int) -> bytes:
    return f"commit refs/heads/main\ncommitter b <b@localhost> {number} +0000\ndata 1\nx\n".encode()


def file(path: str, content: bytes) -> bytes:
    return f"M 100644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n"


def git(folder: Path, *argv: str) -> None:
    subprocess.run(["git", "-C", str(folder), *argv], check=True)


if __name__ == "__main__":
    main()
