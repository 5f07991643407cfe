"""
Prints what the copy of a run's journal costs its hub: copies (each is one push) and bytes.

    python benchmarks/worktrees/journal_copy.py [--tasks 200] [--workers 2]

One run of tasks that each write a file. The copies are counted in the mirror, which keeps their objects when the run
has removed its refs. `bytes` is their size as git stores them, compressed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--tasks", type=int, default=200)
    asked.add_argument("--workers", type=int, default=2)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _run(folder, given.tasks, given.workers)
        sizes = _sizes(next((folder / "cache" / "mirrors").glob("*.git")))
        print(
            f"{given.tasks} tasks: {len(sizes)} copies, {sum(sizes):,} bytes ({sum(sizes) // given.tasks:,} for a task)"
        )


def _run(folder: Path, tasks: int, workers: int) -> None:
    hub = folder / "hub"
    me = {f"GIT_{who}_{what}": "a@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    own = {"FORGEPOOL_HOME": str(folder / "home"), "FORGEPOOL_CACHE": str(folder / "cache")}
    for words in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "first")):
        hub.mkdir(exist_ok=True)
        subprocess.run(["git", *words], cwd=hub, env=os.environ | me, check=True)
    told = [{"id": f"t{n}", "files": [f"f{n}"], "agent": {"command": f"echo {n} > f{n}"}} for n in range(tasks)]
    plan = folder / "plan.yaml"
    checks = {"any": 'test -n "$(ls)"'}
    plan.write_text(json.dumps({"version": 1, "name": "copied", "checks": checks, "tasks": told}))
    words = ("run", str(plan), "--repo", str(hub), "--workers", str(workers))
    run = [sys.executable, "-m", "forgepool.orchestrator.cli", *words]
    subprocess.run(run, env=os.environ | own, check=True, stdout=subprocess.DEVNULL)


def _sizes(mirror: Path) -> list[int]:
    """Bytes of each commit that is a copy."""
    form = "--batch-check=%(objectname) %(objecttype) %(objectsize:disk)"
    listed = _git(mirror, "cat-file", "--batch-all-objects", form).splitlines()
    commits = {name: int(size) for name, kind, size in map(str.split, listed) if kind == "commit"}
    said = _git(mirror, "log", "--no-walk", "--format=%H %s", "--stdin", given="\n".join(commits)).splitlines()
    return [commits[line.split()[0]] for line in said if line.split(" ", 1)[1].startswith("Journal of ")]


def _git(mirror: Path, *words: str, given: str | None = None) -> str:
    done = subprocess.run(["git", *words], cwd=mirror, input=given, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    main()
