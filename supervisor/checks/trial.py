"""
Tests a composed tree by all checks: runs them, has their runs judged against the target's tip, and earns certificates.

Green needs evidence. Red must come twice and be new; it is never remembered, nor turned green by memory. The first
check that keeps the entry out ends the trial.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from forgepool.supervisor.checks.certificates import Inputs, certify, describe_failures
from forgepool.supervisor.checks.results.failures import find_cases, list_problems, missing_program
from forgepool.supervisor.checks.results.judging import CheckJudgement, Excuse, Ran, judge, shows_a_sound_host
from forgepool.supervisor.checks.results.problems import with_names_of
from forgepool.supervisor.checks.results.protected import GuardedTree, weigh
from forgepool.supervisor.checks.results.reports import ReportedCase
from forgepool.supervisor.checks.running import TriedCheck
from forgepool.supervisor.checks.runs import CheckRuns
from forgepool.supervisor.checks.store import StoredResult, is_green
from forgepool.supervisor.checks.traced.tracing import note_misses
from forgepool.supervisor.messages.answers import Certificate, CheckFailure, Flake
from forgepool.workers.policy.gate_file.document import CheckDefinition, NotConfigured, voting
from forgepool.workers.workspace.checks.lines import CheckGroup, line_of, lines_of
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.worktrees.commits.diff import renames
from forgepool.worktrees.git.git import CommitId, TreeId

_LOOPS = 3
"""The times a line is begun again because a check in it was flaky, before that counts as red."""
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The tree under test."""

    commit: CommitId
    inputs: Inputs
    host: str
    excuse: Excuse | None = None
    """Tests that may be gone from it."""
    granted: bool = False
    """A person lets it change some of what it changes."""
    looked_at: bool = False
    """It lands after an approval, or is a person's: what wants to be looked at is let through."""
    entry: str = ""
    """The entry that is tried, where it is one."""
    label: str = "composed"
    guarded: GuardedTree | None = None
    """The tests and settings in it that are the target's, though the entry changes them; None: all is the entry's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOutBy:
    """A check that keeps the entry out, and how."""

    check: CheckDefinition
    judgement: CheckJudgement
    failure: CheckFailure
    """For `tip_red` the target's own failure, otherwise that of the deciding run."""
    cases: tuple[ReportedCase, ...] = ()
    """The tests that failed here and not on the tip, as the deciding run reports them; none if it misses one."""


@dataclass(slots=True, kw_only=True)
class TrialFindings:
    """The findings of a trial so far."""

    certificates: dict[str, Certificate] = field(default_factory=dict)
    excused: set[str] = field(default_factory=set)
    """Checks that are red here as they are on the tip, or as they may be, and so count against no entry."""
    flaky: list[Flake] = field(default_factory=list)
    red_base: list[str] = field(default_factory=list)
    findings: list[ScanFinding] = field(default_factory=list)
    """Findings that need a look by a reviewer or a person."""
    unseen: bool = False
    """True if there will be no such look, so that the entry is kept out."""
    out: KeptOutBy | None = None

    @property
    def ended(self) -> bool:
        return self.unseen or self.out is not None


def try_checks(runs: CheckRuns, sample: Sample) -> TrialFindings:
    """
    Run all checks on the sample, cheapest first, until one keeps it out.

    Raises:
        Untold: a check gave no answer, and no entry is at fault.
        NotConfigured: a check's program is missing, on the target as well.
    """
    trial = _Trial(runs=runs, sample=sample)
    for line in lines_of(voting(runs.checks), runs.cost):
        trial.try_line(line)
        if trial.found.ended:
            break
    return trial.found


@dataclass(slots=True, kw_only=True)
class _Trial:
    runs: CheckRuns
    sample: Sample
    found: TrialFindings = field(default_factory=TrialFindings)
    names: dict[TreeId, dict[str, str]] = field(default_factory=dict)
    """By an earlier tree: its files that have another name in what is tried."""

    def try_line(self, line: CheckGroup) -> None:
        for check in line.checks:
            if check.name in line.decides:
                self._reuse(check, line)
        label = self.sample.label
        for number in range(_LOOPS):
            left = [at for at, check in enumerate(line.checks, start=1) if self._is_left(check, line)]
            if not left or self.found.ended:
                return
            # From the first failure on every set-up is run.
            base = None if number else self.runs.tip
            for one in self._run(line.checks[: left[-1]], label, base, spare=not number):
                self._take(one, line, last=number == _LOOPS - 1)
            label = f"{self.sample.label}-anew-{number + 1}"

    def _is_left(self, check: CheckDefinition, line: CheckGroup) -> bool:
        return check.name in line.decides and check.name not in self.found.certificates

    def _run(
        self, checks: tuple[CheckDefinition, ...], label: str, base: CommitId | None = None, *, spare: bool = False
    ) -> tuple[TriedCheck, ...]:
        """Run checks on the sample; those that are repeated run whole, since a test may need others before it."""
        on = self.sample.inputs if spare else None
        return self.runs.run(checks, self.sample.commit, label=label, base=base, past=self.found.excused, spare_on=on)

    def _reuse(self, check: CheckDefinition, line: CheckGroup) -> None:
        """Take a remembered green if it shows as much as the tip does now."""
        said = self.runs.find_remembered(check, self.sample.inputs)
        if said is None or not is_green(said.ran):
            return
        judgement = self._judge_green(check, line, said.ran)
        shows_less = self._wants_a_look(judgement) and (bool(said.host) or not self.sample.looked_at)
        if judgement.verdict == "green" and not shows_less:
            host = said.host or self.sample.host
            self._certify(check, judgement, said.ran, said.seconds, reused_of=host, traced=said.traced)

    def _judge_green(self, check: CheckDefinition, line: CheckGroup, ran: Ran) -> CheckJudgement:
        """Judge a green run. Where it shows less than another host's run of the tip, the tip is run here as well."""
        judgement = self._judge(check, self.runs.of_tip(check, line.checks), ran)
        if judgement.verdict == "green" and not self._wants_a_look(judgement):
            return judgement
        if not self.runs.has_foreign_tip(check):
            return judgement
        return self._judge(check, self.runs.own_tip(check, line.checks), ran)

    def _take(self, one: TriedCheck, line: CheckGroup, *, last: bool) -> None:
        """Record a run. For a check that runs for another's sake, only a red that blocks that one is recorded."""
        in_the_way = one.failure is not None and one.check.name not in self.found.excused
        if self.found.ended or not (self._is_left(one.check, line) or in_the_way):
            return
        if one.failure is None:
            judgement = self._judge_green(one.check, line, one.ran)
            if judgement.verdict == "green":
                self._pass(one, judgement)
                return
        decisive, judgement, on_tip = self._settle(one)
        if judgement.verdict in ("green", "known") and last and in_the_way:
            said = f"was red each of {_LOOPS} times that what uses it was to be run"
            judgement, decisive = CheckJudgement(verdict="red", said=said), one
        match judgement.verdict:
            case "green" | "known":
                self._pass(decisive, judgement)
            case "tip_red":
                self._keep_out(on_tip, judgement)
            case _ if self.sample.guarded is not None:
                self._weigh(decisive, judgement, on_tip, self.sample.guarded)
            case _:
                self._keep_out(decisive, judgement)

    def _settle(self, one: TriedCheck) -> tuple[TriedCheck, CheckJudgement, TriedCheck]:
        """
        Settle a run that is not plainly green: return the deciding run, its judgement, and the tip's run, made as
        needed.
        """
        check = one.check
        if self.runs.hasty:
            return self._settle_hastily(one)
        before = self.runs.find_remembered(check, self.runs.at_tip)
        if one.failure is not None and before is not None and is_green(before.ran):
            self.runs.doubt()
        on_tip = self._on_tip(one, before)
        if one.failure is not None and (why := missing_program(on_tip.failure, " on the target itself")) is not None:
            raise NotConfigured(why)
        decisive, tip_again = one, None
        judgement = self._judge(check, on_tip.ran, one.ran)
        if judgement.verdict == "tip_again":
            # An earlier run of the same tip that was red as well is a second time.
            tip_again = self._tip_again(check) if before is None or is_green(before.ran) else before.ran
            judgement = self._judge(check, on_tip.ran, one.ran, None, tip_again)
        if judgement.verdict == "again":
            self.runs.doubt()
            decisive = self._run(line_of(check, self.runs.checks), self._word("again"))[-1]
            judgement = self._judge(check, on_tip.ran, one.ran, decisive.ran, tip_again)
            if on_tip.reused and decisive.failure is not None and not shows_a_sound_host(on_tip.ran, decisive.ran):
                # The host was sound at the first run; it may have broken since.
                on_tip = self.runs.tip_anew(check, label=self._word("base"), past=self.found.excused)
                judgement = self._judge(check, on_tip.ran, one.ran, decisive.ran, tip_again)
                if judgement.verdict == "tip_again":
                    judgement = self._judge(check, on_tip.ran, one.ran, decisive.ran, self._tip_again(check))
        return decisive, judgement, on_tip

    def _on_tip(self, one: TriedCheck, before: StoredResult | None) -> TriedCheck:
        """
        Run the check on the tip again, since the host may have changed, unless the failing run shows a sound host.

        It does when every test of the tip has passed in it. The tests that fail are then new, and another run of the
        tip could say nothing about them.
        """
        check = one.check
        if before is not None and not one.traced and shows_a_sound_host(before.ran, one.ran):
            return TriedCheck(
                check=check, ran=before.ran, failure=None, seconds=before.seconds, tail="", log="", reused=True
            )
        return self.runs.tip_anew(check, label=self._word("base"), past=self.found.excused)

    def _settle_hastily(self, one: TriedCheck) -> tuple[TriedCheck, CheckJudgement, TriedCheck]:
        """
        Take one red for red, as long as the tip is not red: no entry is blamed before its decisive trial.

        Where all that failed are tests that have flaked here before, the check is run again first.
        """
        tip = self.runs.of_tip(one.check, line_of(one.check, self.runs.checks))
        # A linter's word holds when it is said once; a test that failed once may be a flake.
        tip_again = tip if tip.has_problems else None
        judgement, decisive = self._judge(one.check, tip, one.ran, None, tip_again), one
        if judgement.verdict == "again" and judgement.new and self.runs.flaky(one.check).issuperset(judgement.new):
            decisive = self._run(line_of(one.check, self.runs.checks), self._word("again"))[-1]
            judgement = self._judge(one.check, tip, one.ran, decisive.ran, tip_again)
        excused = judgement.verdict in ("known", "tip_red")
        if judgement.verdict == "known":
            # Those ahead may land together with it, so it must be no worse than the target itself, either.
            at_target = [ground.of(one.check) for ground in self.runs.grounds[:1]]
            excused = set(at_target) <= set(self._against(one.check, decisive.ran))
            judgement = judgement if excused else replace(judgement, verdict="red")
        if judgement.verdict in ("again", "tip_again") or (self.runs.guessed and excused):
            judgement = replace(judgement, verdict="red")
        return decisive, judgement, one

    def _against(self, check: CheckDefinition, ran: Ran) -> tuple[str, ...]:
        """Inputs of the tip, and of all grounds before it, which as far as this host remembers fail in as much."""
        found = [self.runs.at_tip.of(check)]
        for ground in self.runs.grounds:
            said = self.runs.find_remembered(check, ground)
            if said is not None and self._judge(check, said.ran, ran, None, said.ran, on=ground).verdict == "known":
                found.append(ground.of(check))
        return tuple(dict.fromkeys(found))

    def _tip_again(self, check: CheckDefinition) -> Ran:
        return self.runs.tip_anew(check, label=self._word("base-again"), past=self.found.excused).ran

    def _judge(
        self,
        check: CheckDefinition,
        tip: Ran,
        here: Ran,
        again: Ran | None = None,
        tip_again: Ran | None = None,
        *,
        on: Inputs | None = None,
    ) -> CheckJudgement:
        """Return the excuses that hold in this tree: the entry's own files that are not in it excuse nothing."""
        excuse = self.sample.excuse if self.sample.guarded is None else None
        tree = (on or self.runs.at_tip).tree
        tip, tip_again = self._renamed(tip, tree), self._renamed(tip_again, tree) if tip_again else None
        return judge(tip, here, again, tip_again, excuse=excuse, waived=check.waive)

    def _renamed(self, tip: Ran, tree: TreeId) -> Ran:
        """Findings of a run on this tree, under the names that their files have in what is tried."""
        report = tip.evidence.report
        if report is None or not report.problems:
            return tip
        if tree not in self.names:
            self.names[tree] = renames(self.sample.inputs.git, tree, self.sample.inputs.tree)
        renamed = with_names_of(report, self.names[tree])
        return tip.model_copy(update={"evidence": tip.evidence.model_copy(update={"report": renamed})})

    def _weigh(self, decisive: TriedCheck, judgement: CheckJudgement, on_tip: TriedCheck, guarded: GuardedTree) -> None:
        """The target's own tests fail: the entry may have had leave to change them."""
        weighed = weigh(judgement, on_tip.ran, decisive.ran, guarded, self.sample.excuse)
        if weighed.red or weighed.whole == "none":
            self._keep_out(decisive, replace(judgement, new=weighed.red or judgement.new))
            return
        if weighed.attention or weighed.whole == "held":
            tests = f" in {_named(weighed.attention)}" if weighed.attention else ""
            self._hold(f"check '{decisive.check.name}' fails{tests} with the tests that the target has, which it edits")
        self._certify(decisive.check, judgement, decisive.ran, decisive.seconds)
        self.found.excused.add(decisive.check.name)

    def _pass(self, decisive: TriedCheck, judgement: CheckJudgement) -> None:
        self.runs.keep(decisive.check, self.sample.inputs, decisive.ran, decisive.seconds, decisive.traced)
        self._certify(decisive.check, judgement, decisive.ran, decisive.seconds, traced=decisive.traced)
        if decisive.failure is not None:
            self.found.excused.add(decisive.check.name)

    def _wants_a_look(self, judgement: CheckJudgement) -> bool:
        return bool(judgement.attention) or (judgement.fewer > 0 and not self.sample.granted)

    def _hold(self, said: str) -> None:
        """It lands only after an approval; of a person's change it is merely told."""
        free = self.sample.excuse is not None and self.sample.excuse.free
        words = said if free else f"{said}; a reviewer or a person must look at it"
        found = ScanFinding(
            rule="tests-changed",
            path="",
            weight="note" if free else "attention",
            said=words,
            entry=self.sample.entry,
        )
        self.found.findings.append(found)
        self.found.unseen = not self.sample.looked_at

    def _certify(
        self,
        check: CheckDefinition,
        judgement: CheckJudgement,
        ran: Ran,
        seconds: float,
        *,
        reused_of: str = "",
        **more: object,
    ) -> None:
        certificate = certify(
            check,
            self.runs.checks,
            inputs=self.sample.inputs.of(check),
            environment=self.runs.environment,
            seconds=seconds,
            host=reused_of or self.sample.host,
            known=judgement.known,
            findings=len(judgement.known) if ran.has_problems else 0,
            against=self._against(check, ran) if judgement.known else (),
        )
        more |= {"tests": ran.evidence.tests, "reused": bool(reused_of)}
        self.found.certificates[check.name] = certificate.model_copy(update=more)
        self._note_flakes(check, judgement)
        self.found.red_base += [each for each in describe_failures(certificate) if each not in self.found.red_base]
        if self._wants_a_look(judgement):
            self._hold(f"check '{check.name}' {_lacking(judgement)}")

    def _note_flakes(self, check: CheckDefinition, judgement: CheckJudgement) -> None:
        self.found.flaky += _flakes(check, judgement)
        self.runs.keep_flaky(check, judgement.flaky)

    def _keep_out(self, shown: TriedCheck, judgement: CheckJudgement) -> None:
        self._note_flakes(shown.check, judgement)
        if not self.runs.hasty and judgement.verdict == "red":
            note_misses(shown.check, self.runs, self.sample.inputs, judgement.new)
        failure = _failure(shown, judgement, protected=self.sample.guarded is not None)
        cases = find_cases(shown.ran, judgement.new)
        self.found.out = KeptOutBy(check=shown.check, judgement=judgement, failure=failure, cases=cases)

    def _word(self, word: str) -> str:
        return word if self.sample.guarded is None else f"{self.sample.label}-{word}"


def _lacking(judgement: CheckJudgement) -> str:
    if judgement.attention:
        return f"no longer runs {_named(judgement.attention)}, which ran on the target"
    return f"runs {judgement.fewer} fewer tests than on the target"


def _named(tests: Sequence[str]) -> str:
    more = f" and {len(tests) - _SHOWN} more" if len(tests) > _SHOWN else ""
    return ", ".join(tests[:_SHOWN]) + more


def _flakes(check: CheckDefinition, judgement: CheckJudgement) -> list[Flake]:
    shaky = judgement.flaked or judgement.flaky
    return [Flake(check=check.name, tests=judgement.flaky)] if shaky else []


def _failure(shown: TriedCheck, judgement: CheckJudgement, *, protected: bool) -> CheckFailure:
    """Also of a run that ended well, and is held against the entry all the same."""
    failure = shown.failure or CheckFailure(
        check=shown.check.name, how="no_evidence", status=shown.ran.status, log_tail=shown.tail, log=shown.log
    )
    more: dict[str, object] = {"tests": judgement.new, "protected": protected}
    if shown.ran.has_problems and judgement.new:
        more["problems"] = list_problems(shown.ran, judgement)
    elif shown.check.baseline is not None and shown.ran.evidence.faults:
        more["reason"] = shown.ran.evidence.faults[0]
    if failure.how == "no_evidence" or judgement.verdict == "no_evidence":
        more |= {"how": "no_evidence", "reason": judgement.said}
    return failure.model_copy(update=more)
