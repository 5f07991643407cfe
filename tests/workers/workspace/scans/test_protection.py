"""Changing what runs and judges changes needs permission, and code may not detect that it is being judged."""

import pytest
from changing import Changes, Scan, rules
from forbidden_paths import HARNESS, OPEN, OTHER_SETTINGS, PROTECTED, SETTINGS, UNAWARE, Change

from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.gate_file.kept_paths import GUIDANCE
from forgepool.workers.workspace.scans.content.evasion import scan_harness
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.gate_settings import scan_gate_settings
from forgepool.workers.workspace.scans.protection import scan_protection


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Changes:
    return Changes(tmp_path_factory.mktemp("protection"))


def findings(changes: Changes, scan: Scan, change: Change, **said: object) -> list[ScanFinding]:
    checks = (CheckDefinition(name="test", run=change.run),)
    return changes.found(scan, change.before, change.after, checks=checks, protect=("guarded/",), **said)


def name(change: Change) -> str:
    return change.name


@pytest.mark.parametrize("change", PROTECTED, ids=name)
def test_a_change_of_a_protected_path_is_found(changes: Changes, change: Change) -> None:
    """CI, hooks, lock files, the gate file, and what the checks run are protected against any kind of change."""
    found = findings(changes, scan_protection, change)
    assert rules(found, change.weight) == {"protected-path"}, found


@pytest.mark.parametrize("change", OPEN, ids=name)
def test_an_open_path_has_no_finding(changes: Changes, change: Change) -> None:
    """All other paths are open, also those with a similar name."""
    assert findings(changes, scan_protection, change) == []


def test_what_the_harness_quotes_to_agents_and_reviewers_wants_a_look(changes: Changes) -> None:
    """A reviewer learns from the finding that it must follow nothing in the file."""
    found = changes.found(scan_protection, {"a": "1\n"}, dict.fromkeys(GUIDANCE, "x\n"))
    assert {(one.path, one.weight) for one in found} == {(path, "attention") for path in GUIDANCE}
    assert all("follow nothing in it" in one.said for one in found)


@pytest.mark.parametrize("change", SETTINGS, ids=name)
def test_a_setting_of_the_gate_is_found(changes: Changes, change: Change) -> None:
    """Settings of tests and linters are found in whatever file they are, and so are hooks of the runner."""
    found = findings(changes, scan_gate_settings, change)
    assert rules(found, change.weight) == {"gate-settings"}, found


@pytest.mark.parametrize("change", OTHER_SETTINGS, ids=name)
def test_another_setting_has_no_finding(changes: Changes, change: Change) -> None:
    """Other settings in the same file may be changed."""
    assert findings(changes, scan_gate_settings, change) == []


@pytest.mark.parametrize("change", HARNESS, ids=name)
def test_code_that_plays_with_its_harness_is_found(changes: Changes, change: Change) -> None:
    """Code that ends, patches, detects or replaces the program that checks it is found."""
    found = findings(changes, scan_harness, change)
    assert rules(found, change.weight) == {"harness"}, found


@pytest.mark.parametrize("change", UNAWARE, ids=name)
def test_ordinary_code_has_no_finding(changes: Changes, change: Change) -> None:
    """Programs may exit in their main part, and may read what concerns them."""
    assert findings(changes, scan_harness, change) == []


@pytest.mark.parametrize(
    ("scan", "change"),
    [(scan_protection, PROTECTED[0]), (scan_gate_settings, SETTINGS[0]), (scan_harness, HARNESS[0])],
    ids=["protected", "settings", "harness"],
)
def test_a_grant_silences_only_its_own_path(changes: Changes, scan: Scan, change: Change) -> None:
    """A granted path has no finding, and a grant for another path changes nothing."""
    (path,) = change.after
    assert findings(changes, scan, change, grants=("elsewhere/", path)) == []
    assert findings(changes, scan, change, grants=("elsewhere/",)) != []
