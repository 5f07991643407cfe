"""`forgepool.yaml` also says what agents may do and which hosts a check may reach."""

import pytest

from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.schema.mistakes import DocumentWrong


def test_rules_and_hosts_are_read_beside_the_checks() -> None:
    found = read_gate_file(
        "version: 1\n"
        "checks:\n"
        "  lint: make lint\n"
        "  test: {run: make test, timeout_s: 5m, network: [packages.example.org]}\n"
        "policy:\n"
        "  - {match: {tool: write_file, path: vendor/**}, decision: deny, reason: copied from elsewhere}\n"
    )
    assert [check.network for check in found.checks] == [(), ("packages.example.org",)]
    assert found.checks[1].timeout_s == 300
    assert [rule.reason for rule in found.policy] == ["copied from elsewhere"]


@pytest.mark.parametrize(
    "form", ["checks: [{name: test, run: make, network: ['a b']}]", "checks: {test: {run: make, network: ['a b']}}"]
)
def test_a_host_that_is_none_is_told_with_its_line(form: str) -> None:
    with pytest.raises(DocumentWrong, match=r"^forgepool\.yaml:2: 'network' of check 'test' has the host"):
        read_gate_file(f"version: 1\n{form}\n")


def test_a_wrong_rule_is_told_with_its_line() -> None:
    with pytest.raises(DocumentWrong, match=r"^forgepool\.yaml:4: 'match' of rule 1 names nothing"):
        read_gate_file("version: 1\nchecks: {test: make}\npolicy:\n  - {match: {}, decision: deny}\n")
