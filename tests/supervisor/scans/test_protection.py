"""What runs and judges changes is changed by nobody unasked; and no code may know that it is being judged."""

import pytest
from changing import Changes, Scan, rules
from forbidden_paths import HARNESS, OPEN, OTHER_SETTINGS, PROTECTED, SETTINGS, UNAWARE, Change

from forgepool.supervisor.findings import ScanFinding
from forgepool.supervisor.gate_file.document import CheckDefinition
from forgepool.supervisor.scans.content.evasion import scan_harness
from forgepool.supervisor.scans.gate_settings import scan_gate_settings
from forgepool.supervisor.scans.protection import scan_protection


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Changes:
    return Changes(tmp_path_factory.mktemp("protection"))


def findings(changes: Changes, scan: Scan, change: Change, **said: object) -> list[ScanFinding]:
    checks = (CheckDefinition(name="test", run=change.run),)
    return changes.found(scan, change.before, change.after, checks=checks, protect=("guarded/",), **said)


def name(change: Change) -> str:
    return change.name


@pytest.mark.parametrize("change", PROTECTED, ids=name)
def test_a_protected_path_is_let_through(changes: Changes, change: Change) -> None:
    """CI, hooks, locks, the gate's own file, and what the checks run are protected, however they are changed."""
    found = findings(changes, scan_protection, change)
    assert rules(found, change.weight) == {"protected-path"}, found


@pytest.mark.parametrize("change", OPEN, ids=name)
def test_an_open_path_is_held_up(changes: Changes, change: Change) -> None:
    """Anything else is open, also where its name is alike."""
    assert findings(changes, scan_protection, change) == []


@pytest.mark.parametrize("change", SETTINGS, ids=name)
def test_a_setting_of_the_gate_is_let_through(changes: Changes, change: Change) -> None:
    """Settings of tests and linters count, in whatever file they are, and hooks of the runner with them."""
    found = findings(changes, scan_gate_settings, change)
    assert rules(found, change.weight) == {"gate-settings"}, found


@pytest.mark.parametrize("change", OTHER_SETTINGS, ids=name)
def test_another_setting_is_held_up(changes: Changes, change: Change) -> None:
    """Of a file that holds other things too, those are anybody's."""
    assert findings(changes, scan_gate_settings, change) == []


@pytest.mark.parametrize("change", HARNESS, ids=name)
def test_code_that_plays_with_its_harness_is_let_through(changes: Changes, change: Change) -> None:
    """Code that ends, patches, asks for or stands in for what checks it is found."""
    found = findings(changes, scan_harness, change)
    assert rules(found, change.weight) == {"harness"}, found


@pytest.mark.parametrize("change", UNAWARE, ids=name)
def test_ordinary_code_is_held_up(changes: Changes, change: Change) -> None:
    """Programs end where they are programs, and ask for what concerns them."""
    assert findings(changes, scan_harness, change) == []


@pytest.mark.parametrize(
    ("scan", "change"),
    [(scan_protection, PROTECTED[0]), (scan_gate_settings, SETTINGS[0]), (scan_harness, HARNESS[0])],
    ids=["protected", "settings", "harness"],
)
def test_a_grant_does_not_silence(changes: Changes, scan: Scan, change: Change) -> None:
    """What a person lets the task change is not told, and nothing but that."""
    (path,) = change.after
    assert findings(changes, scan, change, grants=("elsewhere/", path)) == []
    assert findings(changes, scan, change, grants=("elsewhere/",)) != []
