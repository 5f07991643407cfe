"""All checks run on the target itself, every failure is reported, and no earlier result is reused."""

from typing import Any

import pytest
from gates import Gate, check
from pydantic import ValidationError

from forgepool.supervisor.checks.results.failures import describe_red_base
from forgepool.supervisor.messages.answers import CheckFailure, CheckResult, Flake
from forgepool.supervisor.messages.requests import CheckRequest, LandRequest
from forgepool.workers.policy.gate_file.document import CheckDefinition

GREP = check("! grep -q bad a", "grep")


def whole(gate: Gate, *checks: CheckDefinition, **said: Any) -> CheckResult:
    return gate.examine(request(gate, *checks, **said))


def request(gate: Gate, *checks: CheckDefinition, **said: Any) -> CheckRequest:
    anybody = gate.request(gate.entry("anybody", {"b": "2\n"}), *checks)
    return CheckRequest.model_validate(anybody.model_dump() | {"entries": (), "whole": True} | said)


def test_a_target_that_is_green_is_said_to_be(gate: Gate) -> None:
    found = whole(gate, GREP, check("test -e b", "other"))
    assert (found.verdict, found.tree is not None) == ("green", True)
    assert [one.check for one in found.certificates] == ["grep", "other"]


def test_every_failure_of_a_target_is_told(gate: Gate) -> None:
    """Checks after the first failed one run, too."""
    gate.hub.commit({"a": "bad\n"})
    found = whole(gate, GREP, check("test -e b", "fine"), check("test -e missing", "other"))
    assert found.verdict == "base_red"
    assert [one.check for one in found.failures] == ["grep", "other"]
    assert found.detail.startswith("check 'grep' is red on main itself at ")
    assert found.detail.endswith("; check 'other' is red")
    assert found.reproduce.splitlines()[1:] == [GREP.run, "test -e missing"]
    assert [one.check for one in found.certificates] == ["fine"]


def test_what_set_ups_are_not_lent_is_told_once_and_last() -> None:
    failed = CheckFailure(check="a", how="exit", status=1, log_tail="", log="l", setup=True, reason="lend it")
    other = failed.model_copy(update={"check": "b"})
    assert describe_red_base((failed, other), " on main") == [
        "the set-up of check 'a' exited with 1 on main",
        "the set-up of check 'b' exited with 1",
        "lend it",
    ]


def test_what_uses_a_red_check_is_not_told_as_another_failure(gate: Gate) -> None:
    gate.hub.commit({"a": "bad\n"})
    found = whole(gate, GREP, check("test -e missing", "user", uses=("grep",)))
    assert [one.check for one in found.failures] == ["grep"]


def test_a_target_that_is_red_once_is_flaky_and_green(gate: Gate) -> None:
    gate.unconfined()
    counter = gate.folder / "counter"
    found = whole(gate, check(f"echo x >> {counter}; test $(wc -l < {counter}) -ne 1", "shaky"))
    assert (found.verdict, found.flaky) == ("green", (Flake(check="shaky"),))


def test_nothing_that_was_found_earlier_is_reused(gate: Gate) -> None:
    sick = check('test ! -e "$(git rev-parse --git-common-dir)/sick"', "sick")
    assert whole(gate, sick).verdict == "green"
    (gate.mirror.path / "sick").touch()
    assert whole(gate, sick).verdict == "base_red"


def test_what_it_found_is_remembered_of_the_tip(gate: Gate) -> None:
    whole(gate, GREP)
    entry = gate.request(gate.entry("one", {"b": "3\n"}), GREP)
    assert gate.examine(entry).verdict == "green"
    logs = gate.settings.home / "runs" / "r" / "logs" / "checks" / entry.request_id
    assert sorted(path.name for path in logs.glob("*.log")) == ["composed-grep.log"]


def test_a_program_that_is_missing_is_told_as_that(gate: Gate) -> None:
    found = whole(gate, check("no-such-program", "odd"))
    assert found.verdict == "base_red" and "odd" in found.detail


def test_a_check_that_runs_no_test_proves_nothing_of_a_target_either(gate: Gate) -> None:
    empty = check("mkdir -p out && cp empty.xml out/report.xml", "test", reports=("out/*.xml",))
    gate.hub.commit({"empty.xml": "<testsuite/>"})
    found = whole(gate, empty)
    assert found.verdict == "not_configured" and "ran no test" in found.detail


def test_a_whole_set_that_was_stopped_blames_nobody(gate: Gate) -> None:
    assert gate.examine(request(gate, GREP), stop=lambda: True).verdict == "infrastructure"


def test_only_a_request_for_the_whole_set_may_do_without_entries(gate: Gate) -> None:
    with pytest.raises(ValidationError, match="names no entry"):
        request(gate, GREP, whole=False)
    fields = request(gate, GREP).model_dump() | {"commit": "0" * 40, "tree": "0" * 40}
    with pytest.raises(ValidationError, match="entries"):
        LandRequest.model_validate(fields)
