"""Every rule finds its fixture, and is silent on a twin that differs only in what matters."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stories import Stage, Story, story

from forgepool.workers.policy.gate_file.document import RULES
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.scanning import find_kept_out

_FILES = sorted(Path(__file__).with_name("rules").glob("*.yaml"))


def _pairs() -> list[Any]:
    return [
        pytest.param(file.stem, told, id=f"{file.stem}-{told['name']}")
        for file in _FILES
        for told in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]


def _two(told: dict[str, Any]) -> tuple[Story, Story]:
    """Return the fixture and its twin. `LONG` in them stands for a long text."""
    said = {
        key: told[key] for key in ("before", "gone", "modes", "holds", "grants", "planned", "claims") if key in told
    }
    fails = story(name=told["name"], after=told["fails"], **said)
    passes = story(name=told["name"], after=told["passes"], **said)
    return _lengthened(told, fails), _lengthened(told, passes)


def _lengthened(told: dict[str, Any], one: Story) -> Story:
    long = told.get("unit", "x") * told.get("times", 4_000)
    after = {
        path: text.replace("LONG", long) if path in told.get("long", ()) else text for path, text in one.after.items()
    }
    return replace(one, after=after)


def _of(rule: str, findings: tuple[ScanFinding, ...]) -> list[ScanFinding]:
    return [one for one in findings if one.rule == rule]


@pytest.mark.parametrize(("rule", "told"), _pairs())
def test_a_rule_fires_on_its_fixture_and_not_on_the_twin(rule: str, told: dict[str, Any], stage: Stage) -> None:
    bad, good = stage.scan_all(_two(told))
    weight = told.get("weight", "blocks")
    assert weight in {one.weight for one in _of(rule, bad)}, bad
    assert all(one.weight != "blocks" for one in _of(rule, bad)) or weight == "blocks", bad
    assert not _of(rule, find_kept_out(good, reviewed=False)), good
    assert {one.rule for one in (*bad, *good)} <= set(RULES), "nobody could waive it"
