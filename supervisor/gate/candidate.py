"""
One composed tree on its way through the gate: scans, then checks, then the checks with the target's own tests.

Each stage is reached only by what the one before let through.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forgepool.supervisor.checks.certificates import Inputs
from forgepool.supervisor.checks.non_voting import advice
from forgepool.supervisor.checks.results.protected import commit_of, excuse_of, protect_tree
from forgepool.supervisor.checks.results.touched import covers, free_touched, owners_of
from forgepool.supervisor.checks.running import CheckProgress
from forgepool.supervisor.checks.runs import CheckRuns, Untold
from forgepool.supervisor.checks.sibling_tests import find_failing
from forgepool.supervisor.checks.trial import Sample, TrialFindings, try_checks
from forgepool.supervisor.gate.requirements import Demands
from forgepool.supervisor.gate.verdicts import keep_out, out
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest, EntryRef
from forgepool.supervisor.regeneration.kept import joint_patch_id
from forgepool.supervisor.regeneration.regenerate import Remaking
from forgepool.workers.policy.gate_file.document import as_check
from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.sandbox.layers import NoSandbox
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.workspace.refs import ensure_from_hub
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.subject import Subject, finding, printable
from forgepool.worktrees.checkouts.checkout import Unusable
from forgepool.worktrees.commits.changes import FileTooLarge
from forgepool.worktrees.commits.compose import Composed, ComposedStep, tree_of
from forgepool.worktrees.commits.diff import FileDiff, diff_tail, tree_diff
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.hub.hub import HubUnusable
from forgepool.worktrees.hub.mirror import MissingCommit

_NO_EVIDENCE = (
    *(GitFailed, MissingCommit, HubUnusable, Unusable, OSError, FileTooLarge),
    *(NoSandbox, HostsRefused, DocumentWrong, Untold),
)
"""Trouble that leaves further evidence out; where it stands in the way of the checks, these have told it."""
_ERROR_CHARACTERS = 200
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leave:
    """The paths a person lets the entries change, and those they declared; of several entries, those common to all."""

    grants: tuple[str, ...]
    holds: tuple[str, ...] | None
    waive: tuple[str, ...]


def _named(entry: EntryRef, findings: tuple[ScanFinding, ...]) -> tuple[ScanFinding, ...]:
    return tuple(one.model_copy(update={"entry": entry.task}) for one in findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedCandidate:
    """Entries, composed, and what is demanded of them."""

    request: CheckRequest
    demands: Demands
    composed: Composed
    runs: CheckRuns

    def make_verdict(self, blank: CheckResult) -> CheckResult:
        """
        Return the verdict; for an entry that is kept out, with the end of the diff.

        Raises:
            Untold: a check gave no answer, and no entry is at fault.
            NotConfigured: a check proves nothing, on the target neither.
        """
        from forgepool.workers.workspace.scans.scanning import scan

        subjects = self._subjects()
        found = [
            (entry, _named(entry, self._confirmed(at, scan(subjects[at]), subjects)))
            for at, entry in enumerate(self.request.spec)
        ]
        own = tuple(one for _, findings in found[len(self.request.ahead) :] for one in findings)
        self.runs.place.hear(CheckProgress(what="scanned"))
        patch = joint_patch_id(self._git, self._ground, self._own_steps, self.composed.tree)
        told = blank.model_copy(update={"patch_id": patch, "findings": own})
        result = self._scanned(found, told) or self._tried(subjects, told)
        return self._shown(result, subjects)

    def _confirmed(
        self, at: int, findings: tuple[ScanFinding, ...], subjects: list[Subject]
    ) -> tuple[ScanFinding, ...]:
        """Return the findings about an entry, once it is known which of its generated files the command made too."""
        from forgepool.workers.workspace.scans.scanning import OF_PATHS, scan

        held = {one.path for one in findings if one.rule in OF_PATHS and one.weight != "note"}
        subject, made = subjects[at], self.runs.regeneration
        if not isinstance(made, Remaking) or not held:
            return findings
        confirmed = made.find_confirmed(self._git, subject.base, subject.tree, held - subject.made)
        if not confirmed:
            return findings
        subjects[at] = replace(subject, made=subject.made | confirmed)
        return scan(subjects[at])

    def _scanned(
        self, found: Sequence[tuple[EntryRef, tuple[ScanFinding, ...]]], told: CheckResult
    ) -> CheckResult | None:
        """
        Return the verdict about the first entry that is kept out, those ahead included, since they may land with these.
        """
        from forgepool.workers.workspace.scans.scanning import find_kept_out as held_against

        for entry, findings in found:
            if held := held_against(findings, reviewed=self._looked_at(entry)):
                return keep_out(self.request, self.composed, held, told.model_copy(update={"about": entry.task}))
        return None

    def _looked_at(self, entry: EntryRef) -> bool:
        """It needs an approval before it lands."""
        own = entry in self.request.entries and self.demands.reviewed
        return own or entry.reviewed or self.demands.of_everybody

    def _subjects(self) -> list[Subject]:
        """One for each entry of the spec: what it changes where it stands."""
        from forgepool.workers.workspace.scans.scanning import subject_of

        scans, checks = self.demands.scans, self.demands.checks
        before = (CommitId(self.request.base), *(step.commit for step in self.composed.steps))
        subjects = [
            replace(
                subject_of(self._git, on, step.tree, entry, checks, scans),
                made=frozenset(step.made.paths if step.made else ()),
                makers=tuple(as_check(one) for one in self.demands.regenerate),
            )
            for on, step, entry in zip(before, self.composed.steps, self.request.spec, strict=False)
        ]
        styles = [entry.style or self.request.style for entry in self.request.spec]
        # What lands by squash brings its tree along, and none of its commits.
        return [
            replace(one, commit=None) if style == "squash" else one
            for one, style in zip(subjects, styles, strict=False)
        ]

    def _files(self, subjects: Sequence[Subject]) -> tuple[FileDiff, ...]:
        """All that the spec changes on the target, but for what each who changes it has a person's leave to."""
        if len(subjects) == 1:
            return subjects[0].files
        leaves: dict[str, list[bool]] = {}
        for entry, subject in zip(self.request.spec, subjects, strict=True):
            for file in subject.files:
                leaves.setdefault(file.path, []).append(covers(entry.grants, file.path))
        whole = tree_diff(self._git, CommitId(self.request.base), self.composed.tree)
        return tuple(file for file in whole if not all(leaves.get(file.path, [False])))

    def _bound(self, subjects: Sequence[Subject]) -> frozenset[str]:
        """Return the changed paths for which findings count: an agent's, and a person's where the target says so."""
        pairs = zip(self.request.spec, subjects, strict=True)
        files = [file for entry, subject in pairs if not self.demands.frees(entry) for file in subject.files]
        return frozenset(name for file in files for name in (file.path, file.old_path) if name is not None)

    def _shown(self, result: CheckResult, subjects: Sequence[Subject]) -> CheckResult:
        """
        Add the end of the diff to an entry that is kept out, and take secrets out of all texts: they are passed on.
        """
        from forgepool.workers.workspace.scans.content.secrets import find_secrets, hide_values

        if result.verdict == "green" and not result.advice:
            return result
        values = [each.value for subject in subjects for each in find_secrets(subject)]
        advice = tuple(one.model_copy(update={"log_tail": hide_values(one.log_tail, values)}) for one in result.advice)
        if result.verdict == "green":
            return result.model_copy(update={"advice": advice})
        tail = hide_values(diff_tail(self._git, self._ground, self.composed.tree), values)
        failures = tuple(
            one.model_copy(update={"log_tail": hide_values(one.log_tail, values)}) for one in result.failures
        )
        return result.model_copy(update={"diff_tail": tail, "failures": failures})

    def _tried(self, subjects: Sequence[Subject], blank: CheckResult) -> CheckResult:
        files, bound = self._files(subjects), self._bound(subjects)
        sample = self._sample(files, bound)
        found = try_checks(self.runs, sample)
        if not found.ended:
            judged = [file for file in files if not bound.isdisjoint((file.path, file.old_path or ""))]
            found = self._with_targets_tests(judged, sample, found)
        of_sibling = () if found.ended else self._show_sibling_tests(subjects)
        told = blank.model_copy(
            update={
                "findings": (*blank.findings, *found.findings, *of_sibling),
                "flaky": tuple(found.flaky),
                "red_base": tuple(found.red_base),
            }
        )
        if found.unseen:
            return keep_out(self.request, self.composed, found.findings, told)
        if found.out is not None:
            owned = {entry.task: one.files for entry, one in zip(self.request.spec, subjects, strict=True)}
            told = told.model_copy(update={"suspects": owners_of(found.out.cases, owned)})
            return out(self.request, self.composed, found, self.runs, told)
        said = advice(self.runs, self.composed.commit, self._inputs)
        green = {"verdict": "green", "certificates": tuple(found.certificates.values()), "advice": said}
        return told.model_copy(update=green)

    def _show_sibling_tests(self, subjects: Sequence[Subject]) -> tuple[ScanFinding, ...]:
        """Return what the tests of the entry's returned sibling say of it, for its reviewer; it keeps nothing out."""
        from forgepool.workers.workspace.scans.content.secrets import find_secrets, hide_values

        entry, place = self.request.entries[0], self.runs.place
        if len(self.request.entries) != 1 or entry.returned is None:
            return ()
        sibling = CommitId(entry.returned.commit)
        try:
            ensure_from_hub(place.mirror, sibling, entry.returned.ref, self.request.anchor)
            failing = find_failing(self.runs.checks, self.composed.tree, sibling, place, base=self.runs.tip)
        except _NO_EVIDENCE:
            return ()
        weight: Weight = "attention" if self._looked_at(entry) else "note"
        values = [each.value for subject in subjects for each in find_secrets(subject)]
        return tuple(
            finding(
                "sibling-tests",
                weight,
                f"'{printable(hide_values(case.id, values))}', a test that attempt {entry.returned.attempt} wrote, "
                "passes on that attempt's work and fails on this one; that work was returned, so the test may be wrong",
                case.file,
                text=hide_values(case.error, values)[:_ERROR_CHARACTERS],
            ).model_copy(update={"entry": entry.task})
            for case in failing[:_MOST_SHOWN]
        )

    def _sample(self, files: Sequence[FileDiff], bound: frozenset[str]) -> Sample:
        leave, entries = self._leave, self.request.spec
        free = all(self.demands.frees(entry) for entry in entries)
        excuse = excuse_of(files, leave.grants, leave.holds, leave.waive)
        return Sample(
            commit=self.composed.commit,
            inputs=self._inputs,
            host=self.runs.place.settings.host,
            excuse=replace(excuse, touched=free_touched(excuse.touched, bound), free=free),
            granted=any(covers(leave.grants, file.path) for file in files),
            looked_at=all(self._looked_at(entry) or self.demands.frees(entry) for entry in entries),
            entry=entries[0].task if len(entries) == 1 else "",
        )

    def _with_targets_tests(self, files: Sequence[FileDiff], own: Sample, found: TrialFindings) -> TrialFindings:
        """The same once more where an agent changes what it is judged by: under the target's tests and settings."""
        leave, checks, target = self._leave, self.runs.checks, CommitId(self.request.base)
        guarded = protect_tree(self._git, target, self.composed.tree, files, checks, leave.grants, leave.holds)
        if guarded is None:
            return found
        sample = replace(
            own,
            commit=commit_of(self._git, target, guarded.tree),
            inputs=Inputs(git=self._git, tree=guarded.tree, checks=checks),
            label="protected",
            guarded=guarded,
        )
        under = try_checks(self._runs_on_target(), sample)
        return replace(
            under,
            certificates=found.certificates,
            flaky=[*found.flaky, *under.flaky],
            red_base=found.red_base,
            findings=[*found.findings, *under.findings],
        )

    def _runs_on_target(self) -> CheckRuns:
        """Under the target's tests the tree is judged by the target, whatever stands ahead; none of its red excuses."""
        target = CommitId(self.request.base)
        if self.runs.tip == target:
            return self.runs
        at_target = Inputs(git=self._git, tree=tree_of(self._git, target), checks=self.runs.checks)
        return replace(self.runs, tip=target, at_tip=at_target, guessed=True, _tips={})

    @property
    def _leave(self) -> _Leave:
        entries = self.request.spec
        if len(entries) == 1:
            return _Leave(grants=entries[0].grants, holds=entries[0].holds, waive=entries[0].waive)
        bound = [entry for entry in entries if not self.demands.frees(entry)]
        declared = [entry.holds for entry in bound if entry.holds is not None]
        holds = tuple(glob for globs in declared for glob in globs) if len(declared) == len(bound) else None
        return _Leave(grants=(), holds=holds, waive=())

    @property
    def _own_steps(self) -> tuple[ComposedStep, ...]:
        """Return the steps of the request's entries, without those ahead."""
        return self.composed.steps[len(self.request.ahead) :]

    @property
    def _inputs(self) -> Inputs:
        return Inputs(git=self._git, tree=self.composed.tree, checks=self.runs.checks)

    @property
    def _git(self) -> Git:
        return self.runs.place.mirror.git

    @property
    def _ground(self) -> CommitId:
        """Return the commit the entries are composed on: the tip, with those ahead of them."""
        return self.composed.after(len(self.request.ahead), base=CommitId(self.request.base))
