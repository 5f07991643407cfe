"""
The whole set of checks on the target itself: is what has landed green as a whole?

A red check hides only what uses it. Red is what is red twice; what is red once is a flake. After landings nothing is
reused; before a run begins, what this host remembers as green is.
"""

from dataclasses import dataclass, field

from forgepool.supervisor.checks.certificates import certify, describe_failures
from forgepool.supervisor.checks.non_voting import advice
from forgepool.supervisor.checks.results.failures import missing_program
from forgepool.supervisor.checks.results.judging import judge
from forgepool.supervisor.checks.running import TriedCheck
from forgepool.supervisor.checks.runs import CheckRuns
from forgepool.supervisor.checks.store import is_green
from forgepool.supervisor.checks.traced.tracing import note_misses, trace_tip
from forgepool.supervisor.gate.verdicts import base_red
from forgepool.supervisor.messages.answers import Certificate, CheckFailure, CheckResult, Flake
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.workers.policy.gate_file.document import CheckDefinition, NotConfigured, voting
from forgepool.workers.workspace.checks.lines import CheckGroup, lines_of


@dataclass(slots=True, kw_only=True)
class _Findings:
    certificates: dict[str, Certificate] = field(default_factory=dict)
    failures: dict[str, CheckFailure] = field(default_factory=dict)
    flaky: list[Flake] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    """The checks that prove nothing, a sentence each."""

    def knows(self, name: str) -> bool:
        return name in self.certificates or name in self.failures


def whole_set(request: CheckRequest, runs: CheckRuns, host: str, blank: CheckResult) -> CheckResult:
    """
    Judge the tip: `green`, or `base_red` with every failure.

    Raises:
        Untold: a check gave no answer, and no entry is at fault.
        NotConfigured: none is red, and one proves nothing.
    """
    found = _Findings()
    for line in lines_of(voting(runs.checks), runs.cost):
        for one in _remembered(line, runs) or runs.run(line.checks, runs.tip, label="tip"):
            if one.check.name in line.decides and not found.knows(one.check.name):
                _take(one, runs, host, found)
    if not found.failures and found.lacking:
        raise NotConfigured("; ".join(found.lacking))
    told: dict[str, object] = {"certificates": tuple(found.certificates.values()), "flaky": tuple(found.flaky)}
    told["red_base"] = tuple(each for one in found.certificates.values() for each in describe_failures(one))
    if not found.failures:
        told["advice"] = advice(runs, runs.tip, runs.at_tip)
        return blank.model_copy(update={"verdict": "green", **told})
    failures = tuple(found.failures.values())
    tests = tuple(dict.fromkeys(test for one in failures for test in one.tests))
    return base_red(request, failures, runs, blank).model_copy(update=told | {"red_base": tests})


def _remembered(line: CheckGroup, runs: CheckRuns) -> tuple[TriedCheck, ...]:
    """Return the earlier runs of a line's checks on the tip; empty unless all of them were green."""
    found = [(check, runs.find_remembered(check, runs.at_tip)) for check in line.checks]
    return tuple(
        TriedCheck(
            check=check, ran=said.ran, failure=None, seconds=said.seconds, tail="", log="", reused=True, host=said.host
        )
        for check, said in found
        if said is not None and all(each is not None and is_green(each.ran) for _, each in found)
    )


def _take(one: TriedCheck, runs: CheckRuns, host: str, found: _Findings) -> None:
    check, last, flaked = one.check, one, False
    if one.failure is not None:
        last = runs.tip_anew(check, label="tip-again", past=())
        flaked = last.failure is None
    if not one.reused:
        runs.keep(check, runs.at_tip, last.ran, last.seconds)
    known = _known(check, last)
    if last.failure is not None and not known:
        if (why := missing_program(last.failure, "")) is not None:
            found.lacking.append(why)
        note_misses(check, runs, runs.at_tip, _failed(one, last))
        found.failures[check.name] = last.failure.model_copy(update={"tests": _failed(one, last), "command": check.run})
        return
    if flaked:
        found.flaky.append(Flake(check=check.name, tests=_failed(one, one)))
    judgement = judge(last.ran, last.ran, tip_again=last.ran, waived=check.waive)
    if judgement.verdict not in ("green", "known"):
        found.lacking.append(f"check '{check.name}' {judgement.said}")
        return
    certificate = certify(
        check,
        runs.checks,
        inputs=runs.at_tip.of(check),
        environment=runs.environment,
        seconds=last.seconds,
        host=last.host or host,
        known=known,
        findings=len(known) if last.ran.has_problems else 0,
        against=(runs.at_tip.of(check),),
    )
    proofs = trace_tip(check, runs, last.ran, last.seconds, reused=one.reused)
    traced = "" if proofs is None else proofs.words
    more = {"tests": last.ran.evidence.tests, "reused": one.reused, "traced": traced}
    found.certificates[check.name] = certificate.model_copy(update=more)


def _known(check: CheckDefinition, last: TriedCheck) -> tuple[str, ...]:
    """Failures of a check with a baseline, where they are all told: what is red on the target may stay red."""
    if check.baseline is None or last.failure is None:
        return ()
    judgement = judge(last.ran, last.ran, tip_again=last.ran)
    return judgement.known if judgement.verdict == "known" else ()


def _failed(one: TriedCheck, other: TriedCheck) -> tuple[str, ...]:
    """Tests that failed in both runs, where they are told."""
    reports = [each.ran.evidence.report for each in (one, other)]
    ids = [report.ids("failed") for report in reports if report is not None]
    return tuple(sorted(frozenset.intersection(*ids))) if len(ids) == len(reports) else ()
