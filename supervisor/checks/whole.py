"""
The whole set of checks on the target itself: is what has landed green as a whole?

Nothing is reused, and a red check hides only what uses it. Red is what is red twice; what is red once is a flake.
"""

from dataclasses import dataclass, field

from supervisor.checks.advice import advice
from supervisor.checks.certificates import certify
from supervisor.checks.failures import missing_program
from supervisor.checks.lines import lines_of
from supervisor.checks.running import Tried
from supervisor.checks.runs import Runs
from supervisor.definitions import voting
from supervisor.demands import NotConfigured
from supervisor.messages import Certificate, CheckFailure, CheckRequest, CheckResult, Flake
from supervisor.results.judging import judge
from supervisor.verdicts import base_red


@dataclass(slots=True, kw_only=True)
class _Findings:
    certificates: dict[str, Certificate] = field(default_factory=dict)
    failures: dict[str, CheckFailure] = field(default_factory=dict)
    flaky: list[Flake] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    """What proves nothing, a sentence each."""

    def knows(self, name: str) -> bool:
        return name in self.certificates or name in self.failures


def whole_set(request: CheckRequest, runs: Runs, host: str, blank: CheckResult) -> CheckResult:
    """
    The verdict on the tip: `green`, or `base_red` with every failure.

    Raises:
        Untold: a check said nothing, through nobody's doing.
        NotConfigured: none is red, and one proves nothing.
    """
    found = _Findings()
    for line in lines_of(voting(runs.checks), runs.cost):
        for one in runs.run(line.checks, runs.tip, label="tip"):
            if one.check.name in line.decides and not found.knows(one.check.name):
                _take(one, runs, host, found)
    if not found.failures and found.lacking:
        raise NotConfigured("; ".join(found.lacking))
    told: dict[str, object] = {"certificates": tuple(found.certificates.values()), "flaky": tuple(found.flaky)}
    if not found.failures:
        told["advice"] = advice(runs, runs.tip, runs.at_tip)
        return blank.model_copy(update={"verdict": "green", **told})
    failures = tuple(found.failures.values())
    tests = tuple(dict.fromkeys(test for one in failures for test in one.tests))
    return base_red(request, failures, blank).model_copy(update={"red_base": tests, **told})


def _take(one: Tried, runs: Runs, host: str, found: _Findings) -> None:
    check, last, flaked = one.check, one, False
    if one.failure is not None:
        last = runs.tip_anew(check, label="tip-again", past=())
        flaked = last.failure is None
    runs.keep(check, runs.at_tip, last.ran, last.seconds)
    if last.failure is not None:
        if (why := missing_program(last.failure, "")) is not None:
            found.lacking.append(why)
        found.failures[check.name] = last.failure.model_copy(update={"tests": _failed(one, last)})
        return
    if flaked:
        found.flaky.append(Flake(check=check.name, tests=_failed(one, one)))
    judgement = judge(last.ran, last.ran, waived=check.waive)
    if judgement.verdict != "green":
        found.lacking.append(f"check '{check.name}' {judgement.said}")
        return
    certificate = certify(
        check,
        runs.checks,
        inputs=runs.at_tip.of(check),
        environment=runs.environment,
        seconds=last.seconds,
        host=host,
    )
    found.certificates[check.name] = certificate.model_copy(update={"tests": last.ran.evidence.tests})


def _failed(one: Tried, other: Tried) -> tuple[str, ...]:
    """Tests that failed in both runs, where they are told."""
    reports = [each.ran.evidence.report for each in (one, other)]
    ids = [report.ids("failed") for report in reports if report is not None]
    return tuple(sorted(frozenset.intersection(*ids))) if len(ids) == len(reports) else ()
