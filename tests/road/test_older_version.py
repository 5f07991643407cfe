"""
Resume a run of an older version that was killed with SIGKILL.

`data/killed_run` was made with commit 26e9a1e: `forgepool run examples/inventory-plan.yaml --workers 2`. One task had
landed, one was under review and two were being worked on. Six candidates waited in batches that were being split. The
second attempt in the script of `weight-text` is that of this version, in which it begins with the change of the first.

`@GROUND@` stands for its folder, and `@PROGRAMS@` for the folder with Python and the linter.
"""

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, Repository, events_of
from pydantic import BaseModel

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.plan.document import load_plan
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.policy.document import read_policy
from forgepool.workers.policy.gate_file.reading import read_gate_file

_KILLED = Path(__file__).parent / "data" / "killed_run"
_FILES = _KILLED.with_name("older_files")
_BRANCH = "forgepool/inventory-clean-up"


def _restore(ground: Path, machine: Machine) -> tuple[str, Repository]:
    """Write the run's folder and its repository as the older version left them."""
    repository = Repository(path=ground / "repo")
    repository.path.mkdir()
    repository.git("init", "-q", "-b", "main")
    repository.git("fetch", "-q", "--update-head-ok", str(_KILLED / "hub.bundle"), "+refs/*:refs/*")
    options = _filled("options.json", ground)
    run: str = json.loads(options)["run"]
    folder = machine.home / "runs" / run
    (folder / "logs").mkdir(parents=True)
    (folder / "options.json").write_text(options)
    (folder / "plan.json").write_text(_filled("plan.json", ground))
    with sqlite3.connect(folder / "journal.db") as journal:
        journal.execute("PRAGMA journal_mode=WAL")
        journal.execute(
            "CREATE TABLE events"
            " (number INTEGER PRIMARY KEY, at REAL NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL)"
        )
        for row in map(json.loads, _filled("journal.jsonl", ground).splitlines()):
            body = json.dumps(row["body"])
            journal.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (row["number"], row["at"], row["version"], body))
    journal.close()
    return run, repository


def _filled(name: str, ground: Path) -> str:
    text = (_KILLED / name).read_text()
    return text.replace("@GROUND@", str(ground)).replace("@PROGRAMS@", str(Path(sys.executable).parent))


@pytest.mark.slow
def test_a_run_of_the_version_before_is_resumed_and_lands_the_rest_once(ground: Path, machine: Machine) -> None:
    run, repository = _restore(ground, machine)
    landed_before = repository.landed(_BRANCH)
    assert landed_before == ["rename-total"]

    before = machine.run("status", run)
    assert before.status == 0 and "rename-total" in before.out, before.out + before.err

    ended = machine.run("resume", run, "--json", within_s=240)
    assert ended.status == 1, ended.out + ended.err
    phases = {task["task"]: task["phase"] for task in ended.answer["tasks"]}
    assert phases.pop("simplify-rounding") == "failed"
    assert set(phases.values()) == {"landed"} and len(phases) == 11
    landed = repository.landed(_BRANCH)
    assert landed[:1] == landed_before and Counter(landed) == Counter(list(phases)), landed
    orders = Counter(event.task for event in events_of(machine.journal(run), e.OrderSent))
    # A task with a candidate in the hub keeps it. Only tasks that were worked on when the run died begin again.
    assert orders["rename-total"] == orders["model-docstrings"] == orders["sort-imports"] == 1
    assert machine.run("report", run).status == 0


def _plain(value: Any) -> Any:
    """Return the value as JSON has it; records become objects."""
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def _losses(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """Yield the places where what the older version read is missing or differs. Additional fields are ignored."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key, value in before.items():
            yield from _losses(value, now.get(key, "missing"), f"{where}.{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for place, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _losses(old, new, f"{where}.{place}")
    elif before != now:
        yield f"{where}: {before!r} is now {now!r}"


def test_files_written_for_the_version_before_mean_what_they_meant() -> None:
    """`as_read.json` holds the fields that commit 26e9a1e read from the four files beside it."""
    before = json.loads((_FILES / "as_read.json").read_text())
    tree = ["src/a.py", "src/b/c.py", "docs/x.md"]
    now = {
        "plan": load_plan(_FILES / "plan.yaml", files=lambda: tree),
        "forgepool": read_gate_file((_FILES / "forgepool.yaml").read_text()),
        "models": read_table(_FILES / "models.yaml"),
        "policy": read_policy(_FILES / "policy.yaml", "policy.yaml", "user"),
    }
    assert list(_losses(before, _plain(now))) == []
