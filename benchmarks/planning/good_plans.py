"""
Plans made of real commits: each task is one commit's message and files, accepted by what that commit added.

A plan starts at the parent of its first commit. A task needs the last one before it that changed one of its files. Its
acceptance runs the tests that the commit added, or looks for a name or a line that it added, so that it fails on the
base. Every second plan also has a guard: a test file that passes there.
"""

import random
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forgepool.orchestrator.plan.validation.facts import Requirement
from forgepool.workers.workspace.scans.protection import find_manifests, is_protected

_WINDOW = 80
_FEWEST, _MOST = 3, 5
_MOST_FILES = 4
_TEST = re.compile(r"(^|/)tests?(/|\.py$)|(^|/)test_[^/]*\.py$")
_TRAILER = re.compile(r"^(?:Signed-off-by|Co-authored-by|Change-Id|Reviewed-by): .*$", re.MULTILINE | re.IGNORECASE)
_DEFINED = re.compile(r"^\+\s*(?:async )?(?:def|class) ([A-Za-z]\w{3,})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a history, with the files that it changes."""

    id: str
    subject: str
    body: str
    changed: tuple[str, ...]
    made: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.changed, *self.made)


@dataclass(slots=True)
class GoodPlan:
    """A plan as data, and what it was made of."""

    name: str
    repository: Path
    base: str
    tree: frozenset[str]
    document: dict[str, Any]
    requirements: list[Requirement]
    symbols: dict[str, str] = field(default_factory=dict)
    """A name that each task adds to the tree."""

    @property
    def tasks(self) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = self.document["tasks"]
        return tasks


def git(repository: Path, *argv: str) -> str:
    ran = subprocess.run(("git", "-C", repository, *argv), capture_output=True, check=True)
    return ran.stdout.decode(errors="replace")


def read_history(repository: Path) -> list[Commit]:
    """Return the commits without merges, oldest first, that change a few ordinary files and remove none."""
    text = git(
        repository,
        "log",
        "--no-merges",
        "--reverse",
        "--no-renames",
        "--name-status",
        "--format=%x01%H%x00%s%x00%b%x00",
    )
    commits = []
    for part in text.split("\x01")[1:]:
        name, subject, body, names = part.split("\x00", 3)
        rows = [line.split("\t", 1) for line in names.strip().splitlines() if "\t" in line]
        kinds = {kind for kind, _ in rows}
        paths = [path for _, path in rows]
        if 0 < len(rows) <= _MOST_FILES and kinds <= {"A", "M"} and not any(map(_is_special, paths)):
            changed = tuple(path for kind, path in rows if kind == "M")
            made = tuple(path for kind, path in rows if kind == "A")
            commits.append(Commit(name, subject.strip(), body.strip(), changed, made))
    return commits


def _is_special(path: str) -> bool:
    return is_protected(path) or find_manifests(path) is not None or not re.fullmatch(r"[\w./+-]+", path)


def make_plans(repository: Path, count: int, seed: int) -> list[GoodPlan]:
    """Return plans that begin at different places of a history."""
    history = read_history(repository)
    choice = random.Random(f"{repository.name}-{seed}")
    starts = list(range(len(history) // 3, len(history) - _FEWEST))
    choice.shuffle(starts)
    plans: list[GoodPlan] = []
    for start in starts:
        if len(plans) == count:
            break
        if plan := _make_plan(repository, history[start : start + _WINDOW], len(plans), choice):
            plans.append(plan)
    return plans


def _make_plan(repository: Path, window: list[Commit], number: int, choice: random.Random) -> GoodPlan | None:
    base = git(repository, "rev-parse", f"{window[0].id}^").strip()
    tree = frozenset(git(repository, "ls-tree", "-r", "--name-only", base).splitlines())
    name = f"{repository.name}-{number}"
    document: dict[str, Any] = {
        "version": 1,
        "name": name,
        "base": base,
        "checks": "none",
        "defaults": {"agent": {"builtin": {}}},
        "tasks": [],
    }
    plan = GoodPlan(name, repository, base, tree, document, [])
    wanted = choice.randint(_FEWEST, _MOST)
    last: dict[str, str] = {}
    for commit in window:
        if len(plan.tasks) == wanted:
            break
        if any(path not in tree and path not in last for path in commit.changed):
            continue
        if task := _make_task(plan, commit, number, last):
            plan.tasks.append(task)
            last |= dict.fromkeys(commit.files, task["id"])
            text = commit.subject.replace("|", "/")
            plan.requirements.append(Requirement(id=f"R{len(plan.tasks)}", text=text, tasks=(task["id"],)))
    return plan if len(plan.tasks) == wanted else None


def _make_task(plan: GoodPlan, commit: Commit, number: int, last: dict[str, str]) -> dict[str, Any] | None:
    taken = {command for task in plan.tasks for command in task["acceptance"]}
    accepted = next((each for each in _acceptances(plan, commit) if each[0] not in taken), None)
    if accepted is None:
        return None
    command, symbol = accepted
    name = f"t{len(plan.tasks) + 1}"
    if symbol:
        plan.symbols[name] = symbol
    words = _TRAILER.sub("", f"{commit.subject}\n{commit.body}").strip()
    paths = ", ".join(f"`{path}`" for path in commit.files)
    description = (f"{words}\nThe change is in {paths}.", words, f"In {paths}: {words}")[number % 3]
    task = {"id": name, "title": commit.subject, "description": description, "files": [*commit.files]}
    if needs := sorted({last[path] for path in commit.files if path in last}):
        task["needs"] = needs
    task["acceptance"] = [command]
    tests = [path for path in commit.changed if _TEST.search(path) and path.endswith(".py") and path in plan.tree]
    if number % 2 == 0 and tests and not any("guards" in each for each in plan.tasks):
        task["guards"] = [f"python3 -m pytest -q {shlex.quote(tests[0])}"]
    return task


def _acceptances(plan: GoodPlan, commit: Commit) -> Iterator[tuple[str, str]]:
    """Yield commands that fail on the base and pass on the commit, with the name that they look for."""
    for path in commit.files:
        if _TEST.search(path) and path.endswith(".py"):
            for name in _added(plan, commit, path, _DEFINED):
                if name.lower().startswith("test"):
                    yield f"python3 -m pytest -q {shlex.quote(path)} -k {name}", ""
    for path in commit.files:
        if path.endswith(".py") and not _TEST.search(path):
            for name in _added(plan, commit, path, _DEFINED):
                yield f"grep -qw {name} {shlex.quote(path)}", name
    for path in commit.files:
        for line in _added(plan, commit, path, re.compile(r"^\+\s*(\S.{11,50}\S)\s*$", re.MULTILINE)):
            yield f"grep -qF -e {shlex.quote(line)} {shlex.quote(path)}", ""


def _added(plan: GoodPlan, commit: Commit, path: str, pattern: re.Pattern[str]) -> Iterator[str]:
    old = git(plan.repository, "show", f"{plan.base}:{path}") if path in plan.tree else ""
    diff = git(plan.repository, "show", "--format=", "--unified=0", commit.id, "--", path)
    for found in pattern.findall(diff):
        if found not in old and not found.startswith("++"):
            yield found
