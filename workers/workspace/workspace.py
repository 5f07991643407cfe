"""
The workspace of one order: its checkout, its private folders, and the harness' own view of the work.

Agents get the folders. The built-in agent's phases also ask for the changed paths, for the verdict of the acceptance
commands, and for leave to touch more paths. Nothing here believes a model's claims.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from forgepool.workers.context.transcript.entries import Verified, now
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.network import require_hosts
from forgepool.workers.policy.sources import REPOSITORY_FILE, policy_of
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.sandbox.sandbox_profile import Private, Shelter, private
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake
from forgepool.workers.schema.orders import WorkOrder
from forgepool.workers.schema.reports import Evidence
from forgepool.workers.schema.settings import Settings
from forgepool.workers.tools.commands.run import interpreter
from forgepool.workers.tools.endings import GRANTED, Permission
from forgepool.workers.workspace.assets import VARIABLE, lay_out
from forgepool.workers.workspace.checks.dependencies import SetupSite, provide
from forgepool.workers.workspace.checks.setups import CheckSite
from forgepool.workers.workspace.checks.target_checks import TargetChecks
from forgepool.workers.workspace.citations import find_wrong_citations
from forgepool.workers.workspace.mending import Mending, find_mending
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.screening import AttemptWork, describe_held, find_held, read_gate_at_base
from forgepool.worktrees.checkouts.checkout import Checkout, Unusable, lease_checkout
from forgepool.worktrees.commits.changes import FileTooLarge, changes, list_touched_paths, read_file
from forgepool.worktrees.git.git import CommitId, TreeId
from forgepool.worktrees.hub.mirror import Mirror

_OUTPUT_CHARACTERS = 8_000
_TOO_LATE = "the attempt came to its end before its work was verified"

_PASSING = (
    # Parts that differ between two runs of one failure: addresses, durations, dates, temporary folders, line numbers.
    (re.compile(r"0x[0-9a-fA-F]+"), "0x"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "#"),
    (re.compile(r"(?<![\w.])/[^\s:'\"]+/"), "/"),
    (re.compile(r"\d+"), "0"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceFinding:
    """The verdict on the work, with the first thing that is wrong."""

    verdict: Literal["green", "red", "out_of_scope", "infrastructure", "stopped"]
    detail: str
    output: str = ""
    log: str = ""
    paths: tuple[str, ...] = ()
    """The changed paths; only with `out_of_scope`."""
    by_checks: bool = False
    """Nothing but checks of the target was red."""

    @property
    def entry(self) -> Verified:
        ok = self.verdict == "green"
        print_ = "" if ok else fingerprint(self.detail, self.output)
        output = self.output[-_OUTPUT_CHARACTERS:]
        return Verified(
            at=now(),
            ok=ok,
            detail=self.detail,
            output=output,
            fingerprint=print_,
            outside=self.paths,
            by_checks=self.by_checks,
        )

    def with_held(self, held: Sequence[ScanFinding]) -> "AcceptanceFinding":
        """Add what the gate's scans would hold against the work, so that both are mended at once."""
        sentence, listed = describe_held(held)
        red = self.verdict == "red"
        return AcceptanceFinding(
            verdict="red",
            detail=f"{self.detail}; and {sentence}" if red else sentence,
            output=f"{self.output.rstrip()}\n\n{listed}" if red else listed,
            log=self.log,
        )


def accept(
    order: WorkOrder,
    folder: Path,
    own: Private,
    logs: Path,
    *,
    also: tuple[str, ...] = (),
    left_s: Callable[[], float] | None = None,
    stop: Callable[[], bool],
) -> AcceptanceFinding:
    """
    Run the task's acceptance commands on the agent's files, then those of `also`, up to the first that fails.

    A model wrote those of `also`: they run with `pipefail`, so that a pipe does not hide a failure. Each command may
    take the attempt's whole time; with `left_s`, all of them share the rest of it.
    """
    theirs = [(command, interpreter(command, own.env.get("PATH"), "-o", "pipefail")) for command in also]
    commands = [*((command, shell(command)) for command in order.acceptance), *theirs]
    for number, (command, argv) in enumerate(commands, start=1):
        ended = run(
            Command(
                argv=argv,
                cwd=folder,
                env=own.env,
                confined=own.confined,
                log=logs / f"acceptance-{number}.log",
                timeout_s=order.limits.wall_s if left_s is None else max(0.1, left_s()),
                idle_s=order.limits.idle_s,
            ),
            stop=stop,
        )
        if not ended.succeeded:
            return _red(command, ended)
    return AcceptanceFinding(
        verdict="green", detail="the acceptance commands are green" if order.acceptance or also else ""
    )


def _red(command: str, ended: Ended) -> AcceptanceFinding:
    if ended.how == "not_started":
        detail = f"acceptance command '{command}' was not started: {ended.tail}"
        return AcceptanceFinding(verdict="infrastructure", detail=detail)
    detail = f"acceptance command '{command}' {ended.words}"
    verdict: Literal["red", "stopped"] = "stopped" if ended.how == "stopped" else "red"
    return AcceptanceFinding(verdict=verdict, detail=detail, output=ended.excerpt, log=str(ended.log))


def fingerprint(detail: str, output: str) -> str:
    """
    Return 16 hexadecimal digits, equal for failures that differ only in line numbers, times and addresses.

    Source: the retry policies of published harnesses, which escalate when a failure repeats.
    """
    lines = set()
    for line in (detail, *output.splitlines()):
        for pattern, instead in _PASSING:
            line = pattern.sub(instead, line)
        lines.add(line.strip())
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="replace")).hexdigest()[:16]


Stop = Callable[[], bool]

TRANSCRIPT = "transcript.jsonl"


@dataclass(slots=True, kw_only=True)
class Workspace:
    order: WorkOrder
    settings: Settings
    mirror: Mirror
    checkout: Checkout
    own: Private
    logs: Path
    granted: set[str] = field(default_factory=set)
    """Paths that the orchestrator has granted this attempt."""
    target_checks: TargetChecks
    checked: TreeId | None = None
    """The tree that the target's checks last ran on."""
    green: TreeId | None = None
    """The tree that the acceptance commands last passed on."""
    mending: Mending | None = None
    """The earlier attempt's change that the files begin with."""

    @property
    def agent_log(self) -> Path:
        return self.logs / "agent.log"

    @property
    def transcript(self) -> Path:
        return transcript_path(self.order, self.settings)

    @property
    def base(self) -> CommitId:
        return CommitId(self.order.base)

    def policy(self) -> Policy:
        """
        Return the policy, combined from those of the host's user, of the repository at the base, and of the plan.

        Raises:
            DocumentWrong: one of their files is wrong.
        """
        return _policy_of(self.order, self.settings, self.mirror)

    def list_changed(self) -> tuple[str, ...]:
        """
        Return every path that differs from the base.

        Raises:
            Unusable: no commit can be made from the checkout.
        """
        return list_touched_paths(changes(self.mirror.git, self.base, self.checkout.snapshot()))

    def why_unchanged(self) -> str | None:
        """Return why there is nothing to commit, as a sentence for the model; None when there is or must be none."""
        if self.order.writes_nothing:
            return None
        try:
            return None if self.list_changed() else "no file that git keeps is changed; do the task's work first"
        except Unusable as problem:
            return str(problem)

    def find_unresolved(self, tree: TreeId) -> str:
        """Return a sentence on files with conflicts that the attempt began with; empty without any."""
        return "" if self.mending is None else self.mending.find_unresolved(self.mirror.git, tree)

    def find_wrong_citations(self, evidence: Sequence[Evidence]) -> list[str]:
        """Return a sentence for each citation of what does not exist at the base, in the mirror or among its needs."""
        tasks = [prior.task for prior in self.order.priors]
        return find_wrong_citations(self.mirror.git, self.base, evidence, tasks)

    def may_touch(self, paths: tuple[str, ...], *, stop: Stop, left_s: Callable[[], float]) -> Permission:
        """Ask the orchestrator whether the attempt may change these paths."""
        wanted = tuple(path for path in paths if path not in self.granted)
        if wanted and self.order.writes_nothing:
            return Permission(verdict="refused", why="the task declares `files: []`, so it may change nothing")
        owns = self.order.files or self.order.may_ask_paths
        if not wanted or not owns or self.settings.broker_url is None:
            return GRANTED
        from forgepool.workers.queue.broker import connect
        from forgepool.workers.queue.replies import ask_paths

        with connect(self.settings.broker_url) as client:
            answer = ask_paths(client, self.order, wanted, stop=stop, left_s=left_s)
        if answer.verdict == "granted":
            self.granted.update(wanted)
        return Permission(verdict=answer.verdict, why=answer.why)

    def verify(
        self,
        *,
        also: tuple[str, ...],
        stop: Stop,
        left_s: Callable[[], float],
        planned: tuple[str, ...] = (),
        claims: str = "",
        rounds: int | None = None,
    ) -> AcceptanceFinding:
        """
        Check the scope, scan as the gate will, and run the acceptance commands and those of `also`; then, where all is
        well and the order says so, the target's checks.

        `planned` and `claims` are what the agent said of its files. Files that the commands leave are removed again. No
        process of the agent may be running. `rounds` is how often checks of the target have sent the work back; None
        where they cannot.
        """
        try:
            tree = self.checkout.snapshot()
        except Unusable as problem:
            return AcceptanceFinding(verdict="red", detail=str(problem))
        paths = list_touched_paths(changes(self.mirror.git, self.base, tree))
        if (shown := unprintable(paths)) is not None:
            return AcceptanceFinding(verdict="red", detail=f"the name '{shown}' is not UTF-8; name files in UTF-8")
        if unresolved := self.find_unresolved(tree):
            return AcceptanceFinding(verdict="red", detail=unresolved)
        # Paths that wait for another task are no failure here: the finished candidate waits for them.
        asked = self.may_touch(paths, stop=stop, left_s=left_s)
        if stop() or left_s() <= 0:
            return AcceptanceFinding(verdict="stopped", detail=_TOO_LATE)
        if asked.verdict == "refused":
            return AcceptanceFinding(verdict="out_of_scope", detail=asked.why, paths=paths)
        work = AttemptWork(
            git=self.mirror.git, order=self.order, tree=tree, paths=paths, planned=planned, claims=claims
        )
        held = find_held(work)
        finding = accept(self.order, self.checkout.path, self.own, self.logs, also=also, left_s=left_s, stop=stop)
        if self.order.acceptance or also:
            self.checkout.take(tree)
        if held and finding.verdict in ("green", "red"):
            finding = finding.with_held(held)
        if finding.verdict == "green" and rounds is not None:
            finding = self._try_checks(work, rounds, stop=stop, left_s=left_s) or finding
        if finding.verdict == "green":
            self.green = tree
        return finding

    def _try_checks(
        self, work: AttemptWork, rounds: int, *, stop: Stop, left_s: Callable[[], float]
    ) -> AcceptanceFinding | None:
        """Run the target's checks; None where none is red, or the same files come back: then the gate is to say."""
        terms = None if self.order.scans is None else self.order.scans.verify
        if terms is None or rounds >= terms.rounds or work.tree == self.checked:
            return None
        gate = read_gate_at_base(work)
        ends_at = time.monotonic() + min(terms.within_s, left_s())
        site = CheckSite(
            mirror=self.mirror,
            settings=self.settings,
            logs=self.logs,
            stop=lambda: stop() or time.monotonic() >= ends_at,
        )
        self.checked = work.tree
        reds = self.target_checks.find_red(gate.checks if gate else (), work.tree, work.paths, site)
        if not reds or stop():
            return AcceptanceFinding(verdict="stopped", detail=_TOO_LATE) if stop() else None
        each = _OUTPUT_CHARACTERS // len(reds)
        return AcceptanceFinding(
            verdict="red",
            detail="; and ".join(f"the target's check '{red.check.name}' {red.said}" for red in reds),
            output="\n\n".join(f"$ {red.check.run}\n{red.excerpt}"[-each:] for red in reds),
            log=reds[0].log,
            by_checks=True,
        )


@contextmanager
def set_up(order: WorkOrder, settings: Settings, mirror: Mirror, *, stop: Stop) -> Iterator[Workspace]:
    """Lease a checkout at the order's base, with assets and dependency folders, for the length of the block."""
    logs = _logs(order, settings)
    logs.mkdir(parents=True, exist_ok=True)
    checkouts = settings.cache / "checkouts"
    with (
        lay_out(mirror, order.run, order.assets) as assets,
        lease_checkout(mirror, CommitId(order.base), checkouts) as checkout,
    ):
        shelter = Shelter(
            settings=settings,
            writable=(checkout.path,),
            protected=(checkout.pointer,),
            readable=(mirror.path, *([assets] if assets is not None else [])),
            network=_network(order, settings, mirror),
        )
        site = SetupSite(checkout=checkout, shelter=shelter, kept=settings.cache / "setups", logs=logs, stop=stop)
        with private(order.env, shelter) as alone:
            own = provide(alone, site, order.setups)
            if assets is not None:
                own = replace(own, env={**own.env, VARIABLE: str(assets)})
            if (mending := find_mending(mirror, order)) is not None:
                checkout.take(mending.change.tree)
            yield Workspace(
                order=order,
                settings=settings,
                mirror=mirror,
                checkout=checkout,
                own=own,
                logs=logs,
                mending=mending,
                target_checks=TargetChecks(base=CommitId(order.base)),
            )


def _policy_of(order: WorkOrder, settings: Settings, mirror: Mirror) -> Policy:
    try:
        data = read_file(mirror.git, CommitId(order.base), REPOSITORY_FILE)
    except FileTooLarge as problem:
        raise DocumentWrong(REPOSITORY_FILE, [Mistake(0, f"cannot be used: {problem}")]) from problem
    text = None if data is None else data.decode(errors="replace")
    return policy_of(person=settings.policy_file, repository=text, plan=order.policy)


def _network(order: WorkOrder, settings: Settings, mirror: Mirror) -> tuple[str, ...]:
    if not order.network:
        return ()
    policy = _policy_of(order, settings, mirror)
    who = f"task '{order.task}'"
    return require_hosts(policy, order.network, asked_by="plan", what=who, person=settings.policy_file)


def transcript_path(order: WorkOrder, settings: Settings) -> Path:
    """Return this host's file of the attempt's conversation."""
    return _logs(order, settings) / TRANSCRIPT


def attempt_logs(run: Path, task: str, attempt: int) -> Path:
    """Return the folder of an attempt's logs, given that of its run."""
    # A folder of its own, since a task may be called `redis.log`, as a file of the run is.
    return run / "logs" / "orders" / task / str(attempt)


def _logs(order: WorkOrder, settings: Settings) -> Path:
    return attempt_logs(settings.home / "runs" / order.run, order.task, order.attempt)


def unprintable(paths: tuple[str, ...]) -> str | None:
    """Return the first path that messages cannot carry, in a printable form; None if there is none."""
    for path in paths:
        if any("\ud800" <= letter <= "\udfff" for letter in path):
            return os.fsencode(path).decode(errors="backslashreplace")
    return None
