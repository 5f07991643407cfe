"""Seven ordinary changes: a person's land on passing checks alone, and an agent's are judged by every finding."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gate_kit import GateOf
from kit import Machine, Repository, make_repository
from processes import kill_all

pytestmark = pytest.mark.slow

PROJECT = {
    "forgepool.yaml": f"version: 1\nchecks:\n  test: {sys.executable} -m pytest -q -p no:cacheprovider\n",
    "pyproject.toml": '[tool.ruff]\nline-length = 100\n\n[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "src/shop/__init__.py": "",
    "src/shop/money.py": "def total(prices):\n    return sum(prices)\n",
    "src/shop/tax.py": "RATE = 20\n\n\ndef tax(price):\n    return price * RATE // 10\n",
    "src/shop/legacy.py": "def old_total(prices):\n    # TODO: remove with the old shop\n    return sum(prices)\n",
    "src/shop/names.py": "def shown(name):\n    return name.title() + ' ' + 'Esq.'\n",
    "src/shop/labels.py": "def label(name):\n    # TODO: translate\n    return {'name': name}\n",
    "tests/test_money.py": "from shop.money import total\n\n\ndef test_total_adds():\n    assert total([1, 2]) == 3\n",
    "tests/test_tax.py": "from shop.tax import tax\n\n\ndef test_tax():\n    assert tax(10) == 20\n",
    "tests/test_legacy.py": "from shop.legacy import old_total\n\n\ndef test_old():\n    assert old_total([1]) == 1\n",
    "tests/test_names.py": "from shop.names import shown\n\n\ndef test_it():\n    assert shown('ann') == 'Ann Esq.'\n",
}
CHANGES: dict[str, dict[str, str | None]] = {
    "rename": {
        "src/shop/money.py": None,
        "src/shop/sums.py": "def grand_total(prices):\n    return sum(prices)\n",
        "tests/test_money.py": None,
        "tests/test_sums.py": (
            "from shop.sums import grand_total\n\n\ndef test_grand_total():\n    assert grand_total([1, 2]) == 3\n"
        ),
    },
    "removal": {"src/shop/legacy.py": None, "tests/test_legacy.py": None},
    "todo": {"src/shop/__init__.py": "# TODO: say here what the shop sells\n"},
    "workflow": {".github/workflows/ci.yml": "on: push\njobs:\n  test:\n    runs-on: ubuntu-24.04\n    steps: []\n"},
    "setting": {"pyproject.toml": PROJECT["pyproject.toml"].replace("100", "120")},
    "format": {
        "src/shop/names.py": 'def shown(name):\n    return name.title() + " " + "Esq."\n',
        "src/shop/labels.py": 'def label(name):\n    # TODO: translate\n    return {"name": name}\n',
    },
    "fix": {
        "src/shop/tax.py": PROJECT["src/shop/tax.py"].replace("// 10", "// 100"),
        "tests/test_tax.py": PROJECT["tests/test_tax.py"].replace("== 20", "== 2"),
    },
}
KEPT_BACK = {"todo": "placeholder", "workflow": "protected-path", "setting": "gate-settings"}
"""The rule that returns each of these changes when an agent makes it."""
LOOKED_AT = {"rename": "tests-changed", "removal": "test-removed", "fix": "expected-edited"}
"""The rule that demands a review of each of these changes when an agent makes it."""


@contextmanager
def kept_project(gate_file: str = PROJECT["forgepool.yaml"]) -> Iterator[GateOf]:
    """Yield a queue in front of the project, with default settings."""
    folder = Path(tempfile.mkdtemp(prefix="people-")).resolve()
    (folder / "here").mkdir()
    try:
        seed = make_repository(folder / "seed", {**PROJECT, "forgepool.yaml": gate_file})
        seed.git("clone", "-q", "--bare", str(seed.path), str(folder / "hub.git"))
        (folder / "hold").mkdir()
        machine = Machine(folder=folder / "here", name="here")
        gate = GateOf(machine=machine, hub=Repository(path=folder / "hub.git"), go=folder)
        gate.serve("--trials", "1")
        yield gate
        gate.stop()
    finally:
        kill_all(folder)
        shutil.rmtree(folder, ignore_errors=True)


def give(gate: GateOf, changes: dict[str, dict[str, str | None]], **said: str) -> None:
    base = gate.tip()
    for name, files in changes.items():
        gate.give(name, gate.commit(files, base=base), **said)


def found(gate: GateOf, name: str) -> set[str]:
    """Return the rules of the entry's findings."""
    return {one["rule"] for one in gate.explained(name)["findings"]}


def test_a_persons_seven_changes_land_and_findings_are_reported_below(redis_program: str) -> None:
    with kept_project() as gate:
        give(gate, CHANGES)
        for name in CHANGES:
            gate.phase(name, "landed", "failed", "blocked", "needs_human", "reviewed", within_s=240)
        assert {name: gate.stand(name).why for name in CHANGES if gate.stand(name).state != "landed"} == {}
        for name, rule in (KEPT_BACK | LOOKED_AT).items():
            assert rule in found(gate, name), name
        for name in CHANGES:
            paragraph = gate.paragraph(name)
            assert "task" not in paragraph and "a person" not in paragraph
        first, *block = gate.paragraph("workflow").split("\n")
        assert "landed" in first
        # Others that landed in the same batch may have taken tests out, which is told as well.
        assert block[:2] == [
            "scan notes, which do not block:",
            "  .github/workflows/ci.yml: protected-path: this is CI",
        ]


def test_an_agents_same_seven_changes_are_held_back_as_strictly_as_ever(redis_program: str) -> None:
    with kept_project() as gate:
        before = gate.tip()
        give(gate, CHANGES, Agent="codex", Family="openai")
        for name in CHANGES:
            gate.phase(name, "landed", "failed", "needs_human", "reviewed", within_s=240)
        for name, rule in KEPT_BACK.items():
            assert (gate.stand(name).state, gate.stand(name).code) == ("returned", "findings"), name
            assert rule in {one["rule"] for one in gate.explained(name)["findings"] if one["weight"] == "blocks"}
        for name in CHANGES.keys() - KEPT_BACK.keys():
            assert gate.stand(name).code == "review", gate.stand(name)
        for name, rule in LOOKED_AT.items():
            assert rule in {one["rule"] for one in gate.explained(name)["findings"] if one["weight"] == "attention"}
        assert gate.tip() == before


def test_a_person_is_held_back_by_a_red_check_a_conflict_and_a_file_that_is_too_large(redis_program: str) -> None:
    with kept_project(PROJECT["forgepool.yaml"] + "scans: {max_file_mb: 0.5}\n") as gate:
        base = gate.tip()
        give(gate, {"fix": CHANGES["fix"]})
        gate.phase("fix", "landed", within_s=120)
        red = {"src/shop/names.py": PROJECT["src/shop/names.py"].replace("Esq.", "Sir")}
        clash = {"src/shop/tax.py": PROJECT["src/shop/tax.py"].replace("// 10", "// 5")}
        for name, files in {"red": red, "clash": clash, "large": {"data.bin": "x" * 600_000}}.items():
            gate.give(name, gate.commit(files, base=base))
        for name, code in {"red": "check_failed", "clash": "conflict", "large": "findings"}.items():
            gate.phase(name, "failed", within_s=120)
            assert gate.stand(name).code == code
        assert gate.stand("clash").why == "'clash' conflicts with 'fix' in src/shop/tax.py"
        assert gate.stand("large").why == (
            "data.bin: the file has 0.6 MB, and the limit is 0.5 MB; keep it out of git (Git LFS, for instance), or "
            "raise `scans: max_file_mb` in the target's forgepool.yaml; if it is meant, a person grants it: "
            "--grant data.bin, or `grants` of the task (file-size)"
        )
