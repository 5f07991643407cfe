"""For a person's change checks decide and scans only report; an agent's change is judged by every finding."""

import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from gates import Gate, check
from shell_suite import RUNNER, TEST, A

from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import PERSON, Author, EntryRef
from forgepool.worktrees.git.git import CommitId

_ATTEMPTS = count(1)
ANN = Author(agent=PERSON)
CODEX = Author(agent="codex", families=("gpt",))
GATE_FILE = "version: 1\nchecks: {own: test -e a}\nscans: {%s}\n"
CONFLICT = "<<<<<<< ours\n1\n=======\n2\n>>>>>>> theirs\n"
HELD: dict[str, dict[str, str | None]] = {
    "conflict-marker": {"b.py": CONFLICT},
    "protected-path": {".github/workflows/ci.yml": "on: push\n"},
    "gate-settings": {"pytest.ini": "[pytest]\n"},
    "placeholder": {"b.py": "# TODO: later\n"},
    "test-removed": {"tests/test_b.py": None},
    "shrinkage": {"c.py": None, "d.py": None, "e.py": None},
    "secret": {"b.py": 'KEY = "AKIA' + 'QX7ZP4N2L6WTD9RM"\n'},
}


@pytest.fixture
def grown(gate: Gate) -> Gate:
    files = dict.fromkeys(("c.py", "d.py", "e.py"), "x = 1\n")
    gate.hub.commit({**files, "tests/test_b.py": "def test_b():\n    assert 1 + 1 == 2\n"})
    return gate


def entry(
    gate: Gate, files: dict[str, str | None], author: Author = ANN, task: str = "one", *, scanned: bool = True
) -> EntryRef:
    made = gate.entry(task, files, attempt=next(_ATTEMPTS), scanned=scanned)
    return made.model_copy(update={"author": author, "branch": True})


def asked(gate: Gate, files: dict[str, str | None], author: Author = ANN, **said: Any) -> CheckResult:
    return gate.examine(gate.request(entry(gate, files, author), check("test -e a"), **said))


def weights(found: CheckResult) -> set[tuple[str, str]]:
    return {(one.rule, one.weight) for one in found.findings}


@pytest.mark.parametrize("rule", HELD)
def test_what_keeps_an_agent_out_is_a_note_for_a_person(grown: Gate, rule: str) -> None:
    kept = asked(grown, HELD[rule], CODEX)
    assert kept.verdict == "findings" and (rule, "blocks") in weights(kept)
    found = asked(grown, HELD[rule])
    assert (found.verdict, {weight for _, weight in weights(found)}) == ("green", {"note"})
    assert {one.rule for one in found.findings} == {one.rule for one in kept.findings}
    advice = {one.said for one in found.findings if one.rule != "secret" and ";" in one.said}
    assert advice == set(), "nobody asks for a mend"


@pytest.mark.parametrize(
    ("people", "verdict", "rules"), [("enforce", "findings", {"placeholder"}), ("off", "green", set())]
)
def test_the_target_says_what_scans_do_about_people(gate: Gate, people: str, verdict: str, rules: set[str]) -> None:
    gate.hub.commit({"forgepool.yaml": GATE_FILE % f"people: {people}"})
    found = asked(gate, HELD["placeholder"])
    assert (found.verdict, {one.rule for one in found.findings}) == (verdict, rules)
    assert asked(gate, HELD["placeholder"], CODEX).verdict == "findings"


def test_a_person_cannot_say_it_of_their_own_change(gate: Gate) -> None:
    gate.hub.commit({"forgepool.yaml": GATE_FILE % "people: enforce"})
    own = {"forgepool.yaml": GATE_FILE % "people: off", **HELD["placeholder"]}
    assert asked(gate, own).verdict == "findings"


@pytest.mark.parametrize(
    "author",
    [Author(), Author(agent="command"), Author(agent=PERSON, families=("gpt",)), Author(agent=PERSON, models=("m",))],
    ids=["unknown", "command", "family", "model"],
)
def test_whoever_may_be_a_model_or_a_command_is_no_person(gate: Gate, author: Author) -> None:
    assert asked(gate, HELD["placeholder"], author).verdict == "findings"


def test_a_change_of_nothing_is_nobodys_to_land(gate: Gate) -> None:
    gate.hub.commit({"forgepool.yaml": GATE_FILE % "people: off"})
    empty = gate.entry("one", {}, scanned=True).model_copy(update={"author": ANN})
    found = gate.examine(gate.request(empty, check("test -e a")))
    assert (found.verdict, weights(found)) == ("findings", {("empty-change", "blocks")})


@pytest.mark.parametrize("author", [ANN, CODEX], ids=["person", "agent"])
@pytest.mark.parametrize("people", ["off", "report"])
def test_a_file_beyond_the_limit_comes_in_with_nobody(gate: Gate, author: Author, people: str) -> None:
    gate.hub.commit({"forgepool.yaml": GATE_FILE % f"max_file_mb: 0.01, people: {people}"})
    found = asked(gate, {"data.bin": "x" * 10_001}, author)
    assert found.verdict == "findings" and ("file-size", "blocks") in weights(found)
    assert "max_file_mb" in found.detail and "0.0 MB" in found.detail
    assert asked(gate, {"data.bin": "x" * 10_000}, ANN).verdict == "green"


def test_a_file_that_a_later_commit_deletes_counts_unless_the_branch_is_squashed(gate: Gate) -> None:
    gate.hub.commit({"forgepool.yaml": GATE_FILE % "max_file_mb: 0.01"})
    first = gate.entry("one", {"data.bin": "x" * 10_001, "b.py": "1\n"}, scanned=True)
    then = gate.entry("one", {"data.bin": None}, on=first.commit, attempt=2, scanned=True)
    branch = then.model_copy(update={"author": ANN, "branch": True})
    found = gate.examine(gate.request(branch, check("test -e a")))
    assert (found.verdict, [one.path for one in found.findings]) == ("findings", ["data.bin"])
    assert "an earlier commit of the branch adds it" in found.detail
    squashed = branch.model_copy(update={"style": "squash"})
    assert gate.examine(gate.request(squashed, check("test -e a"))).verdict == "green"


def test_a_person_with_leave_brings_a_large_file_in(gate: Gate) -> None:
    gate.hub.commit({"forgepool.yaml": GATE_FILE % "max_file_mb: 0.01"})
    large = entry(gate, {"data.bin": "x" * 10_001}).model_copy(update={"grants": ("data.bin",)})
    assert gate.examine(gate.request(large, check("test -e a"))).verdict == "green"


@pytest.fixture
def tested(gate: Gate) -> Gate:
    tests = {f"tests/{name}.sh": f'test "$(cat {name})" -lt 5\n' for name in "ab"}
    gate.hub.commit({"ci/run-tests.sh": RUNNER, **tests})
    return gate


def judged(gate: Gate, *entries: EntryRef, **said: Any) -> CheckResult:
    return gate.examine(gate.request(entries[-1], TEST, entries=entries, **said))


def protected_runs(gate: Gate) -> list[Path]:
    return list((gate.settings.home / "runs").rglob("*protected*.log"))


def test_a_persons_tests_are_those_that_count(tested: Gate) -> None:
    """The target's version of the tests they edit would fail."""
    files: dict[str, str | None] = {"a": "9\n", "tests/a.sh": 'test "$(cat a)" -gt 5\n'}
    assert judged(tested, entry(tested, files, CODEX, scanned=False)).verdict != "green"
    assert protected_runs(tested) != []
    for log in protected_runs(tested):
        log.unlink()
    assert judged(tested, entry(tested, files)).verdict == "green"
    assert protected_runs(tested) == []


def test_where_findings_of_people_count_their_tests_are_judged_by_the_targets(tested: Gate) -> None:
    tested.hub.commit({"forgepool.yaml": GATE_FILE % "people: enforce"})
    files: dict[str, str | None] = {"a": "9\n", "tests/a.sh": 'test "$(cat a)" -gt 5\n'}
    kept = judged(tested, entry(tested, files, scanned=False))
    assert (kept.verdict, weights(kept)) == ("findings", {("tests-changed", "attention")})
    assert protected_runs(tested) != []
    gone = judged(tested, entry(tested, {"tests/a.sh": None}, scanned=False))
    assert gone.verdict != "green" and "note" not in {weight for _, weight in weights(gone)}


@pytest.mark.parametrize(
    "files",
    [{"tests/a.sh": None}, {"ci/run-tests.sh": RUNNER.replace("tests/*.sh", "tests/b.sh")}],
    ids=["removed", "not run"],
)
def test_tests_that_no_longer_run_are_reported(tested: Gate, files: dict[str, str | None]) -> None:
    found = judged(tested, entry(tested, files))
    told = [one for one in found.findings if one.rule == "tests-changed"]
    assert (found.verdict, [(one.weight, one.entry) for one in told]) == ("green", [("note", "one")])
    assert told[0].said == f"check 'test' no longer runs {A}, which ran on the target"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"ci/run-tests.sh": "mkdir -p out; echo '<testsuite/>' > out/report.xml\n"}, "ran no test"),
        ({"ci/run-tests.sh": "exit 0\n"}, "left no report"),
        ({"a": "9\n"}, A),
    ],
)
def test_a_red_check_and_a_check_without_evidence_keep_a_person_out(
    tested: Gate, files: dict[str, str | None], said: str
) -> None:
    found = judged(tested, entry(tested, files))
    assert found.verdict == "red" and said in found.detail


def test_an_agent_behind_a_person_is_judged_by_the_targets_tests(tested: Gate) -> None:
    """The person's renamed test stays theirs, and the agent's edited one is put back."""
    person = entry(tested, {"tests/a.sh": None, "tests/z.sh": 'test "$(cat a)" -lt 5\n'}, task="ann")
    edited = {"b": "9\n", "tests/b.sh": 'test "$(cat b)" -gt 5\n'}
    agent = entry(tested, edited, CODEX, task="codex", scanned=False).model_copy(update={"holds": ("b",)})
    found = judged(tested, person, agent)
    assert found.verdict == "red" and found.failures[0].protected
    assert not any("a.sh" in test for one in found.failures for test in one.tests)


@pytest.mark.parametrize("last", ["ann", "codex"])
def test_tests_that_an_agent_takes_away_are_missed_whoever_stands_beside_it(tested: Gate, last: str) -> None:
    ann = entry(tested, {"z": "1\n"}, task="ann")
    codex = entry(tested, {"tests/a.sh": None}, CODEX, task="codex", scanned=False)
    found = judged(tested, *((codex, ann) if last == "ann" else (ann, codex)))
    assert (found.verdict, weights(found)) == ("findings", {("tests-changed", "attention")})


def test_a_finding_names_its_own_entry_and_the_reproduction_merges_no_other(gate: Gate, tmp_path: Path) -> None:
    agent = entry(gate, HELD["placeholder"], CODEX, task="codex")
    person = entry(gate, HELD["protected-path"], task="ann")
    found = gate.examine(gate.request(agent, check("test -e a"), entries=(agent, person)))
    assert (found.verdict, found.about) == ("findings", "codex")
    assert {(one.rule, one.entry) for one in found.findings} == {("placeholder", "codex"), ("protected-path", "ann")}
    assert agent.commit in found.reproduce and person.commit not in found.reproduce
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(gate.hub.path), str(clone)], check=True)
    shown = subprocess.run(["/bin/sh", "-c", found.reproduce], cwd=clone, capture_output=True, text=True)
    assert shown.returncode == 0 and "TODO: later" in shown.stdout and "workflows" not in shown.stdout


def test_a_conflict_is_reproduced_by_those_that_meet(gate: Gate) -> None:
    first = entry(gate, {"a": "2\n"}, task="first")
    gate.let_in(entry(gate, {"a": "3\n"}, task="landed"), check("test -e a"))
    behind = entry(gate, {"z": "1\n"}, task="behind")
    found = gate.examine(gate.request(first, check("test -e a"), entries=(first, behind), base=gate.hub.tip()))
    assert (found.verdict, found.detail) == ("conflict", "'first' conflicts with 'landed' in a")
    assert first.commit in found.reproduce and behind.commit not in found.reproduce


def test_a_conflict_inside_a_batch_names_the_entry_of_the_batch(gate: Gate) -> None:
    first, other = entry(gate, {"a": "2\n"}, task="first"), entry(gate, {"z": "1\n"}, task="other")
    second = entry(gate, {"a": "3\n"}, task="second")
    found = gate.examine(gate.request(second, check("test -e a"), entries=(first, other, second)))
    assert (found.verdict, found.about, found.partner) == ("conflict", "second", None)
    assert found.detail == "'second' conflicts with 'first' in a"


def test_a_conflict_with_a_commit_that_landed_past_the_gate_names_the_commit(gate: Gate) -> None:
    first = entry(gate, {"a": "2\n"})
    gate.hub.commit({"a": "3\n"})
    tip = CommitId(gate.hub.tip())
    found = gate.examine(gate.request(first, check("test -e a"), base=tip))
    assert found.detail == f"'one' conflicts with commit {tip[:12]} in a"
