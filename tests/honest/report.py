"""
Print how the scans judge each tool's edit of each project, as Markdown.

Without arguments: a table of project and tool with files changed and refusals. With `--weakening`: the edits that tools
themselves call unsafe, by rule, each with the lines before and after.

    python tests/honest/report.py [--weakening]
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from projects import PROJECTS, NotHere, Project, open_project
from tools import TOOLS, WEAKENING, edit

from forgepool.workers.workspace.scans.findings import ScanFinding


def judged(tools: Sequence[str]) -> Iterator[tuple[str, str, int, tuple[ScanFinding, ...]]]:
    """Yield project, tool, files changed and refusals."""
    for name in PROJECTS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                project = open_project(name, Path(folder, "checkout"))
            except NotHere as missing:
                print(missing, file=sys.stderr)
                continue
            yield from ((name, tool, *_judge(project, tool)) for tool in tools)


def _judge(project: Project, tool: str) -> tuple[int, tuple[ScanFinding, ...]]:
    commit = edit(project, tool)
    changed = len(project.changed(commit))
    return changed, project.refusals(commit) if changed else ()


def print_table(tools: Sequence[str]) -> None:
    print("| project |", " | ".join(tools), "|")
    print("|---|", "---:|" * len(tools), sep="")
    rows: dict[str, list[str]] = {}
    for name, _, changed, refusals in judged(tools):
        rows.setdefault(name, []).append(f"{changed} files, {len(refusals)} refusals")
    for name, cells in rows.items():
        print(f"| {name} |", " | ".join(cells), "|")


def print_refusals(tools: Sequence[str]) -> None:
    for name, tool, changed, refusals in judged(tools):
        print(f"{name}, {tool}: {changed} files, {len(refusals)} refusals")
        for one in refusals:
            print(f"  {one.weight} {one.rule} {one.path}:{one.line} {one.text}")


if __name__ == "__main__":
    if "--weakening" in sys.argv[1:]:
        print_refusals(tuple(WEAKENING))
    else:
        print_table(TOOLS)
