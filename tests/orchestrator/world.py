"""
A world for a run to go wrong in: workers, a supervisor and a hub that answer as late and as badly as told.

What the real ones promise, it keeps: a candidate is created once for an attempt, composing is deterministic, the
target moves by compare-and-swap with a marker that exists once for a task. All else is left to the test.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.reception import Answer
from supervisor.messages import Certificate, CheckRequest, CheckResult, Landing, LandRequest
from workers.answers import Started
from workers.messages import Outcome, WorkOrder, WorkResult

Request = WorkOrder | CheckRequest | LandRequest


@dataclass
class World:
    """Everything outside the orchestrator."""

    tip: str = "c0"
    markers: dict[str, str] = field(default_factory=dict)
    """By task, the commit with which it is in the target."""
    published: dict[tuple[str, int], WorkResult] = field(default_factory=dict)
    """By task and attempt, the candidate the hub keeps."""
    green: dict[str, str] = field(default_factory=dict)
    """By composed commit, the tree on which all checks were seen green."""
    mail: list[Request] = field(default_factory=list)
    """Messages in somebody's hands; also those the orchestrator has given up."""
    told: list[Answer] = field(default_factory=list)
    """Every answer ever given: Redis keeps them, and may give them again."""
    moves: int = 0

    def take(self, request: Request) -> None:
        self.mail.append(request)

    def start(self, request: Request) -> Answer:
        return self._tell(Started(message_id=message_id(request), token=request.token, host="h", pid=7))

    def work(self, order: WorkOrder, outcome: Outcome, paths: Sequence[str]) -> Answer:
        """An order whose candidate is in the hub already is answered with that."""
        self.mail.remove(order)
        earlier = self.published.get((order.task, order.attempt))
        if earlier is not None:
            return self._tell(earlier.model_copy(update={"token": order.token}))
        made = WorkResult(
            order_id=order.order_id,
            token=order.token,
            outcome=outcome,
            commit=f"c-{order.task}-{order.attempt}" if outcome == "candidate" else None,
            paths=tuple(paths) if outcome == "candidate" else (),
            detail=f"ended as {outcome}",
            host="h",
        )
        if outcome == "candidate":
            self.published[order.task, order.attempt] = made
        return self._tell(made)

    def check(self, request: CheckRequest, verdict: str) -> Answer:
        self.mail.remove(request)
        entry = request.entries[-1]
        commit = _digest("merge", request.base, entry.commit)
        tree = _digest("tree", commit)
        composed = verdict not in ("conflict", "not_configured", "infrastructure")
        said = CheckResult.model_validate(
            {
                "request_id": request.request_id,
                "token": request.token,
                "verdict": verdict,
                "commit": commit if composed else None,
                "tree": tree if composed else None,
                "certificates": (_certificate(tree),) if verdict == "green" else (),
                "detail": f"found {verdict}",
            }
        )
        if verdict == "green":
            self.green[commit] = tree
        return self._tell(said)

    def land(self, request: LandRequest, *, refused: bool = False, trouble: bool = False) -> Answer:
        """What the lander does. Trouble may come before the target moves, but is never reported after it."""
        self.mail.remove(request)
        entry = request.entries[-1]
        said = Landing(request_id=request.request_id, token=request.token, outcome="infrastructure", host="h")
        if trouble:
            return self._tell(said.model_copy(update={"detail": "the hub is away"}))
        if entry.task in self.markers:
            return self._tell(said.model_copy(update={"outcome": "landed", "commit": self.markers[entry.task]}))
        if refused:
            return self._tell(said.model_copy(update={"outcome": "refused", "detail": "no permission"}))
        if request.base != self.tip:
            return self._tell(said.model_copy(update={"outcome": "moved", "commit": self.tip}))
        tree = self.green.get(request.commit)
        assert tree is not None, f"{entry.task} was to land as {request.commit}, which nobody found green"
        assert [one.tree for one in request.certificates] == [tree] == [request.tree]
        assert request.commit == _digest("merge", request.base, entry.commit)
        self.markers[entry.task] = self.tip = request.commit
        return self._tell(said.model_copy(update={"outcome": "landed", "commit": request.commit}))

    def somebody_else_lands(self) -> None:
        self.moves += 1
        self.tip = f"person-{self.moves}"

    def _tell(self, answer: Answer) -> Answer:
        self.told.append(answer)
        return answer


def message_id(request: Request) -> str:
    return request.order_id if isinstance(request, WorkOrder) else request.request_id


def _certificate(tree: str) -> Certificate:
    return Certificate(key="k", check="test", definition="d", environment="e", tree=tree, seconds=1.0, host="h")


def _digest(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:16]
