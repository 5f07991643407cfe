"""
The source of the runs that a candidate is judged by: commands, or this host's memory of earlier ones.

A remembered run of the target's tip spares one for every entry: the tip was tested when it was a candidate. For the
composed tree only green runs are remembered. As soon as something is red there, the tip runs again with every set-up,
whatever is remembered. The host may have changed since (a tool gone, a disk full, a kept folder grown old), and that is
not the entry's failure. One red spares this run: every test of the tip passed in it, and only new tests failed.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from forgepool.supervisor.checks.certificates import Inputs, certificate_key, definition_digest
from forgepool.supervisor.checks.results.failures import untold
from forgepool.supervisor.checks.results.judging import Ran
from forgepool.supervisor.checks.running import CheckPlace, Selection, TriedCheck, run_line
from forgepool.supervisor.checks.store import Store, StoredResult, is_green
from forgepool.supervisor.checks.traced.proofs import Proofs, Spared, TreeFiles, choose_spared
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.workspace.checks.lines import label_of, line_of
from forgepool.worktrees.commits.compose import Regeneration
from forgepool.worktrees.git.git import CommitId, without_password


class Untold(Exception):
    """A check gave no answer about its tree, and no entry is at fault; one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRuns:
    """The runs of one request's checks, on the target's tip and on one tree."""

    place: CheckPlace
    store: Store
    checks: Sequence[CheckDefinition]
    environment: str
    tip: CommitId
    """The commit the tree is judged by: the target's tip, or what is to land before it."""
    at_tip: Inputs
    grounds: Sequence[Inputs] = ()
    """The inputs of the target, and of the target after each landing that comes before the tree."""
    anew: bool = False
    """Nothing remembered counts."""
    hasty: bool = False
    """One red of the tree, and a remembered run of the tip, are enough: the verdict decides about no entry."""
    guessed: bool = False
    """Others are to land between the tip and the tree, and are unknown: the tip's red excuses no entry."""
    doubt: Callable[[], None] = lambda: None
    """Called when the tree was red once, and is to be run again; it may be called more than once."""
    regeneration: Regeneration | None = None
    """By which the tree was composed, and by which it is composed on other landings."""
    _tips: dict[str, Ran] = field(default_factory=dict, repr=False)
    """The runs of the tip for this very request."""
    _foreign: set[str] = field(default_factory=set, repr=False)
    """The checks whose run of the tip is another host's."""

    def key(self, check: CheckDefinition, inputs: Inputs) -> str:
        definition = definition_digest(check, self.checks)
        return certificate_key(check.name, definition, self.environment, inputs.of(check))

    def cost(self, check: CheckDefinition) -> float | None:
        return self.store.cost(definition_digest(check, self.checks))

    def keep(self, check: CheckDefinition, inputs: Inputs, ran: Ran, seconds: float, traced: str = "") -> None:
        self.store.keep(self.key(check, inputs), ran, seconds, traced)

    def find_remembered(self, check: CheckDefinition, inputs: Inputs) -> StoredResult | None:
        return None if self.anew else self.store.find(self.key(check, inputs))

    def proofs(self, check: CheckDefinition) -> Proofs:
        """Return what is known of this repository's test files from traces of the target's own tip."""
        return self.store.proofs(self._proofs_key(check))

    def keep_proofs(self, check: CheckDefinition, proofs: Proofs) -> None:
        self.store.keep_proofs(self._proofs_key(check), proofs)

    def _find_spared(self, line: Sequence[CheckDefinition], inputs: Inputs | None) -> Spared | None:
        """Return the test files that need not be run in a tree for the only check of a line; None where all are."""
        check = line[0]
        if inputs is None or len(line) > 1 or self.anew or not check.traced:
            return None
        if not (proofs := self.proofs(check)).files:
            return None
        return choose_spared(proofs, TreeFiles(inputs.records()), inputs.tree)

    def _proofs_key(self, check: CheckDefinition) -> str:
        definition, repository = definition_digest(check, self.checks), without_password(self.place.mirror.hub)
        return certificate_key(check.name, definition, self.environment, "traced", (repository,))

    def flaky(self, check: CheckDefinition) -> frozenset[str]:
        """Return the check's tests that have been red and green on one tree before, as far as this host remembers."""
        return self.store.flaky(definition_digest(check, self.checks))

    def keep_flaky(self, check: CheckDefinition, tests: Collection[str]) -> None:
        if tests:
            self.store.keep_flaky(definition_digest(check, self.checks), tests)

    def of_tip(self, check: CheckDefinition, line: Sequence[CheckDefinition]) -> Ran:
        """Return the check's run on the tip: remembered, or from running the line there, once."""
        if check.name not in self._tips:
            said = self.find_remembered(check, self.at_tip)
            self._tips.update(self._on_tip(line) if said is None else {check.name: said.ran})
            if said is not None and said.host:
                self._foreign.add(check.name)
        return self._tips[check.name]

    def has_foreign_tip(self, check: CheckDefinition) -> bool:
        """Tell whether the check's run on the tip is another host's, which may have other programs."""
        return check.name in self._foreign

    def own_tip(self, check: CheckDefinition, line: Sequence[CheckDefinition]) -> Ran:
        """Run the line on the tip on this host, and return the check's run; the other host's where it crashed here."""
        found = self._on_tip(line)
        told = {name: ran for name, ran in found.items() if _tells(ran)}
        self._tips.update(found | self._tips | told)
        self._foreign.difference_update(each.name for each in line)
        return self._tips[check.name]

    def tip_anew(self, check: CheckDefinition, *, label: str, past: Collection[str]) -> TriedCheck:
        """The check on the tip, behind what it uses; where that is red there, that is what is told."""
        found = self.run(line_of(check, self.checks), self.tip, label=label, past=past)
        for one in found:
            self.keep(one.check, self.at_tip, one.ran, one.seconds)
        return found[-1]

    def _on_tip(self, line: Sequence[CheckDefinition]) -> dict[str, Ran]:
        found = self.run(line, self.tip, label="base", base=self.tip)
        for one in found:
            # A crash here is not remembered in place of what another host has seen.
            if one.check.name not in self._foreign or _tells(one.ran):
                self.keep(one.check, self.at_tip, one.ran, one.seconds)
        # Behind a red one nothing was run: of the rest is only known that it does not come to be green.
        red = Ran(how=found[-1].ran.how, status=found[-1].ran.status)
        return {check.name: red for check in line} | {one.check.name: one.ran for one in found}

    def run(
        self,
        line: Sequence[CheckDefinition],
        commit: CommitId,
        *,
        label: str,
        base: CommitId | None = None,
        past: Collection[str] = (),
        spare_on: Inputs | None = None,
    ) -> tuple[TriedCheck, ...]:
        """
        The checks of a line, run. Test files that are proven green on `spare_on`, the inputs of the commit, are not.

        Raises:
            Untold: one of them was stopped, or could not be started.
        """
        if self.place.stop():
            raise Untold("stopped before the checks had ended")
        if (spared := self._find_spared(line, spare_on)) is not None and spared.all:
            ran, traced = spared.stand_in(), spared.words
            return (TriedCheck(check=line[0], ran=ran, failure=None, seconds=0.0, tail="", log="", traced=traced),)
        selection = None if spared is None else Selection(left_out=tuple(spared.proofs))
        label = label_of(label, line)
        found = run_line(line, commit, self.place, label=label, base=base, past=past, selection=selection)
        for one in found:
            if one.failure is not None and (nothing := untold(one.failure)) is not None:
                raise Untold(nothing)
            if spared is None:
                self.store.keep_cost(definition_digest(one.check, self.checks), one.seconds)
        if spared is None:
            return found
        return tuple(replace(one, ran=spared.complete(one.ran), traced=spared.words) for one in found)


def _tells(ran: Ran) -> bool:
    """Tell whether a run of the tip shows what runs there: it ended well, or has a report."""
    return is_green(ran) or ran.evidence.report is not None
