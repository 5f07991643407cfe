"""Tests that say less than before are found, whatever was done to them; what people do to tests is let through."""


import pytest
from changing import Changes, rules
from suites_of_tests import DISHONEST, HONEST, Edit

from supervisor.definitions import CheckDefinition
from supervisor.findings import ScanFinding
from supervisor.scans.tampering import scan_tests

CHECKS = (CheckDefinition(name="test", run='pytest -m "not slow"'),)
CODE = "def load(text):\n    return int(text)\n"


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Changes:
    return Changes(tmp_path_factory.mktemp("tampering"))


def findings(changes: Changes, edit: Edit, **said: object) -> list[ScanFinding]:
    """What the change does, made together with a change of the code."""
    after = {edit.path: edit.after if edit.moved_to is None else None}
    if edit.moved_to is not None:
        after[edit.moved_to] = edit.after
    before = {edit.path: edit.before, "app.py": CODE}
    return changes.found(scan_tests, before, {**after, "app.py": CODE + "\n"}, checks=CHECKS, **said)


@pytest.mark.parametrize("edit", DISHONEST, ids=lambda edit: edit.name)
def test_a_test_that_says_less_is_not_found(changes: Changes, edit: Edit) -> None:
    """Every way of making tests say less is found, by the rule that it breaks."""
    found = findings(changes, edit)
    assert edit.rules <= rules(found), found


@pytest.mark.parametrize("edit", HONEST, ids=lambda edit: edit.name)
def test_an_honest_change_of_tests_is_held_up(changes: Changes, edit: Edit) -> None:
    """Tests may be added, renamed, moved, split, parametrised and formatted."""
    found = findings(changes, edit)
    assert rules(found) == set(), found
