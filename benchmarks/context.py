"""
Prints the cost of the context's profiles: on recorded runs, on runs held out from tuning, and in milliseconds.

    python benchmarks/context.py replay PATH...              the table of `forgepool context replay`
    python benchmarks/context.py heldout [--births] PATH...  families tuned on half of the projects, scored on the other
    python benchmarks/context.py why [--svg FILE] PATH...    what evicting before every call costs, and a plot of it
    python benchmarks/context.py build [--calls N ...]       milliseconds to build the next view
    python benchmarks/context.py day23                       the published 33-turn run under the stages of PACE

Paths are recordings, or folders of them. Each table has a baseline: the same runs, or the same conversation, with
nothing ever removed.
"""

import argparse
import sys
from pathlib import Path

from helpers import context_building, context_families, context_why

from forgepool.orchestrator.cli.agents.context import replay
from forgepool.workers.context.replay.comparison import ReplayCase, cases
from forgepool.workers.context.replay.formats import read_recordings


def found_in(paths: list[str]) -> list[ReplayCase]:
    files = [file for path in map(Path, paths) for file in (sorted(path.rglob("*.json*")) if path.is_dir() else [path])]
    return cases([recording for file in files for recording in read_recordings(file)])


def day23() -> None:
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "workers" / "context" / "kits"))
    from day23 import rows

    print("tokens; 'cached' in tokens of fresh input: 1.25 to write, 0.1 to read")
    for row in rows():
        print(row)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("table", choices=("replay", "heldout", "why", "build", "day23"))
    asked.add_argument("paths", nargs="*")
    asked.add_argument("--births", action="store_true", help="all families with our birth transforms")
    asked.add_argument("--svg", type=Path)
    asked.add_argument("--calls", type=int, nargs="+", default=[200, 2_000])
    given = asked.parse_intermixed_args()
    if given.table in ("replay", "heldout", "why") and not given.paths:
        asked.error("name the recordings")
    match given.table:
        case "replay":
            replay(given.paths)
        case "heldout":
            context_families.show(found_in(given.paths), births=given.births)
        case "why":
            context_why.show(found_in(given.paths), given.svg)
        case "build":
            context_building.show(given.calls)
        case _:
            day23()


if __name__ == "__main__":
    main()
