"""What a check is, and how a repository writes its own."""

import pytest

from supervisor.definitions import CachedFolder, CheckDefinition, GateFile, effective_checks, read_gate_file
from workers.mistakes import DocumentWrong

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
    ],
)
def test_a_gate_that_could_let_something_pass_by_mistake_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DocumentWrong) as caught:
        read_gate_file(text)
    assert any(each.startswith(f"forgepool.yaml:{sentence}") for each in caught.value.mistakes), caught.value


def test_a_plan_cannot_replace_a_check_of_the_target() -> None:
    own = CheckDefinition(name="test", run="pytest")
    weaker = CheckDefinition(name="test", run="true")
    further = CheckDefinition(name="docs", run="mkdocs build")
    assert effective_checks((own,), (further, weaker)) == (own, further)
    assert effective_checks((), (weaker, further)) == (weaker, further)
