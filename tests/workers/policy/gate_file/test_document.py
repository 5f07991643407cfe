"""The definition of a check, and how a repository writes its own."""

import pytest

from forgepool.workers.policy.gate_file.document import CheckDefinition, GateFile, ScanRules, effective_checks
from forgepool.workers.policy.gate_file.reading import check_mistakes, read_gate_file, unknown_uses
from forgepool.workers.schema.documents import read
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import CachedFolder

LIST = """\
version: 1
checks:
  - name: test
    run: pytest -q
    timeout_s: 15m
    setup: uv sync
    cache: [{folder: .venv, key: uv.lock}]
  - name: lint
    run: ruff check
"""
MAPPING = """\
version: 1
checks:
  test:
    run: pytest -q
    timeout_s: 15m
    setup: uv sync
    cache:
      - folder: .venv
        key: uv.lock
  lint: ruff check
"""
EXPECTED = GateFile(
    version=1,
    checks=(
        CheckDefinition(
            name="test",
            run="pytest -q",
            timeout_s=900.0,
            setup="uv sync",
            cache=(CachedFolder(folder=".venv", key="uv.lock"),),
        ),
        CheckDefinition(name="lint", run="ruff check"),
    ),
)


@pytest.mark.parametrize("text", [LIST, MAPPING], ids=["list", "mapping"])
def test_both_forms_mean_the_same(text: str) -> None:
    assert read_gate_file(text) == EXPECTED


def test_a_gate_survives_the_wire() -> None:
    assert GateFile.model_validate_json(EXPECTED.encode()) == EXPECTED


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("version: 2\nchecks: {a: b}", "1: 'version' must be 1, is 2"),
        ("version: true\nchecks: {a: b}", "1: 'version' must be 1, is true"),
        ("checks: {a: b}", "1: the file lacks the key 'version'"),
        ("version: 1", "1: the file lacks the key 'checks'"),
        ("version: 1\nchecks: []", "2: 'checks' is empty; name at least one command that must pass"),
        ("version: 1\nchecks: {}", "2: 'checks' is empty; name at least one command that must pass"),
        ("version: 1\nchecks: none", "2: 'checks' must be a list or a mapping, is 'none'"),
        ("version: 1\nchecks:\n  a: ''", "3: 'a' of 'checks' must not be empty"),
        ("version: 1\nchecks:\n  a: {}", "3: 'a' of 'checks' lacks the key 'run'"),
        (
            "version: 1\nchecks:\n  a:\n    run: x\n    timeout: 3",
            "5: 'a' of 'checks' has an unknown key 'timeout'; did you mean 'timeout_s'?",
        ),
        (
            "version: 1\nchecks:\n- {name: a, run: x}\n- {name: b, run: x}\n- {name: a, run: y}",
            "5: check 'a' is defined twice (first on line 3); give it another name",
        ),
        (
            "version: 1\nchecks:\n  a: x\n  a: y",
            "4: the key 'a' is written twice (first on line 3); keep one",
        ),
        (
            "version: 1\nchecks:\n- name: a\n  run: x\n  cache: [{folder: /tmp, key: k}]",
            "5: 'folder' of cache 1 of check 'a' must be a path inside the repository such as src/app",
        ),
        ("version: 1\nchecks: {'a b': x}", "2: 'a b' of 'checks' must be letters, digits"),
        (
            "version: 1\nchecks:\n  build: x\n  a:\n    run: x\n    uses: [biuld]",
            "6: check 'a' uses 'biuld', which is no check; did you mean 'build'?",
        ),
        (
            "version: 1\nchecks:\n- name: a\n  run: x\n  uses: [nothing-like-it]",
            "5: check 'a' uses 'nothing-like-it', which is no check; checks are: a",
        ),
        (
            "version: 1\nchecks:\n- name: a\n  run: x\n  uses: [a]",
            "5: check 'a' uses itself; take it out of its 'uses'",
        ),
        (
            "version: 1\nchecks:\n  a: {run: x, uses: [c]}\n  b: {run: x, uses: [a]}\n  c: {run: x, uses: [b]}",
            "3: checks 'a', 'c', 'b' use each other in a circle; take one of them out of the others' 'uses'",
        ),
        (
            "version: 1\nchecks:\n  a:\n    run: x\n    paths: ['src/**.py']",
            "5: 'paths' of check 'a' has the glob 'src/**.py': '**' must be a whole segment",
        ),
        (
            "version: 1\nchecks:\n  a:\n    run: x\n    reports: [/tmp/x.xml]",
            "5: 'reports' of check 'a' has the glob '/tmp/x.xml': it begins at the root of the disk",
        ),
        ("version: 1\nchecks: {a: {run: x, cost_s: soon}}", "2: 'cost_s' of 'a' of 'checks' must be a duration"),
        ("version: 1\nchecks: {a: {run: x, waive: [tests]}}", "2: item 1 of 'waive' of 'a' of 'checks' must be"),
        ("version: 1\nchecks: {a: b}\nscans:\n  protect: ['']", "4: 'protect' of 'scans' has the glob '': it is empty"),
        (
            "version: 1\nchecks: {a: b}\nscans:\n  waive:\n  - placeholders",
            "5: 'waive' of 'scans' has no rule 'placeholders'; did you mean 'placeholder'?",
        ),
        ("version: 1\nchecks: {a: b}\nscans: {protects: [x]}", "3: 'scans' has an unknown key 'protects'"),
        ("version: 1\nchecks: {a: b}\nscans: {people: none}", "3: 'people' of 'scans' must be"),
        ("version: 1\nchecks: {a: b}\nscans: {max_file_mb: 0}", "3: 'max_file_mb' of 'scans' must be"),
        ("version: 1\nchecks: {a: b}\nreview: maybe", "3: 'review' must be 'required', is 'maybe'"),
    ],
)
def test_a_gate_that_could_let_something_pass_by_mistake_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DocumentWrong) as caught:
        read_gate_file(text)
    assert any(each.startswith(f"forgepool.yaml:{sentence}") for each in caught.value.mistakes), caught.value


def test_what_a_repository_demands_besides_its_checks_is_read() -> None:
    text = f"{MAPPING}scans:\n  protect: [deploy/**]\n  waive: [placeholder]\nreview: required\n"
    found = read_gate_file(text)
    assert found.scans == ScanRules(protect=("deploy/**",), waive=("placeholder",))
    assert (found.review, found.checks) == ("required", EXPECTED.checks)
    assert read_gate_file(MAPPING).review is None


def test_one_circle_is_told_once_and_who_only_leads_into_it_is_not() -> None:
    text = "version: 1\nchecks:\n  a: {run: x, uses: [b]}\n  b: {run: x, uses: [c]}\n  c: {run: x, uses: [b]}\n"
    with pytest.raises(DocumentWrong) as caught:
        read_gate_file(text)
    assert len(caught.value.mistakes) == 1 and "'b', 'c'" in caught.value.mistakes[0]


def test_a_check_of_a_plan_may_use_one_of_the_target() -> None:
    """The gate finds out whether the target has it."""
    document = read("checks: {mine: {run: x, uses: [theirs]}}", "plan.yaml")
    mine = (CheckDefinition(name="mine", run="x", uses=("theirs",)),)
    assert check_mistakes(document, mine) == ()
    assert [said for _, said in unknown_uses(mine)] != []
    assert list(unknown_uses((*mine, CheckDefinition(name="theirs", run="x")))) == []


def test_a_plan_cannot_replace_a_check_of_the_target() -> None:
    own = CheckDefinition(name="test", run="pytest")
    weaker = CheckDefinition(name="test", run="true")
    further = CheckDefinition(name="docs", run="mkdocs build")
    assert effective_checks((own,), (further, weaker)) == (own, further)
    assert effective_checks((), (weaker, further)) == (weaker, further)


REGENERATE = "version: 1\nchecks: {test: make}\nregenerate:\n  - "


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{path: [a.lock], run: x}", "4: regenerate 1 has an unknown key 'path'; did you mean 'paths'?"),
        ("{paths: [], run: x}", "4: 'paths' of regenerate 1 must not be empty"),
        ("{paths: [a.lock]}", "4: regenerate 1 lacks the key 'run'"),
        ("{paths: [/a], run: x}", "4: 'paths' of regenerate 1 has the glob '/a': it begins at the root of the disk; "),
        ("{paths: [a.lock], from: ['b[0'], run: x}", "4: 'from' of regenerate 1 has the glob 'b[0': "),
        (
            "{paths: ['**/*.yaml'], run: x}",
            "4: 'paths' of regenerate 1 has the glob '**/*.yaml', which covers forgepool.yaml",
        ),
        ("{paths: [a.lock], run: x, network: ['http://b']}", "4: 'network' of regenerate 1 has the host 'http://b'"),
    ],
)
def test_what_is_wrong_with_what_is_regenerated_is_said_with_its_line(written: str, said: str) -> None:
    with pytest.raises(DocumentWrong) as wrong:
        read_gate_file(REGENERATE + written)
    assert any(one.startswith(f"forgepool.yaml:{said}") for one in wrong.value.mistakes)


def test_what_is_regenerated_is_read_as_it_is_written() -> None:
    (one,) = read_gate_file(REGENERATE + "{paths: [a.lock], from: [a.json], run: x, timeout_s: 2m}").regenerate
    assert (one.paths, one.of, one.run, one.timeout_s, one.network) == (("a.lock",), ("a.json",), "x", 120.0, ())
