"""Weakened tests are found, however it was done, and ordinary changes of tests have no finding."""

import pytest
from changing import Changes, rules
from suites_of_tests import DISHONEST, HONEST, Edit

from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.tests.tampering import scan_tests

CHECKS = (CheckDefinition(name="test", run='pytest -m "not slow"'),)
CODE = "def load(text):\n    return int(text)\n"


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Changes:
    return Changes(tmp_path_factory.mktemp("tampering"))


def findings(changes: Changes, edit: Edit, **said: object) -> list[ScanFinding]:
    """Scan the edit together with a change of the code."""
    after = {edit.path: edit.after if edit.moved_to is None else None}
    if edit.moved_to is not None:
        after[edit.moved_to] = edit.after
    before = {edit.path: edit.before, "app.py": CODE}
    return changes.found(scan_tests, before, {**after, "app.py": CODE + "\n"}, checks=CHECKS, **said)


@pytest.mark.parametrize("edit", DISHONEST, ids=lambda edit: edit.name)
def test_every_weakened_test_is_found(changes: Changes, edit: Edit) -> None:
    """Every way of weakening tests is found, by the rule that it breaks."""
    found = findings(changes, edit)
    assert edit.rules <= rules(found), found


@pytest.mark.parametrize("edit", HONEST, ids=lambda edit: edit.name)
def test_an_honest_change_of_tests_has_no_finding(changes: Changes, edit: Edit) -> None:
    """Tests may be added, renamed, moved, split, parametrised and formatted."""
    found = findings(changes, edit)
    assert rules(found) == set(), found


def edit_named(name: str) -> Edit:
    return next(edit for edit in (*DISHONEST, *HONEST) if edit.name == name)


def test_an_edited_expectation_is_blocked_unless_its_test_is_held(changes: Changes) -> None:
    """If the task holds the test, it needs a look. If a person granted it, there is no finding."""
    edit = edit_named("py-literal")
    held, unheld = findings(changes, edit, holds=("tests/", "app.py")), findings(changes, edit, holds=("app.py",))
    assert rules(held) == rules(held, "attention") == {"expected-edited"}
    assert rules(unheld, "blocks") == {"expected-edited", "test-outside"}
    assert findings(changes, edit, grants=("tests/test_app.py",)) == []
    assert findings(changes, edit, grants=("tests/test_other.py",)) != []


def test_holding_a_test_does_not_grant_weakening_it(changes: Changes) -> None:
    """A task may edit the tests it holds, but may not weaken them."""
    for name in ("py-test-deleted", "py-skip", "py-assert-true", "py-one-assert-less"):
        assert rules(findings(changes, edit_named(name), holds=("**",)), "blocks"), name
        assert findings(changes, edit_named(name), holds=("**",), grants=("tests/",)) == [], name


def test_an_edit_of_a_test_outside_of_what_is_held_is_blocked(changes: Changes) -> None:
    """The edit weakens nothing and is still found. A new test file is not."""
    edit = edit_named("py-function-renamed")
    assert rules(findings(changes, edit, holds=("app.py",)), "blocks") == {"test-outside"}
    assert findings(changes, edit, holds=("tests/*.py",)) == []
    assert changes.found(scan_tests, {"a": "1\n"}, {"tests/test_new.py": edit.after}, holds=("a",)) == []


def test_a_test_of_removed_code_may_go_after_a_look(changes: Changes) -> None:
    before = {"app.py": "def load(x):\n    return x\n\n\ndef old(x):\n    return x\n", "tests/test_app.py": RETIRED}
    after = {
        "app.py": "def load(x):\n    return x\n",
        "tests/test_app.py": RETIRED[: RETIRED.index("\n\ndef test_old")],
    }
    found = changes.found(scan_tests, before, after)
    assert [(one.rule, one.weight) for one in found] == [("test-removed", "attention")]
    kept = changes.found(scan_tests, before, {"tests/test_app.py": after["tests/test_app.py"]})
    assert [(one.rule, one.weight) for one in kept] == [("test-removed", "blocks")]


RETIRED = (
    "from app import load, old\n\n\ndef test_load():\n"
    "    assert load(1) == 1\n\n\ndef test_old():\n    assert old(1) == 1\n"
)


def test_an_edit_of_expectations_kept_in_files_is_found(changes: Changes) -> None:
    """Snapshots and data beside tests are expectations. New ones may be added."""
    before = {"app.py": CODE, "tests/__snapshots__/a.snap": "x\n", "tests/data/want.json": "{}\n"}
    changed = {"app.py": CODE + "\n", "tests/__snapshots__/a.snap": "y\n", "tests/data/want.json": '{"a": 1}\n'}
    assert [one.rule for one in changes.found(scan_tests, before, changed)] == ["expected-edited"] * 2
    assert rules(changes.found(scan_tests, before, changed, holds=("app.py",)), "blocks") >= {"expected-edited"}
    assert changes.found(scan_tests, before, {"app.py": CODE + "\n", "tests/data/more.json": "{}\n"}) == []


@pytest.mark.parametrize("settings", [{}, {"pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n'}])
def test_tests_that_moved_to_where_no_check_looks_count_as_removed(changes: Changes, settings: dict[str, str]) -> None:
    """If checks or pytest's settings name folders, a test must stay in one of them."""
    run = CheckDefinition(name="test", run="pytest" if settings else "cd . && pytest ./tests -q")
    before = {**settings, "tests/test_app.py": RETIRED, "tests/test_b.py": "x\n"}
    moved = {"tests/test_app.py": None, "old/test_app.py": RETIRED}
    assert rules(changes.found(scan_tests, before, moved, checks=(run,)), "blocks") == {"test-removed"}
    within = {"tests/test_app.py": None, "tests/old/test_app.py": RETIRED}
    assert changes.found(scan_tests, before, within, checks=(run,)) == []


def test_a_helper_that_asserts_less_is_found(changes: Changes) -> None:
    """Code that tests share counts as a test."""
    kit = "def check(a):\n    assert a.x == 1\n    assert a.y == 2\n"
    test = "from kit import check\n\n\ndef test_a():\n    check(1)\n"
    before = {"tests/kit.py": kit, "tests/test_a.py": test}
    found = changes.found(scan_tests, before, {"tests/kit.py": kit.replace("    assert a.y == 2\n", "")})
    assert rules(found, "blocks") == {"assertion-removed"}
    assert changes.found(scan_tests, before, {"tests/kit.py": kit + "    assert a.z == 3\n"}) == []


def test_a_fixture_that_skips_whatever_uses_it_is_found(changes: Changes) -> None:
    before = {"tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef place():\n    return 1\n"}
    skipping = before["tests/conftest.py"].replace("    return 1\n", '    pytest.skip("x")\n')
    found = changes.found(scan_tests, before, {"tests/conftest.py": skipping})
    assert rules(found, "blocks") == {"test-skipped"}


def test_tests_that_cannot_be_read_need_a_look(changes: Changes) -> None:
    """A test that is too large or too deep for a grammar needs a look."""
    deep = "def test_a():\n    assert f() == " + "[" * 60_000 + "\n"
    found = changes.found(scan_tests, {"tests/test_a.py": RETIRED}, {"tests/test_a.py": deep})
    assert [(one.rule, one.weight) for one in found] == [("test-unread", "attention")]


def test_generated_files_are_not_compared(changes: Changes) -> None:
    """A file that the target marks as generated is not compared line by line."""
    before = {".gitattributes": "tests/made/* linguist-generated\n", "tests/made/test_a.py": RETIRED}
    assert changes.found(scan_tests, before, {"tests/made/test_a.py": RETIRED.replace("== 1", "== 2")}) == []


def test_many_tests_are_told_apart(changes: Changes) -> None:
    """Pairing is bounded: 300 removed and 300 added tests are told apart."""
    old = "".join(f"def test_{n}():\n    assert f({n}) == 'old {n}'\n\n\n" for n in range(300))
    new = "".join(f"def test_new_{n}():\n    assert g('new {n}', {n})['x'].y is {n}\n\n\n" for n in range(300))
    found = changes.found(scan_tests, {"tests/test_a.py": old}, {"tests/test_a.py": new})
    assert len([one for one in found if one.rule == "test-removed"]) == 300


def test_an_assertion_that_moved_to_another_file_has_no_finding(changes: Changes) -> None:
    """It is searched for in all tests of the change, and counts once."""
    one = "from app import load\n\n\ndef test_one():\n    assert load(1) == 1\n    assert load(2) == 2\n"
    other = "from app import load\n\n\ndef test_other():\n    assert load(3) == 3\n"
    before = {"tests/test_one.py": one, "tests/test_other.py": other}
    shorter = one.replace("    assert load(2) == 2\n", "")
    moved = {"tests/test_one.py": shorter, "tests/test_other.py": other + "    assert load(2) == 2\n"}
    assert changes.found(scan_tests, before, moved) == []
    elsewhere = {"tests/test_one.py": shorter, "tests/test_other.py": other + "    assert keep(9)[2] == 2\n"}
    assert rules(changes.found(scan_tests, before, elsewhere), "blocks") == {"assertion-removed"}


def test_a_table_that_no_test_is_run_with_does_not_replace_a_test(changes: Changes) -> None:
    before = {"tests/test_app.py": RETIRED}
    without = RETIRED[: RETIRED.index("\n\ndef test_old")]
    for table in ("KEPT = [(1, 1), (2, 2)]\n", "KEPT = [1, 1]\n\n\ndef test_kept():\n    assert load(2) == 2\n"):
        found = changes.found(scan_tests, before, {"tests/test_app.py": without + "\n\n" + table})
        assert rules(found, "blocks") == {"test-removed"}, table
