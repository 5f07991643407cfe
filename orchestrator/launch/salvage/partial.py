"""
The largest part of an attempt's work that the gate lets in: the search of `search`, answered by the gate itself.

Each set of hunks becomes one commit on the target's tip, in this host's mirror alone, and is scanned and checked as a
candidate is. Only the reviews are left to the queue that the result is submitted to.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.launch.preflight import check_tip
from forgepool.orchestrator.launch.salvage.search import PartRelations, Parts, PartsVerdict, find_green
from forgepool.orchestrator.launch.salvage.work import SalvagedWork, message_of_work
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.task import TaskState
from forgepool.supervisor.checks.running import CheckProgress
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import Author, CheckRequest, EntryRef
from forgepool.workers.policy.gate_file.document import GateFile
from forgepool.workers.policy.gate_file.reading import read_gate
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.scans.scanning import subject_of
from forgepool.workers.workspace.screening import why_unpushable
from forgepool.worktrees.commits.candidate import commit_candidate
from forgepool.worktrees.commits.compose import Composed, Entry, Merged, compose, tree_of
from forgepool.worktrees.commits.hunks import ChangePart, find_parts_at, split, tree_of_parts
from forgepool.worktrees.git.git import CommitId, Git
from forgepool.worktrees.git.history import read_commit

MOST_RUNS = 40
_MAY_LIE_S = 3600.0
Ending = Literal["complete", "limit", "interrupted", "trouble"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateWord:
    """The gate's answer on one set of hunks."""

    verdict: PartsVerdict
    why: str = ""
    """One sentence of a set that is not green."""
    failing: str = ""
    """The check that failed; empty where a scan kept the set out."""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A part of the work that is not in the result."""

    place: str
    why: str
    command: str = ""
    """The command that fails with it; empty where a scan or a conflict keeps it out."""
    log: str = ""


class _TargetWins:
    """Takes the target's version of each file that both sides changed in the same place."""

    def is_made(self, path: str) -> bool:
        return True

    def remade(self, git: Git, merged: Merged) -> None:
        return None


@dataclass(slots=True, kw_only=True)
class PartialSearch:
    """The search for the largest green set of one work's hunks, and what it has found so far."""

    run: KeptRun
    work: SalvagedWork
    request: CheckRequest
    parts: tuple[ChangePart, ...]
    conflicts: tuple[str, ...]
    """Files that are not searched, since they conflict with the target."""
    most_runs: int
    runs: int = 0
    commands: int = 0
    """Check commands begun, also on the target's tip."""
    best: Parts = frozenset()
    ended: Ending = "complete"
    trouble: str = ""
    _known: dict[Parts, GateWord] = field(default_factory=dict)

    @property
    def share(self) -> str:
        return f"{len(self.best)} of {count_of(len(self.parts), 'hunk')}"

    @property
    def effort(self) -> str:
        return f"{count_of(self.runs, 'run')} of the gate with {count_of(self.commands, 'check command')}"

    def search(self, settings: Settings, *, stop: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """
        Search until the end, the limit, a stop or a failure of this host.

        Raises:
            CannotRun: the target itself is red, or its checks are not configured.
        """
        relations = PartRelations(names=[part.names for part in self.parts], files=[part.path for part in self.parts])
        search = find_green(relations)
        try:
            asked = next(search)
            while (word := self._ask(asked, settings, stop, tell)) is not None:
                asked = search.send(word.verdict)
        except StopIteration:
            self.ended = "complete"
        if self.ended == "complete" and not self.best:
            self._require_green_target(settings, stop)

    def result(self) -> SalvagedWork:
        """Return the best set as one commit on the target's tip, which may be pushed even if the whole may not."""
        commit = self._commit(self.best, f"; {self.share}")
        gate, (entry,) = self._gate, self.request.entries
        subject = subject_of(self._git, self.tip, tree_of(self._git, commit), entry, gate.checks, gate.scans)
        kept = replace(self.work.kept, withheld=why_unpushable(subject))
        return SalvagedWork(hub=self.work.hub, kept=kept, base=self.tip, commit=commit)

    def list_left_out(self) -> list[LeftOut]:
        """Return the parts that are not in the best set, each with the reason that says most about it alone."""
        checks = {check.name: check.run for check in self._gate.checks}
        found = [LeftOut(place=path, why="conflicts with the target") for path in self.conflicts]
        for at, part in enumerate(self.parts):
            if at in self.best:
                continue
            asked = [one for one, word in self._known.items() if at in one and not word.verdict.green]
            if not asked:
                found.append(LeftOut(place=part.place, why="not tried"))
                continue
            word = self._known[min(asked, key=lambda one: (len(one - self.best), -len(one)))]
            command = checks.get(word.failing, "")
            found.append(LeftOut(place=part.place, why=word.why, command=command, log=word.log))
        return found

    def _require_green_target(self, settings: Settings, stop: Callable[[], bool]) -> None:
        """Raise CannotRun where the target fails its own checks: then nothing that is put on it can be green."""
        request, hub = self.request, self.work.hub
        tip = check_tip(hub, self.tip, request.target, settings, plan_checks=request.plan_checks, stop=stop)
        if tip.verdict == "base_red":
            raise CannotRun(f"no hunk can be judged: {tip.detail}")

    def _ask(
        self, asked: Parts, settings: Settings, stop: Callable[[], bool], tell: Callable[[str], None]
    ) -> GateWord | None:
        """Return the gate's answer, from memory if there is one; None where the search ends without it."""
        if (known := self._known.get(asked)) is not None:
            return known
        if self.runs >= self.most_runs:
            self.ended = "limit"
            return None
        self.runs += 1
        result = self._examine(asked, settings, stop)
        if stop():
            self.ended = "interrupted"
            return None
        if result.verdict in ("base_red", "not_configured"):
            raise CannotRun(f"no hunk can be judged: {result.detail}")
        if result.verdict == "infrastructure":
            self.ended, self.trouble = "trouble", result.detail
            return None
        word = self._known[asked] = self._word(asked, result)
        if word.verdict.green and len(asked) > len(self.best):
            self.best = asked
        told = "green" if word.verdict.green else word.why
        tell(f"run {self.runs}: {len(asked)} of {count_of(len(self.parts), 'hunk')}: {told}")
        return word

    def _examine(self, asked: Parts, settings: Settings, stop: Callable[[], bool]) -> CheckResult:
        from forgepool.supervisor.gate.check_entry import examine

        def count(progress: CheckProgress) -> None:
            self.commands += progress.what == "begun"

        now = time.time()
        (entry,) = self.request.entries
        fields = {
            "request_id": f"{self.request.request_id}-{self.runs}",
            "entries": (entry.model_copy(update={"commit": self._commit(asked)}),),
            "issued_at": now,
            "start_by": now + _MAY_LIE_S,
        }
        return examine(self.request.model_copy(update=fields), settings, stop=stop, hear=count)

    def _word(self, asked: Parts, result: CheckResult) -> GateWord:
        chosen = sorted(asked)
        named = [self.parts[at] for at in chosen]
        places = [(one.path, one.line) for one in result.findings if one.weight != "note"]
        blamed = frozenset(chosen[at] for path, line in places for at in find_parts_at(named, path, line))
        green = result.verdict == "green"
        failure = next(iter(result.failures), None)
        return GateWord(
            verdict=PartsVerdict(green=green, blamed=blamed if result.verdict == "findings" else Parts()),
            why="" if green else result.detail or result.verdict,
            failing="" if failure is None else failure.check,
            log="" if failure is None else failure.log,
        )

    def _commit(self, chosen: Parts, more: str = "") -> CommitId:
        tree = tree_of_parts(self._git, self.tip, [self.parts[at] for at in sorted(chosen)])
        (entry,) = self.request.entries
        message = message_of_work(self.run, entry.task, self.work.kept, more)
        at = read_commit(self._git, CommitId(self.work.kept.commit)).at
        return commit_candidate(self._git, base=self.tip, tree=tree, message=message, at=at)

    @property
    def _gate(self) -> GateFile:
        return read_gate(self._git, self.tip, self.request.plan_checks)

    @property
    def tip(self) -> CommitId:
        return CommitId(self.request.base)

    @property
    def _git(self) -> Git:
        return self.work.git


def open_search(
    run: KeptRun, task: TaskState, work: SalvagedWork, author: Author, most_runs: int = MOST_RUNS
) -> PartialSearch:
    """
    Take the work apart on the target's tip.

    Raises:
        CannotRun: nothing of it is left there, or the plan has no checks that could tell its hunks apart.
    """
    if run.plan.checks == "none":
        raise CannotRun(
            f"plan {run.plan.name} has no checks (`checks: none`), so nothing tells which hunks are good; get the "
            f"whole work: forgepool salvage {run.options.run} {task.id} --branch NAME"
        )
    git, tip, commit = work.git, work.hub.tip_for(run.plan), CommitId(work.kept.commit)
    message = message_of_work(run, task.id, work.kept)
    composed = compose(git, tip, [Entry(commit=commit, name=task.id, message=message)], "squash", _TargetWins())
    parts: Sequence[ChangePart] = ()
    if isinstance(composed, Composed):
        parts = split(git, tip, composed.tree)
    conflicts = composed.steps[-1].put_back if isinstance(composed, Composed) else composed.paths
    if not parts:
        why = f"conflicts with it in {', '.join(conflicts)}" if conflicts else "is in it already"
        raise CannotRun(f"{run.options.target} can take nothing of the work of task '{task.id}', which {why}")
    return PartialSearch(
        run=run,
        work=work,
        request=_request(run, task, work, author, tip),
        parts=tuple(parts),
        conflicts=conflicts,
        most_runs=most_runs,
    )


def _request(run: KeptRun, task: TaskState, work: SalvagedWork, author: Author, tip: CommitId) -> CheckRequest:
    """
    Return the question without a commit.

    Nothing is granted or waived, as the queue that the result is submitted to does not know what the plan permits.
    """
    plan, planned, now = run.plan, run.course.tasks[task.id], time.time()
    entry = EntryRef(
        task=task.id,
        attempt=work.kept.attempt,
        commit="",
        ref=work.kept.ref,
        message=message_of_work(run, task.id, work.kept),
        author=author,
        holds=planned.files,
        extended=task.extra,
        style="squash",
    )
    return CheckRequest(
        request_id=f"salvage-{task.id}-{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(2)}",
        token=secrets.token_hex(8),
        run=run.options.run,
        hub=work.hub.facts.url,
        target=run.options.target,
        base=tip,
        entries=(entry,),
        plan_checks=plan.checks if isinstance(plan.checks, tuple) else (),
        reviewed=author.agent != "command",
        decisive=False,
        private=True,
        issued_at=now,
        start_by=now + _MAY_LIE_S,
    )
