"""
One order, carried out: a checkout, an agent, the acceptance commands, a candidate in the hub.

The agent edits and the harness commits: whatever the agent did to the checkout's HEAD or index, the candidate is
the tree of the files it left, on the base it was given. What the agent says of its work is kept as a claim.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workers.agents.agent import AgentAnswer, AgentEnding, Assignment, perform
from workers.candidates import Candidate, publish, published
from workers.messages import Outcome, WorkOrder, WorkResult
from workers.sandbox.private import Private, private
from workers.sandbox.process import Command, Ended, run, shell
from workers.settings import Settings
from worktrees.changes import changes, touched_paths
from worktrees.checkout import Checkout, Unusable, lease_checkout
from worktrees.git import CommitId, GitFailed, TreeId
from worktrees.hub import HubUnusable
from worktrees.mirror import Mirror, MissingCommit, open_mirror

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What one order works with: its checkout, and private folders that go when it ends."""

    checkout: Checkout
    own: Private
    logs: Path


class NotDone(Exception):
    """The order ended without a candidate; carries the outcome and what to say of it."""

    def __init__(self, outcome: Outcome, detail: str, *, log_tail: str = "", log: str = "") -> None:
        super().__init__(detail)
        self.outcome, self.detail, self.log_tail, self.log = outcome, detail, log_tail, log


def carry_out(order: WorkOrder, settings: Settings, *, stop: Stop) -> WorkResult:
    """
    The result of an order. An order whose candidate is in the hub already is answered with that.

    Trouble with git, the hub or the disk is the outcome `infrastructure`: nobody's failure, tried again.
    """
    started = time.time()
    blank = WorkResult(
        order_id=order.order_id,
        token=order.token,
        outcome="infrastructure",
        host=settings.host,
        started_at=started,
    )
    try:
        mirror = open_mirror(order.hub, settings.cache, credential_helper=settings.git_credential_helper)
        earlier = published(mirror, order) if order.resent else None
        return earlier or _attempt(order, settings, mirror, blank, stop)
    except NotDone as ended:
        return blank.model_copy(
            update={
                "outcome": ended.outcome,
                "detail": ended.detail,
                "log_tail": ended.log_tail,
                "log": ended.log,
                "finished_at": time.time(),
            }
        )
    except (GitFailed, MissingCommit, HubUnusable, Unusable, OSError) as trouble:
        return blank.model_copy(update={"detail": str(trouble), "finished_at": time.time()})


def _attempt(order: WorkOrder, settings: Settings, mirror: Mirror, blank: WorkResult, stop: Stop) -> WorkResult:
    base = CommitId(order.base)
    mirror.ensure(base, refs=(f"refs/heads/{order.target}",))
    with _bench(order, settings, mirror, base) as bench:
        answer = perform(_assignment(order, bench), stop=stop)
        _require_finished(answer, bench)
        tree = _left_behind(bench.checkout)
        paths = _changed_paths(mirror, base, tree)
        _require_acceptance(order, bench, stop)
        result = blank.model_copy(
            update={
                "outcome": "candidate",
                "paths": paths,
                "claimed_summary": answer.claimed_summary,
                "spent": answer.spent,
                "log": str(_agent_log(bench)),
                "finished_at": time.time(),
            }
        )
        return publish(mirror, order, Candidate(base=base, tree=tree, result=result))


@contextmanager
def _bench(order: WorkOrder, settings: Settings, mirror: Mirror, base: CommitId) -> Iterator[Bench]:
    # Below a folder of its own: a task may be called `redis.log`, as a file of the run is.
    logs = settings.home / "runs" / order.run / "logs" / "orders" / order.task / str(order.attempt)
    logs.mkdir(parents=True, exist_ok=True)
    with private(order.env) as own, lease_checkout(mirror, base, settings.cache / "checkouts") as checkout:
        yield Bench(checkout=checkout, own=own, logs=logs)


def _assignment(order: WorkOrder, bench: Bench) -> Assignment:
    return Assignment(
        order=order,
        worktree=bench.checkout.path,
        home=bench.own.home,
        tmp=bench.own.tmp,
        env=bench.own.env,
        log=_agent_log(bench),
        transcript=bench.logs / "transcript.jsonl",
        pass_fds=(),
    )


def _agent_log(bench: Bench) -> Path:
    return bench.logs / "agent.log"


def _require_finished(answer: AgentAnswer, bench: Bench) -> None:
    if answer.ended == "finished":
        return
    raise NotDone(_outcome_of(answer.ended), answer.detail, log_tail=answer.log_tail, log=str(_agent_log(bench)))


def _outcome_of(ended: AgentEnding) -> Outcome:
    match ended:
        case "timeout" | "idle" | "limits":
            return "limits_spent"
        case "not_started":
            # No log could be opened, no process made: the host's trouble, which costs the task no attempt.
            return "infrastructure"
        case _:
            return "agent_failed"


def _left_behind(checkout: Checkout) -> TreeId:
    """The tree of what the agent left; a checkout it made unusable is its own doing."""
    try:
        return checkout.snapshot()
    except Unusable as problem:
        raise NotDone("agent_failed", str(problem)) from problem


def _changed_paths(mirror: Mirror, base: CommitId, tree: TreeId) -> tuple[str, ...]:
    """Every path the agent changed: at least one, and each a name that messages can carry."""
    paths = touched_paths(changes(mirror.git, base, tree))
    if not paths:
        raise NotDone("no_change", "the agent ended well and changed no file that git keeps")
    for path in paths:
        if any("\ud800" <= letter <= "\udfff" for letter in path):
            shown = os.fsencode(path).decode(errors="backslashreplace")
            raise NotDone("agent_failed", f"it changed '{shown}', a name that is not UTF-8; name files in UTF-8")
    return paths


def _require_acceptance(order: WorkOrder, bench: Bench, stop: Stop) -> None:
    """Runs the task's own acceptance commands on what the agent left; the first red one ends the attempt."""
    for number, command in enumerate(order.acceptance, start=1):
        ended = run(
            Command(
                argv=shell(command),
                cwd=bench.checkout.path,
                env=bench.own.env,
                log=bench.logs / f"acceptance-{number}.log",
                timeout_s=order.limits.wall_s,
                idle_s=order.limits.idle_s,
            ),
            stop=stop,
        )
        if ended.how == "not_started":
            raise NotDone("infrastructure", f"acceptance command '{command}' was not started: {ended.tail}")
        if ended.how != "exit" or ended.status != 0:
            detail = f"acceptance command '{command}' {said(ended)}"
            raise NotDone("verify_failed", detail, log_tail=ended.tail, log=str(ended.log))


def said(ended: Ended) -> str:
    """How a command ended, as the end of a sentence."""
    match ended.how:
        case "exit":
            return f"exited with {ended.status}"
        case "timeout":
            return f"did not end within {ended.seconds:.0f} s"
        case "idle":
            return f"gave no sign of life and was ended after {ended.seconds:.0f} s"
        case "stopped":
            return "was stopped"
        case "not_started":
            return "could not be started"
