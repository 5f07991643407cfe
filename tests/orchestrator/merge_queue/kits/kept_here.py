"""
A queue in this process: its own loop and journal, real composing and landing on a real hub, and no Redis.

A message is held until the test lets it be answered. Only the commands of checks are not run: the names in the composed
tree give their result.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tiny_hub import TinyHub

from forgepool.orchestrator.decisions.plan_index import gate_course, gate_plan
from forgepool.orchestrator.decisions.queue.submissions import Submission
from forgepool.orchestrator.decisions.results import Answer
from forgepool.orchestrator.journal.events import EntrySubmitted, Event, RunResumed, RunStarted
from forgepool.orchestrator.journal.store import Journal, Recorded, read
from forgepool.orchestrator.merge_queue.serve.loop import GateLoop
from forgepool.orchestrator.run import recovery
from forgepool.orchestrator.run.dispatch import check_request, land_request
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.run.transport import Link
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.checks.certificates import Inputs, certify
from forgepool.supervisor.gate.check_entry import entries_in, gate_changed_by
from forgepool.supervisor.gate.land import land
from forgepool.supervisor.gate.requirements import demands_of
from forgepool.supervisor.gate.verdicts import conflicting
from forgepool.supervisor.messages.answers import CheckFailure, CheckResult, Landing
from forgepool.supervisor.messages.requests import CheckRequest, LandRequest
from forgepool.workers.queue.broker import CHECKS, LANDINGS, PROTOCOL
from forgepool.workers.queue.leases import Holder, Present
from forgepool.workers.queue.run_presence import RunPresence
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.compose import Composed, compose
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror, open_mirror

RUN = "gate-main-test"
Request = CheckRequest | LandRequest
Word = Literal["true", "flake", "timeout", "infrastructure"]
Listener = Callable[[RunState, Sequence[Recorded]], None]


class Died(BaseException):
    """Raised where the process that serves the queue dies and loses its memory."""


@dataclass(slots=True)
class Hands:
    """The workers of the queue: their messages and their answers."""

    hub: TinyHub
    settings: Settings
    slots: int = 3
    now: float = 1_700_000_000.0
    mail: dict[str, Request] = field(default_factory=dict)
    """Messages by id, with those that are no longer awaited."""
    begun: set[str] = field(default_factory=set)
    fenced: set[str] = field(default_factory=set)
    told: list[Answer] = field(default_factory=list)
    """All answers that the present Redis has received."""
    green: dict[str, str] = field(default_factory=dict)
    """The tree of a composed commit that was answered green."""
    dies_after: int | None = None
    """Number of crash points to pass before the queue's process dies; None means that it does not die."""

    def point(self) -> None:
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise Died

    def take(self, request: Request) -> None:
        """Accept a request; a second delivery is dropped."""
        self.mail.setdefault(request.request_id, request)

    def fence(self, message_id: str) -> None:
        """Prevent the message from being begun."""
        self.fenced.add(message_id)
        if message_id not in self.begun:
            self.mail.pop(message_id, None)

    def check(self, request: CheckRequest, word: Word) -> CheckResult:
        """Answer a check with its true result, or with the given word."""
        self.mail.pop(request.request_id, None)
        blank = CheckResult(request_id=request.request_id, token=request.token, verdict="infrastructure", host="here")
        if word == "infrastructure":
            return blank.model_copy(update={"detail": "the disk is full"})
        found = self._examined(request, blank)
        may_differ = found.verdict == "green" and not (word == "flake" and request.decisive)
        if word in ("flake", "timeout") and may_differ:
            how: Literal["exit", "timeout"] = "timeout" if word == "timeout" else "exit"
            failure = CheckFailure(check="names", how=how, status=1, log_tail="", log="")
            return found.model_copy(update={"verdict": "red", "failures": (failure,), "certificates": ()})
        if found.verdict == "green" and found.commit and found.tree:
            self.green[found.commit] = found.tree
        return found

    def _examined(self, request: CheckRequest, blank: CheckResult) -> CheckResult:
        mirror = open_mirror(request.hub, self.settings.cache)
        entries = entries_in(mirror, request)
        demands = demands_of(mirror, request)
        composed = compose(mirror.git, CommitId(request.base), entries, request.style)
        if not isinstance(composed, Composed):
            return conflicting(mirror, request, composed, blank)
        if (first := gate_changed_by(mirror.git, request, composed)) is not None:
            return blank.model_copy(update={"verdict": "apart", "about": first, "detail": "it changes the gate"})
        said = blank.model_copy(
            update={
                "commit": composed.commit,
                "tree": composed.tree,
                "commits": tuple(one.commit for one in composed.steps),
            }
        )
        if _is_red(mirror, composed.tree):
            if request.decisive and _is_red(mirror, request.base):
                return said.model_copy(update={"verdict": "base_red", "detail": "names is red on main itself"})
            failure = CheckFailure(check="names", how="exit", status=1, log_tail="red", log="")
            return said.model_copy(update={"verdict": "red", "failures": (failure,)})
        inputs = Inputs(git=mirror.git, tree=composed.tree, checks=demands.checks)
        earned = tuple(
            certify(one, demands.checks, inputs=inputs.of(one), environment="here", seconds=1.0, host="here")
            for one in demands.checks
        )
        return said.model_copy(update={"verdict": "green", "certificates": earned})

    def land(self, request: LandRequest, *, heeds: bool = True) -> Landing:
        """Land as the real job does. If it was given up before the push and heeds that, it does not push."""
        self.mail.pop(request.request_id, None)
        gone = heeds and request.request_id in self.fenced
        return land(request, self.settings, stop=lambda: gone)


def _is_red(mirror: Mirror, tree: str) -> bool:
    from tiny_hub import red

    return red(dict.fromkeys(mirror.git.text("ls-tree", "-r", "--name-only", "--full-tree", tree).splitlines(), ""))


@dataclass(slots=True)
class Handed(Link):
    """The queue's side of a Redis that does not exist."""

    hands: Hands = field(kw_only=True)
    heard: int = 0

    def answers(self, *, wait_s: float) -> Iterator[Answer]:
        while self.heard < len(self.hands.told):
            self.heard += 1
            yield self.hands.told[self.heard - 1]

    def holders(self, message_ids: Sequence[str]) -> dict[str, Holder]:
        return {}

    def patient(self) -> bool:
        return False

    def fence(self, message_id: str) -> None:
        self.hands.fence(message_id)

    def is_ended(self, message_id: str) -> bool:
        return message_id in self.hands.fenced

    def idle(self, queue: str) -> bool:
        return False

    def other_runs(self) -> tuple[RunPresence, ...]:
        return ()

    def announce(self, presence: RunPresence) -> None:
        """Do nothing: this queue has no Redis."""

    def workers(self) -> tuple[Present, ...]:
        some = {"host": "here", "pid": 1, "since": 0.0, "protocol": PROTOCOL}
        return (
            Present.model_validate({"queues": (CHECKS,), "concurrency": self.hands.slots, **some}),
            Present.model_validate({"queues": (LANDINGS,), "concurrency": 1, **some}),
        )


@dataclass(slots=True)
class KeptHere(GateLoop):
    """The queue's own loop. Its messages go to `hands`, and its process dies where a test wants it to."""

    hands: Hands = field(kw_only=True)

    def record(self, events: Sequence[Event]) -> None:
        if events:
            self.hands.point()
        GateLoop.record(self, events)
        if events:
            self.hands.point()

    def turn(self) -> None:
        """Run one turn in which no look is skipped because of a recent one."""
        self._looked, self.watch._looked = 0.0, 0.0
        self._turn()

    def lose(self, sent: Outstanding) -> None:
        """Declare the message's holder gone."""
        self._lose(sent)

    def _send(self, sent: Outstanding, *, resent: bool) -> None:
        self.hands.point()
        if sent.kind == "check":
            self.hands.take(check_request(self.course, self.state, sent, now=self.clock()))
        else:
            assert sent.kind == "landing", sent
            self.hands.take(land_request(self.course, self.state, sent, now=self.clock()))
        self.watch.note_sent(sent.message_id)

    def _pin(self, event: EntrySubmitted) -> None:
        GateLoop._pin(self, event)
        self.hands.point()

    def _drop(self, one: Submission) -> None:
        self.hands.point()
        GateLoop._drop(self, one)


def keep(folder: Path, hands: Hands, listener: Listener) -> KeptHere:
    """Start or resume the queue. It knows only its journal, and asks the hub for the rest."""
    hub = str(hands.hub.path)
    journal, state, earlier = Journal(folder), RunState.blank(()), False
    for one in read(folder):
        apply(state, one.event, number=one.number, at=one.at)
        earlier = True
    tip = hands.hub.tip
    fresh = RunStarted(run=RUN, plan_digest="", hub=hub, target="main", tip=tip, gate_file=True)
    loop = KeptHere(
        course=gate_course(gate_plan(RUN, "main"), state),
        state=state,
        journal=journal,
        folder=folder,
        mirror=open_mirror(hub, hands.settings.cache),
        link=Handed(None, RUN, 1.0, hands=hands),  # type: ignore[arg-type]
        parts=None,
        wishes=Wishes(),
        listener=listener,
        clock=lambda: hands.now,
        hands=hands,
    )
    loop.record([RunResumed(tip=tip) if earlier else fresh])
    if earlier:
        loop.record(recovery.recover_events(state, loop.mirror))
    return loop
