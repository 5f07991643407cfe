"""A proof holds as long as each look-up would have the same answer, and no longer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.supervisor.checks.results.reports import ReportedCase
from forgepool.supervisor.checks.traced.proofs import (
    ONE_IN,
    Proofs,
    TreeFiles,
    choose_spared,
    is_audited,
    why_not_traced,
)
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.orders import CachedFolder

FILES = {
    "src/a.py": "1",
    "src/b.py": "2",
    "tests/test_a.py": "3",
    "link": "120000 src/a.py",
    "README": "4",
    "setup.py": "100644 blob 4",
}
LOOKED = ("src", "src/a.py", "src/c.py", "tests/test_a.py", "lib/d/e.py", "setup.py")
OPENED = ("tests", "src/a.py", "tests/test_a.py", "data")


def tree(**changed: str | None) -> TreeFiles:
    files = {**FILES, **changed}
    return TreeFiles((path, f"{text}\t{path}".encode()) for path, text in sorted(files.items()) if text is not None)


@pytest.mark.parametrize(
    ("path", "text", "holds"),
    [
        ("README", "5", True),
        ("src/b.py", "5", True),
        ("src/b.py", None, True),
        ("lib", "5", False),
        ("lib/other.py", "5", False),
        ("src/a.py", "5", False),
        ("setup.py", "100644 blob 5", True),
        ("setup.py", "100755 blob 4", False),
        ("setup.py", None, False),
        ("data", "5", False),
        ("src/a.py", None, False),
        ("src/c.py", "5", False),
        ("src/c.py/deep", "5", False),
        ("src/new.py", "5", True),
        ("tests/new.py", "5", False),
        ("tests/test_new.py", "5", True),
        ("tests/test_new.txt", "5", False),
        ("tests/new/deep.py", "5", False),
        ("link", "120000 src/b.py", False),
        ("other", "120000 src/a.py", False),
        ("src/.gitattributes", "* eol=crlf", False),
    ],
)
def test_a_proof_holds_where_all_that_was_looked_up_is_the_same(path: str, text: str | None, holds: bool) -> None:
    proof = tree().prove(LOOKED, OPENED, ())
    assert tree().holds(proof)
    assert tree(**{path: text}).holds(proof) == holds


def test_a_file_that_reads_other_test_files_is_run_when_there_is_another_one() -> None:
    proof = tree().prove(LOOKED, (*OPENED, "tests/test_b.py"), ())
    assert tree().holds(proof)
    assert not tree(**{"tests/test_new.py": "5"}).holds(proof)


@given(st.lists(st.sampled_from(["a", "b", "a/b", "a/b/c", "d", ""]), max_size=4), st.booleans())
def test_a_tree_proves_itself(looked: list[str], opened: bool) -> None:
    for files in ({}, {"a": "1"}, {"a/b": "1", "d": "2"}):
        found = TreeFiles((path, text.encode()) for path, text in files.items())
        assert found.holds(found.prove(looked, looked if opened else (), ()))


def test_one_proven_file_in_twenty_is_run_anyway_and_which_is_the_trees_choice() -> None:
    names = [f"tests/test_{number}.py" for number in range(4000)]
    audited = {name for name in names if is_audited(name, "tree")}
    assert audited == {name for name in names if is_audited(name, "tree")}
    assert 0.8 < len(audited) * ONE_IN / len(names) < 1.2
    assert audited != {name for name in names if is_audited(name, "other")}
    proof = tree().prove((), (), (ReportedCase(id="x", outcome="passed"),))
    spared = choose_spared(Proofs(files=dict.fromkeys(names, proof)), tree(), "tree")
    assert spared is not None and spared.proofs.keys() == set(names) - audited and not spared.all


@pytest.mark.parametrize(
    ("path", "text", "all_of_it"),
    [("README", "5", True), ("tests/test_new.py", "5", False), ("lib/deep/more_test.py", "5", False)],
)
def test_a_new_test_file_leaves_something_to_run(path: str, text: str, all_of_it: bool) -> None:
    proofs = Proofs(files={"tests/test_a.py": tree().prove((), (), ())}, test_files=tree().test_files)
    spared = choose_spared(proofs, tree(**{path: text}), "seed")
    assert spared is not None and spared.all == all_of_it


def test_a_file_is_run_where_a_new_one_has_its_name() -> None:
    names = ("tests/test_a.py", "tests/test_b.py")
    proofs = Proofs(files=dict.fromkeys(names, tree().prove((), (), ())), test_files=tree().test_files)
    spared = choose_spared(proofs, tree(**{"tests/sub/test_a.py": "5"}), "seed")
    assert spared is not None and spared.proofs.keys() == {"tests/test_b.py"}


def test_a_check_that_is_run_whole_spares_nothing() -> None:
    files = {"tests/test_a.py": tree().prove((), (), ())}
    assert choose_spared(Proofs(files=files), tree(), "") is not None
    assert choose_spared(Proofs(files=files, whole="it missed one"), tree(), "") is None


@pytest.mark.parametrize(
    ("said", "traced"),
    [
        ({}, True),
        ({"setup": "make", "cache": (CachedFolder(folder=".venv", key="lock"),)}, True),
        ({"setup": "make"}, False),
        ({"network": ("pypi.org",)}, False),
        ({"uses": ("build",)}, False),
        ({"reports": ("out.xml",)}, False),
        ({"baseline": "tip"}, False),
    ],
)
def test_a_check_that_depends_on_more_than_its_files_is_not_traced(said: dict[str, object], traced: bool) -> None:
    check = CheckDefinition.model_validate({"name": "test", "run": "pytest", "traced": True, **said})
    assert (why_not_traced(check) is None) == traced


def test_the_share_of_misses_is_told_with_the_bound_that_its_audits_set() -> None:
    assert Proofs(missing=2).words == "0 of 2 test files proven"
    assert Proofs(audited=59).words.endswith("; none of 59 audits was red, so at most 5.0% would be")
