"""
A check with a baseline: findings of the target stay red, and a new finding is refused, by file, line, rule and message.

The tests use real ruff and mypy.
"""

import json
from itertools import count
from typing import Any

import pytest
from gates import Gate, check

from forgepool.supervisor.checks.results.evidence import RunEvidence
from forgepool.supervisor.checks.results.judging import Ran, judge
from forgepool.supervisor.checks.results.problems import report_of_problems
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.schema.mistakes import DocumentWrong

LINT = check("ruff check --isolated --no-cache --output-format concise .", "lint", baseline="tip")
TYPES = check("mypy --strict --cache-dir=/dev/null shop", "types", baseline="tip")
_ATTEMPTS = count(2)
PRICES = """\
import os
import sys


def price(cents: int) -> str:
    return cents


def total(prices):
    return sum(prices)
"""
"""A file with two findings of ruff and two of mypy."""


@pytest.fixture
def shop(gate: Gate) -> Gate:
    gate.hub.commit({"shop/__init__.py": "", "shop/prices.py": PRICES, "shop/names.py": "NAME = 'shop'\n"})
    return gate


def asked(gate: Gate, files: dict[str, str | None], *checks: Any, **said: Any) -> CheckResult:
    entry = gate.entry("one", files, attempt=next(_ATTEMPTS))
    return gate.examine(gate.request(entry, *(checks or (LINT, TYPES)), **said))


def test_what_is_red_on_the_target_stays_red_and_is_told(shop: Gate) -> None:
    found = asked(shop, {"shop/names.py": "NAME = 'other'\n"})
    assert (found.verdict, found.red_base) == ("green", ("2 findings of 'lint'", "2 findings of 'types'"))
    assert [one.findings for one in found.certificates] == [2, 2]
    assert any("F401 `os`" in one for one in found.certificates[0].known_failures)


def test_a_change_that_lowers_the_count_lands(shop: Gate) -> None:
    request = shop.request(shop.entry("one", {"shop/prices.py": PRICES.replace("import os\n", "")}), LINT, TYPES)
    found = shop.examine(request)
    assert [one.findings for one in found.certificates] == [1, 2]
    assert shop.land(shop.landing(request, found)).outcome == "landed"
    raised = asked(shop, {"shop/prices.py": PRICES})
    assert raised.verdict == "red", "what has been mended once stays so"


@pytest.mark.parametrize(
    ("added", "check", "said"),
    [
        ("import json\n", "lint", "shop/prices.py:11: F401 `json` imported but unused"),
        ("COUNT: str = 1\n", "types", "shop/prices.py:11: assignment Incompatible types in assignment"),
        ("def more(x): ...\n", "types", "shop/prices.py:9,11: no-untyped-def Function is missing a type"),
    ],
)
def test_one_new_finding_is_refused_and_named(shop: Gate, added: str, check: str, said: str) -> None:
    found = asked(shop, {"shop/prices.py": PRICES + added})
    failure = found.failures[0]
    assert (found.verdict, failure.check) == ("red", check)
    assert any(one.startswith(said) for one in failure.problems)
    assert f"with one new finding: {failure.problems[0]}" in found.detail


def test_a_finding_mended_does_not_pay_for_a_new_one(shop: Gate) -> None:
    found = asked(shop, {"shop/prices.py": PRICES.replace("import os", "import json")})
    assert found.failures[0].problems == ("shop/prices.py:1: F401 `json` imported but unused",)


def test_findings_move_with_their_lines_and_with_their_file(shop: Gate) -> None:
    moved = "\n\n" + PRICES.replace("def total", "def first() -> None: ...\n\n\ndef total")
    assert asked(shop, {"shop/prices.py": moved}).verdict == "green"
    assert asked(shop, {"shop/prices.py": None, "shop/cash.py": PRICES}).verdict == "green"
    copied = asked(shop, {"shop/cash.py": PRICES})
    assert copied.verdict == "red" and copied.failures[0].problems[0].startswith("shop/cash.py:1: F401")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("echo shop/prices.py:1:1: F401 x; exit 2", "comes with status 2"),
        (
            "echo shop/prices.py:1:1: F401 x; echo Found 2 errors.; false",
            "counts 2 findings, and 1 of them can be read",
        ),
        ("mypy --no-such-option shop", "names no finding in a form that can be read"),
    ],
)
def test_findings_that_cannot_all_be_read_excuse_nothing(shop: Gate, run: str, said: str) -> None:
    """A tool that newly breaks is red. If it breaks on the target as well, the target is red."""
    shop.hub.commit({"run": "echo shop/prices.py:1:1: F401 x; echo Found 1 error.; false\n"})
    broken = asked(shop, {"run": run + "\n"}, check("sh ./run", baseline="tip"))
    assert broken.verdict == "red" and broken.failures[0].problems == ()
    assert said in broken.detail
    shop.hub.commit({"run": run + "\n"})
    assert asked(shop, {"shop/names.py": "\n"}, check("sh ./run", baseline="tip")).verdict == "base_red"


def test_a_crash_that_hides_findings_is_red(shop: Gate) -> None:
    """There are fewer findings than before, and the output says that the tool broke."""
    shop.hub.commit({"run": "echo a:1:1: F401 x; echo a:2:1: F401 y; false\n"})
    tool = check("sh ./run", baseline="tip")
    fewer = asked(shop, {"run": "echo a:1:1: F401 x; false\n"}, tool)
    assert fewer.verdict == "green"
    crash = asked(shop, {"run": "echo a:1:1: F401 x; echo 'Traceback (most recent call last):'; false\n"}, tool)
    assert crash.verdict == "red" and "the tool broke: Traceback" in crash.detail


def ran_with(*messages: str) -> Ran:
    """Return a run of mypy with one error for each message."""
    output = "".join(f"a.py:1: error: {one}  [misc]\n" for one in messages)
    report = report_of_problems(output, (), 1 if messages else 0, "/work")
    return Ran(how="exit", status=1 if messages else 0, evidence=RunEvidence(report=report))


OLD, ONE_WAY, OTHER_WAY = "Old", "Missing keys x, y", "Missing keys y, x"


@pytest.mark.parametrize("tip", [ran_with(), ran_with(OLD)])
def test_a_new_finding_worded_otherwise_in_each_run_is_no_flake(tip: Ran) -> None:
    kept = (OLD,) if tip.status else ()
    judged = judge(tip, ran_with(*kept, ONE_WAY), ran_with(*kept, OTHER_WAY), tip)
    assert (judged.verdict, judged.flaky) == ("red", ())
    assert judged.new == (f"a.py: misc {ONE_WAY}", f"a.py: misc {OTHER_WAY}")


@pytest.mark.parametrize("tip", [ran_with(), ran_with(OLD)])
def test_a_new_finding_that_one_whole_run_is_without_is_a_flake(tip: Ran) -> None:
    kept = (OLD,) if tip.status else ()
    judged = judge(tip, ran_with(*kept, ONE_WAY), ran_with(*kept), tip)
    assert (judged.verdict, judged.flaky) == ("known" if kept else "green", (f"a.py: misc {ONE_WAY}",))


def test_a_finding_worded_otherwise_in_each_run_of_the_tip_is_known_in_both_ways() -> None:
    judged = judge(ran_with(ONE_WAY), ran_with(ONE_WAY), ran_with(OTHER_WAY), ran_with(OTHER_WAY))
    assert (judged.verdict, judged.new) == ("known", ())
    gone_once = judge(ran_with(ONE_WAY), ran_with(ONE_WAY), ran_with(ONE_WAY), ran_with())
    assert (gone_once.verdict, gone_once.new) == ("red", (f"a.py: misc {ONE_WAY}",)), "one run of the tip was clean"


def test_a_finding_of_the_tip_that_names_a_set_is_known_in_any_order() -> None:
    tip, here = ran_with("Missing keys {'x', 'y'}"), ran_with("Missing keys {'y', 'x'}")
    assert judge(tip, here, here, tip).verdict == "known"
    more = ran_with("Missing keys {'y', 'x'}", "Missing keys {'z', 'x'}")
    assert judge(tip, more, more, tip).new == ("a.py: misc Missing keys {'x', 'z'}",)


def test_without_a_baseline_a_linter_that_is_red_on_the_target_lets_nothing_in(shop: Gate) -> None:
    assert asked(shop, {"shop/names.py": "\n"}, LINT.model_copy(update={"baseline": None})).verdict == "base_red"


def test_a_certificate_with_findings_lands_on_no_other_tip(shop: Gate) -> None:
    """Its failures were known on one tip. On a tip where they are mended they would be new."""
    request = shop.request(shop.entry("one", {"shop/names.py": "NAME = 'x'\n"}), LINT)
    found = shop.examine(request)
    landing = shop.landing(request, found)
    of_another = [one.model_copy(update={"against": ("0" * 40,)}) for one in found.certificates]
    assert shop.land(landing.model_copy(update={"certificates": tuple(of_another)})).outcome == "refused", "by its key"
    unbound = [_unbound(one) for one in found.certificates]
    landed = shop.land(landing.model_copy(update={"certificates": tuple(unbound)}))
    assert (landed.outcome, "tested again" in landed.detail) == ("untested", True)
    assert shop.land(landing).outcome == "landed"


def _unbound(certificate: Any) -> Any:
    """Return the certificate bound to no tip, as an earlier release issued it."""
    from forgepool.supervisor.checks.certificates import certificate_key

    one = certificate
    key = certificate_key(one.check, one.definition, one.environment, one.tree)
    return one.model_copy(update={"against": (), "key": key})


def test_what_stands_behind_a_change_is_judged_by_it_and_by_the_target(shop: Gate) -> None:
    """
    The first entry mends a finding and the second brings it back. Compared with the target alone, nothing would have
    changed.
    """
    mends = shop.entry("first", {"shop/prices.py": PRICES.replace("import os\n", "")})
    harmless = shop.entry("second", {"shop/names.py": "NAME = 'x'\n"})
    raises = shop.entry("third", {"shop/names.py": "import os\nNAME = 'x'\n"})
    assert shop.examine(shop.request(mends, LINT)).verdict == "green"
    behind: dict[str, Any] = {"ahead": (mends,), "decisive": False}
    joint = shop.request(harmless, LINT, **behind)
    found = shop.examine(joint)
    assert found.verdict == "green"
    assert shop.examine(shop.request(raises, LINT, **behind)).verdict == "red"
    together = shop.landing(joint, found, ahead=(), entries=(mends, harmless))
    assert shop.land(together).outcome == "landed"


def test_one_ahead_that_adds_a_finding_excuses_nothing_behind_it(shop: Gate) -> None:
    """This holds even if this host has seen that very tree as another branch's target."""
    bad = shop.entry("bad", {"shop/names.py": "import json\nNAME = 'x'\n"})
    good = shop.entry("good", {"b": "2\n"})
    shop.examine(shop.request(good, LINT, base=bad.commit, target=bad.ref.removeprefix("refs/heads/")))
    found = shop.examine(shop.request(good, LINT, ahead=(bad,), decisive=False))
    assert found.verdict == "red"


def test_the_whole_set_on_the_target_tells_what_is_red_and_stops_nothing(shop: Gate) -> None:
    anybody = shop.request(shop.entry("anybody", {"b": "2\n"}), LINT, TYPES)
    whole = CheckRequest.model_validate(anybody.model_dump() | {"entries": (), "whole": True})
    found = shop.examine(whole)
    assert (found.verdict, found.red_base) == ("green", ("2 findings of 'lint'", "2 findings of 'types'"))
    broken = LINT.model_copy(update={"run": "ruff check --isolated --no-such-option ."})
    assert shop.examine(whole.model_copy(update={"plan_checks": (broken,)})).verdict == "base_red"


def test_two_tools_in_one_command_are_told_apart_by_a_person(gate: Gate) -> None:
    text = "version: 1\nchecks:\n  lint: {run: ruff check . && .venv/bin/mypy src, baseline: tip}\n"
    with pytest.raises(DocumentWrong, match="'baseline' runs ruff and mypy; give each of them a check of its own"):
        read_gate_file(text)
    assert read_gate_file(text.replace(", baseline: tip", "")).checks[0].baseline is None
    assert read_gate_file(text.replace(" && .venv/bin/mypy src", " src/mypy")).checks[0].baseline == "tip"


@pytest.mark.parametrize(
    "run",
    [
        "mypy src && mypy tests",
        "ruff check . && ./tools/licences.sh",
        "npm run lint && npm run types",
        "ruff check . ; r=$?; ./x.sh || r=1; exit $r",
        "ruff check .\n./x.sh\n",
        "ruff check . | tee out",
        "ruff check . & ./x.sh",
        "ruff check . \\\n  && ./x.sh",
        "sh -c 'ruff check . && ./x.sh'",
        'ruff check "$(pwd)" && ./x.sh "b"',
        "A=$(./x.sh); ruff check .",
        "cd web && npx eslint . && ./x.sh",
        "ruff check . # don't\n./x.sh # don't",
    ],
)
def test_a_second_command_behind_one_with_a_baseline_is_refused(run: str) -> None:
    text = json.dumps({"version": 1, "checks": {"lint": {"run": run, "baseline": "tip"}}})
    with pytest.raises(DocumentWrong, match=r"'lint' with a 'baseline' runs .*; give each of them a check of its own"):
        read_gate_file(text)
    assert read_gate_file(text.replace(', "baseline": "tip"', "")).checks[0].run == run


@pytest.mark.parametrize(
    "run",
    [
        "cd web && export A=1; npx eslint .",
        "set -eu\nA=1 B=2\nmypy src\n",
        "A=1 mypy --exclude 'a|b' src 2>&1",
        "ruff check . # one; two",
        "ruff check \\\n  src",
        "ruff check $(git ls-files)",
        "make lint",
    ],
)
def test_one_command_behind_what_only_prepares_may_have_a_baseline(run: str) -> None:
    text = json.dumps({"version": 1, "checks": {"lint": {"run": run, "baseline": "tip"}}})
    assert read_gate_file(text).checks[0].baseline == "tip"
