"""The tests that a returned attempt wrote are run on the next one, for its reviewer."""

import pytest
from gates import Gate, check, never

from forgepool.supervisor.checks.running import CheckPlace
from forgepool.supervisor.checks.sibling_tests import find_failing
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import EntryRef
from forgepool.workers.schema.reports import EarlierWork
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId

TESTS = check("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -q -p no:cacheprovider")
SIZE = {
    "size.py": "def size(n):\n    return n\n",
    "test_size.py": "from size import size\n\ndef test_one():\n    assert size(1)\n",
}
WRITTEN = """from size import size

def test_negative():
    assert size(-2) == 2

def test_wrong():
    assert size(3) == 4

def test_positive():
    assert size(3) == 3
"""
RETURNED = {"size.py": "def size(n):\n    return abs(n)\n", "test_more.py": WRITTEN}


def again(gate: Gate, returned: EntryRef, files: dict[str, str | None]) -> EntryRef:
    earlier = EarlierWork(attempt=returned.attempt, commit=returned.commit, ref=returned.ref)
    return gate.entry("size", files, attempt=2).model_copy(update={"returned": earlier})


def told(found: CheckResult) -> list[tuple[str, str, str]]:
    assert found.verdict == "green", found
    return [(one.weight, one.said, one.text) for one in found.findings if one.rule == "sibling-tests"]


def test_a_test_that_passed_on_the_returned_work_and_fails_here_is_shown_and_keeps_nothing_out(gate: Gate) -> None:
    """Another one passes here, and a third failed there, too."""
    gate.hub.commit(SIZE, message="begin")
    entry = again(gate, gate.entry("size", RETURNED), {"size.py": SIZE["size.py"] + "\n\nWIDTH = 1\n"})
    ((weight, said, text),) = told(gate.examine(gate.request(entry, TESTS, reviewed=True)))
    assert weight == "attention" and "-2" in text
    assert said.startswith("'test_more.py::test_negative', a test that attempt 1 wrote, passes on that attempt's work")
    assert [weight for weight, _, _ in told(gate.examine(gate.request(entry, TESTS)))] == ["note"]


@pytest.mark.parametrize(
    ("run", "files"),
    [
        (TESTS.run, {"test_more.py": WRITTEN}),
        ("python -m pytest -q | cat", {}),
        ("make test", {}),
        ("python -m pytest -q -- .", {}),
        ("echo pytest", {}),
    ],
    ids=["the candidate has them", "a pipe", "another runner", "files already", "no runner"],
)
def test_tests_are_run_where_they_differ_and_a_command_takes_files(
    gate: Gate, run: str, files: dict[str, str | None]
) -> None:
    """Nothing is run here."""
    gate.hub.commit(SIZE, message="begin")
    returned = gate.entry("size", RETURNED)
    entry = again(gate, returned, {"size.py": "SIZE = 1\n", **files})
    mirror = gate.mirror
    for one in (returned, entry):
        mirror.ensure(CommitId(one.commit), refs=(one.ref,))
    place = CheckPlace(mirror=mirror, settings=gate.settings, logs=gate.folder / "logs", stop=never)
    tree, base = tree_of(mirror.git, CommitId(entry.commit)), CommitId(gate.hub.tip())
    assert find_failing((check(run),), tree, CommitId(returned.commit), place, base=base) == ()
    assert not place.logs.exists()


def test_a_returned_work_that_the_hub_has_no_longer_shows_nothing(gate: Gate) -> None:
    assert "returned" not in gate.entry("other", {"c": "1\n"}).model_dump()  # which an older supervisor refuses
    gone = EntryRef(task="size", attempt=1, commit="0" * 40, ref="refs/heads/gone", message="")
    assert told(gate.examine(gate.request(again(gate, gone, {"c": "1\n"}), check("true")))) == []


def test_trouble_with_these_tests_leaves_the_verdict_alone(gate: Gate) -> None:
    """The place of their log is taken."""
    gate.hub.commit(SIZE, message="begin")
    request = gate.request(again(gate, gate.entry("size", RETURNED), {"size.py": SIZE["size.py"] + "\n"}), TESTS)
    logs = gate.settings.home / "runs" / request.run / "logs" / "checks" / request.request_id
    (logs / "sibling-test.log").mkdir(parents=True)
    assert told(gate.examine(request)) == []


def test_only_what_the_returned_work_wrote_is_taken_from_it_however_much_that_is(gate: Gate) -> None:
    gate.hub.commit(SIZE, message="begin")
    many: dict[str, str | None] = {f"tests/data/{number}.txt": f"{number}\n" for number in range(600)}
    entry = again(gate, gate.entry("size", RETURNED | many), {"size.py": SIZE["size.py"] + "\n"})
    ((_, said, _),) = told(gate.examine(gate.request(entry, TESTS)))
    assert "test_negative" in said
