"""
The judgement of a check's runs on the target's tip and on the tree that would land. Pure.

A tip's red is believed after two runs, and so is an entry's; `judge` says when it wants the second.

    the tip                the composed tree                     the verdict
    ---------------------  ------------------------------------  ------------------------------------------------
    any                    stopped, or not started               `untold`
    any                    green                                 `green`, where it shows as much as the tip
    any                    green, shows less, or no test ran     `no_evidence`
    red                    red, and the tip ran once             `tip_again`
    red, by status alone   red                                   `tip_red`: whose it is cannot be told
    red, stopped early     red in tests that never ran there     `tip_red`
    red, by tests          red in these and no others, to an end `known`, where it shows as much as the tip
    green, or by tests     red in others, or by status; once     `again`
    same                   the same once more                    `red`
    same                   each of the others has passed now     `green` or `known`; they are `flaky`

Findings of linters and type checkers are judged as failed tests are, and one that a run does not name is not there.
They are flakes only where one whole run has no new one: else an error whose text changes would excuse itself.

A test is known to fail on the tip where it never passed there. One that passed and failed on the composed tree, in
either order, is a flake. A run is red by status alone if it names no failed test, or fewer than its own output counts.
So is a run that did not end by itself.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from forgepool.supervisor.checks.results.evidence import RunEvidence
from forgepool.supervisor.checks.results.reports import ReportedCase, function_of
from forgepool.supervisor.checks.results.touched import Touched, cover_of_gone, find_renamed_id
from forgepool.workers.schema.orders import Message

How = Literal["exit", "timeout", "idle", "stopped", "not_started", "refused", "no_evidence"]
Verdict = Literal["green", "known", "red", "no_evidence", "tip_red", "untold", "again", "tip_again"]

_NO_TESTS_STATUS = 5
"""pytest's, where it collected none; which is judged like a green run that ran none."""
_SIGNALLED = 128
_SHOWN = 5


class Ran(Message):
    """One run of a check on one tree."""

    how: How
    status: int | None = None
    evidence: RunEvidence = RunEvidence()

    @property
    def has_problems(self) -> bool:
        """It told the findings of a linter or type checker."""
        return self.evidence.report is not None and self.evidence.report.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """A possible explanation of missing tests: files that the entry changes, and who allowed that."""

    touched: tuple[Touched, ...] = ()
    free: bool = False
    """People alone made the change: that tests are gone is told, wherever they were, and holds nothing up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckJudgement:
    """The judgement of a check's runs. `again` and `tip_again` ask for one more run first."""

    verdict: Verdict
    new: tuple[str, ...] = ()
    """Ids of tests that fail here, and not on the tip; none where no runner tells them."""
    known: tuple[str, ...] = ()
    """Ids of tests that fail here as they do on the tip."""
    flaky: tuple[str, ...] = ()
    """Ids of tests that were red and green on this same tree."""
    flaked: bool = False
    """The check was red, then as it should be, on this same tree, whether or not a test is named."""
    vanished: tuple[str, ...] = ()
    """Tests that ran on the tip, and did not run here: without parameters, or one with some that is skipped now."""
    attention: tuple[str, ...] = ()
    """Missing tests that the entry may remove once a reviewer or a person has looked."""
    fewer: int = 0
    """The number of tests less than on the tip, where only numbers are known; a reviewer or a person looks."""
    of_tip: bool = False
    """With `no_evidence`: the tip shows no more than this, so no entry is at fault."""
    said: str = ""
    """Why, to be read after the check's name; empty for what is green."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One run, or what several on one tree come to."""

    failed: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    by_status: bool = False
    cut_short: bool = False

    @property
    def ran(self) -> frozenset[str]:
        return self.failed | self.passed

    @property
    def clean(self) -> bool:
        return not self.failed and not self.by_status


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """At most two runs on the tip and two on the composed tree; the last of each decides."""

    tips: tuple[Ran, ...]
    heres: tuple[Ran, ...]
    tip: tuple[_Seen, ...]
    here: tuple[_Seen, ...]
    known: frozenset[str] = field(default=frozenset())
    """The tests that fail on the tip."""


def judge(
    tip: Ran,
    here: Ran,
    again: Ran | None = None,
    tip_again: Ran | None = None,
    *,
    excuse: Excuse | None = None,
    waived: Collection[str] = (),
) -> CheckJudgement:
    """
    Judge whether there is a failure, whether it is the entry's, and whether a green run is to be believed.

    `excuse` names tests that may be missing; `waived` is the check's own `waive`. Asked again
    with the run it wants, it wants no other of that kind.
    """
    tips = (tip, *([tip_again] if tip_again else []))
    heres = (here, *([again] if again else []))
    if any(ran.how in ("stopped", "not_started") for ran in (*tips, *heres)):
        return CheckJudgement(verdict="untold", said="was stopped, or could not be started")
    runs = _runs(tips, heres)
    judgement = _verdict(runs)
    return _with_evidence(judgement, runs, excuse or Excuse(), waived)


def shows_a_sound_host(tip: Ran, here: Ran) -> bool:
    """
    Tell whether a red run passes every test of a green run of the tip, and fails in nothing but tests the tip lacks.

    Both were reported in full, by a runner of tests.
    """
    there, found = tip.evidence.report, here.evidence.report
    if there is None or found is None or tip.has_problems or here.has_problems:
        return False
    on_tip, seen = _seen(tip, noisy=False, findings=frozenset()), _seen(here, noisy=False, findings=frozenset())
    if not on_tip.clean or not on_tip.passed or seen.by_status or seen.cut_short or not seen.failed:
        return False
    known = {function_of(one) for one in (*on_tip.ran, *on_tip.skipped)}
    return on_tip.passed <= seen.passed and known.isdisjoint(map(function_of, seen.failed))


def _runs(tips: tuple[Ran, ...], heres: tuple[Ran, ...]) -> _Runs:
    # Where the tip ends well though its output counts failures, these are somebody else's words, of a test about tests.
    noisy = any(ran.how == "exit" and ran.status == 0 and _uncounted(ran) for ran in tips)
    everywhere = _findings((*tips, *heres))
    tip, here = (tuple(_seen(ran, noisy, everywhere) for ran in runs) for runs in (tips, heres))
    # A warning on a red tip may be what makes the tool fail here, once its errors are gone.
    warned = _findings(ran for ran in tips if not _ended_well(ran))
    # One that only one run of the tip names is worded otherwise in the other, unless that one has none at all.
    passed = _all(seen.passed for ran, seen in zip(tips, tip, strict=True) if seen.clean or not ran.has_problems)
    known = (_all(seen.failed for seen in tip) | warned) - passed
    return _Runs(tips=tips, heres=heres, tip=tip, here=here, known=known)


def _findings(runs: Iterable[Ran]) -> frozenset[str]:
    """Ids of all that linters and type checkers have named in them."""
    return _all(
        ran.evidence.report.ids("failed", "skipped") for ran in runs if ran.evidence.report and ran.has_problems
    )


def _seen(ran: Ran, noisy: bool, findings: frozenset[str]) -> _Seen:
    report = ran.evidence.report
    if report is not None and ran.has_problems:
        return _Seen(failed=report.ids("failed"), passed=findings - _findings([ran]), by_status=_by_status(ran, noisy))
    failed = report.ids("failed") if report is not None else frozenset[str]()
    return _Seen(
        failed=failed,
        passed=report.ids("passed") if report is not None else frozenset(),
        skipped=report.ids("skipped") if report is not None else frozenset(),
        by_status=_by_status(ran, noisy),
        cut_short=ran.evidence.cut_short,
    )


def _by_status(ran: Ran, noisy: bool) -> bool:
    report = ran.evidence.report
    unnamed = (report is None or not report.ids("failed")) and not _ended_well(ran)
    broken = ran.how != "exit" or ran.status is None or not 0 <= ran.status < _SIGNALLED
    return unnamed or broken or (_uncounted(ran) and not noisy)


def _uncounted(ran: Ran) -> bool:
    """The output counts more failures than the report names."""
    report = ran.evidence.report
    return ran.evidence.failing > (report.failures if report is not None else 0)


def _ended_well(ran: Ran) -> bool:
    none_ran = ran.status == _NO_TESTS_STATUS and ran.evidence.tests == 0
    return ran.how == "exit" and (ran.status == 0 or none_ran)


def _verdict(runs: _Runs) -> CheckJudgement:
    """Judge the failures. Whether a green run shows enough is asked elsewhere."""
    flaky = _flaky(runs)
    failed = _all(seen.failed for seen in runs.here)
    new = failed - runs.known - flaky
    told = CheckJudgement(verdict="green", flaky=_sorted(flaky), known=_sorted(runs.here[-1].failed & runs.known))
    if (of_tip := _of_tip(runs, new)) is not None:
        return replace(told, verdict=of_tip[0], said=of_tip[1])
    if not new and not runs.here[-1].by_status:
        return replace(told, verdict="known" if told.known else "green", flaked=len(runs.here) > 1)
    return replace(told, verdict="again" if len(runs.here) == 1 else "red", new=_sorted(new), said=_why_red(runs, new))


def _of_tip(runs: _Runs, new: frozenset[str]) -> tuple[Verdict, str] | None:
    """Return why the entry cannot be judged, since the tip is red too; None where it can."""
    last = runs.here[-1]
    if any(seen.clean for seen in (last, *runs.tip)):
        return None
    if len(runs.tip) == 1:
        return "tip_again", ""
    if all(seen.by_status for seen in runs.tip):
        return "tip_red", f"it is red on the target itself, and no report tells which tests{_fault(runs.tips[-1])}"
    if not all(seen.cut_short for seen in runs.tip):
        return None
    if new and not new & _all(seen.passed for seen in runs.tip):
        return "tip_red", f"it stops early on the target itself, where {_named(new)} may fail as well"
    if not new and last.cut_short:
        return "tip_red", "it stops early, here and on the target itself; what is behind that is not known"
    return None


def _fault(ran: Ran) -> str:
    return f": {ran.evidence.faults[0]}" if ran.evidence.faults else ""


def _flaky(runs: _Runs) -> frozenset[str]:
    """
    List what failed and passed on this same tree.

    A message may be worded otherwise in each run, by a set's order or an address. So where no run was without new
    findings, none of them is a flake.
    """
    if any(ran.has_problems for ran in runs.heres) and all(seen.failed - runs.known for seen in runs.here):
        return frozenset()
    return (_all(seen.failed for seen in runs.here) & _all(seen.passed for seen in runs.here)) - runs.known


def _why_red(runs: _Runs, new: frozenset[str]) -> str:
    last = runs.heres[-1]
    if new:
        return f"it fails in {_named(new)}, which did not fail on the target"
    match last.how:
        case "exit":
            return f"it exited with {last.status}{_what_report_lacks(runs)}"
        case "timeout":
            return "it did not end in its time"
        case _:
            return "it did not end well"


def _what_report_lacks(runs: _Runs) -> str:
    last = runs.heres[-1].evidence
    if last.report is None and any(ran.evidence.report is not None for ran in runs.tips):
        return (
            f"; {last.faults[0]}" if any(ran.has_problems for ran in runs.tips) and last.faults else _lost_report(last)
        )
    if last.report is not None and last.failing > last.report.failures:
        return f"; its output counts {last.failing} failures, and its report names {last.report.failures}"
    return ""


def _lost_report(evidence: RunEvidence) -> str:
    why = f": {evidence.faults[0]}" if evidence.faults else ""
    return f"; it left no report that can be read, as it did on the target{why}"


def _with_evidence(judgement: CheckJudgement, runs: _Runs, excuse: Excuse, waived: Collection[str]) -> CheckJudgement:
    gone = {one: cover_of_gone(case, excuse.touched) for one, case in _gone(runs, excuse).items()}
    vanished = tuple(sorted(one for one, cover in gone.items() if cover == "none" and not excuse.free))
    attention = tuple(sorted(one for one, cover in gone.items() if cover == "held" or excuse.free))
    judgement = replace(judgement, vanished=vanished, attention=attention)
    if judgement.verdict not in ("green", "known"):
        return judgement
    if (lack := _lack(runs, waived)) is not None:
        return replace(judgement, verdict="no_evidence", said=lack, of_tip=_tip_lacks_as_much(runs))
    if vanished:
        said = f"it did not run {_named(vanished)}, which ran on the target"
        return replace(judgement, verdict="no_evidence", said=said)
    return replace(judgement, fewer=_fewer(runs))


def _gone(runs: _Runs, excuse: Excuse) -> dict[str, ReportedCase]:
    """
    Return the cases that ran on the tip and not here, as the tip's report has them; of two runs, those that ran in
    neither.

    By functions: other parameters are another choice of cases, and not a test less. One that is skipped now is gone.
    One that the entry has renamed with its file is there when it ran under the new name, which is new to the tip.
    """
    if not any(ran.evidence.report is not None for ran in runs.heres):
        return {}
    ran_here = _all(seen.ran for seen in runs.here)
    functions = {function_of(one) for one in ran_here}
    skipped = _all(seen.skipped for seen in runs.here) - ran_here
    gone: dict[str, ReportedCase] = {}
    on_tip = {case.id for case in _cases(runs.tips)}
    moved = any(each.now for each in excuse.touched)
    for case in _cases(runs.tips):
        names = {case.id}
        if moved and case.function not in functions and (renamed := find_renamed_id(case, excuse.touched)):
            names |= {renamed} - on_tip
        if case.outcome != "skipped" and functions.isdisjoint(map(function_of, names)) and not _was_broken(case, runs):
            gone[case.function] = case
        elif case.outcome == "passed" and not names.isdisjoint(skipped):
            gone[case.id] = case
    return gone


def _was_broken(case: ReportedCase, runs: _Runs) -> bool:
    """It stands for tests that could not be loaded on the tip, and have run here."""
    if case.id not in runs.known:
        return False
    cases = (each for each in _cases(runs.heres) if each.outcome != "skipped")
    if case.file:
        return case.id == case.file and any(each.file == case.file for each in cases)
    on_tip = _all(seen.ran for seen in runs.tip)
    return any(each.id not in on_tip for each in cases)


def _cases(runs: Sequence[Ran]) -> Iterator[ReportedCase]:
    """Yield the cases of tests: a missing finding is no loss."""
    return (case for ran in runs if ran.evidence.report and not ran.has_problems for case in ran.evidence.report.cases)


def _lack(runs: _Runs, waived: Collection[str]) -> str | None:
    """Return what the last run fails to show; None where nothing is missing."""
    last = runs.heres[-1].evidence
    if last.tests == 0 and "no_tests" not in waived:
        return "it ran no test; a check that is there to run none says `waive: [no_tests]`"
    tips = [ran.evidence for ran in runs.tips]
    if last.report is None and any(tip.report is not None for tip in tips):
        return f"it ended with {runs.heres[-1].status}{_lost_report(last)}"
    if lost := _lost_runners(runs):
        return f"it ended with {runs.heres[-1].status} without a word of {', '.join(lost)}, which spoke on the target"
    return None


def _lost_runners(runs: _Runs) -> tuple[str, ...]:
    """
    Return the runners that no longer show up. On a red tip some may stand in a failed test's output, so any one left
    will do.
    """
    here = set(runs.heres[-1].evidence.runners)
    clean = [ran.evidence.runners for ran, seen in zip(runs.tips, runs.tip, strict=True) if seen.clean]
    if clean:
        return tuple(sorted(set(clean[-1]) - here))
    spoke = {runner for ran in runs.tips for runner in ran.evidence.runners}
    return () if here else tuple(sorted(spoke))


def _tip_lacks_as_much(runs: _Runs) -> bool:
    return runs.heres[-1].evidence.tests == 0 and all(ran.evidence.tests == 0 for ran in runs.tips)


def _fewer(runs: _Runs) -> int:
    """Only by their numbers; where there are reports, vanished tests have names."""
    last, tip = runs.heres[-1].evidence, runs.tips[-1].evidence
    if last.report is not None or tip.report is not None or last.tests is None or tip.tests is None:
        return 0
    return max(0, tip.tests - last.tests)


def _all(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)


def _sorted(ids: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(ids))


def _named(ids: Collection[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(sorted(ids)[:_SHOWN]) + more
