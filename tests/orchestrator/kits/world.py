"""
A simulated world for a run: workers, a supervisor and a hub that answer as late and as badly as they are told.

It keeps the guarantees of the real ones. A candidate is created once for an attempt, and composing is deterministic.
The target moves by compare-and-swap, with a marker that exists once for a task. All else is left to the test.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from forgepool.orchestrator.decisions.results import Answer
from forgepool.orchestrator.plan.budget import SeenUse
from forgepool.supervisor.messages.answers import Certificate, CheckResult, Landing, PersonApproval, Review
from forgepool.supervisor.messages.requests import CheckRequest, LandRequest, ReviewRequest
from forgepool.workers.queue.replies import MessageStarted, MoneyRequest, PathRequest
from forgepool.workers.schema.orders import BuiltinAgent, Limits, Outcome, Spent, WorkOrder, WorkResult

NOTHING, UNSEEN = Spent(), SeenUse()


@dataclass(frozen=True, kw_only=True)
class Used:
    """The use of an attempt, and the part it carried over from which attempts."""

    spent: Spent = NOTHING
    carried: Spent = NOTHING
    includes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A conversation as the hub has it."""

    base: str
    spent: Spent = NOTHING
    seen: SeenUse = UNSEEN
    attempts: tuple[int, ...] = ()


Request = WorkOrder | CheckRequest | ReviewRequest | LandRequest


@dataclass
class World:
    """Everything outside the orchestrator."""

    tip: str = "c0"
    markers: dict[str, str] = field(default_factory=dict)
    """The commit with which a task is in the target."""
    published: dict[tuple[str, int], WorkResult] = field(default_factory=dict)
    """The candidate that the hub keeps, by task and attempt."""
    green: dict[str, str] = field(default_factory=dict)
    """The tree on which all checks were green, by composed commit."""
    mail: list[Request] = field(default_factory=list)
    """Messages that are being worked on, and those the orchestrator has given up."""
    told: list[Answer] = field(default_factory=list)
    """Every answer ever given, because Redis may deliver it again."""
    moves: int = 0
    passed: set[tuple[str, str]] = field(default_factory=set)
    """Candidates with the diffs that a reviewer has passed."""
    approved: set[str] = field(default_factory=set)
    """Candidates that a person has approved."""
    calm: bool = False
    """True if a landing no longer changes the diff of another entry."""
    reviews: dict[str, Spent] = field(default_factory=dict)
    """The use of a review, by request."""

    burnt_usd: float = 0.0
    """USD that models have really used, reported or not."""
    burnt_tokens: int = 0
    used: dict[tuple[str, int], Used] = field(default_factory=dict)
    """The use with all it continued from, that carried part, and the attempts included, by task and attempt."""
    kept: dict[tuple[str, int], Kept] = field(default_factory=dict)
    """The conversation in the hub, by task and attempt, often without its last turn."""
    fenced: set[str] = field(default_factory=set)
    """Tokens of messages that were given up before they were begun; no worker begins them."""

    def burn(self, order: WorkOrder, share: float, *, keep: bool) -> Used:
        """
        Use a share of what the attempt's limits leave, once, in turns of at most a twentieth of it.

        The use includes that of the attempt it continues. Unless all is to be kept, its last turn may be missing in the
        hub.
        """
        key = (order.task, order.attempt)
        if not isinstance(order.agent, BuiltinAgent) or (order.token in self.fenced and key not in self.used):
            return Used()
        found = self._found(order)
        if key not in self.used:
            usd, tokens = _room(order, found.spent)
            turns = int(share * 20) + 1
            turn = Spent(turns=1, input_tokens=int(tokens * share / turns), cost_usd=usd * share / turns)
            self.burnt_usd += (turn.cost_usd or 0.0) * turns
            self.burnt_tokens += turn.tokens * turns
            known = turns if keep or turns % 2 == 0 else turns - 1
            carried = found.spent
            self.used[key] = Used(spent=_plus(carried, turn, turns), carried=carried, includes=found.attempts)
            if known:
                seen = SeenUse(used=_plus(carried, turn, known), carried=carried, largest_turn=turn)
                self.kept[key] = Kept(
                    base=order.base, spent=seen.used, seen=seen, attempts=(*found.attempts, order.attempt)
                )
        return self.used[key]

    def burn_review(self, request: ReviewRequest, share: float) -> Spent:
        """Use a share of what the review may use, once. A scripted review uses nothing."""
        known = self.reviews.get(request.request_id)
        if known is None:
            usd = 1.0 if request.cost_usd is None else request.cost_usd
            tokens = 1000 if request.tokens is None else request.tokens
            known = Spent(turns=1, input_tokens=int(tokens * share), cost_usd=usd * share)
            if request.policy.script is not None or request.token in self.fenced:
                return NOTHING
            self.reviews[request.request_id] = known
            self.burnt_usd += known.cost_usd or 0.0
            self.burnt_tokens += known.tokens
        return known

    def seen(self, task: str, attempt: int) -> SeenUse:
        """Return what the hub knows about the use of an attempt."""
        kept = self.kept.get((task, attempt))
        return SeenUse() if kept is None else kept.seen

    def _found(self, order: WorkOrder) -> "Kept":
        """Find what the hub has of the newest attempt that was not judged, as a worker does."""
        judged = max((reason.attempt for reason in order.reasons), default=0)
        for attempt in range(order.resumes or 0, judged, -1):
            kept = self.kept.get((order.task, attempt))
            if kept is not None and kept.base == order.base:
                return kept
        return Kept(base=order.base)

    def take(self, request: Request) -> None:
        self.mail.append(request)

    def start(self, request: Request) -> Answer:
        return self._tell(MessageStarted(message_id=message_id(request), token=request.token, host="h", pid=7))

    def work(
        self, order: WorkOrder, outcome: Outcome, paths: Sequence[str], *, share: float = 0.1, **said: Any
    ) -> Answer:
        """Answer an order; if its candidate is in the hub already, answer with that."""
        self.mail.remove(order)
        earlier = self.published.get((order.task, order.attempt))
        if earlier is not None:
            return self._tell(earlier.model_copy(update={"token": order.token}))
        use = self.burn(order, share, keep=bool(said.get("resumable")))
        made = WorkResult(
            order_id=order.order_id,
            token=order.token,
            outcome=outcome,
            commit=f"c-{order.task}-{order.attempt}" if outcome == "candidate" else None,
            paths=tuple(paths) if outcome == "candidate" else (),
            detail=f"ended as {outcome}",
            question="which?" if outcome == "needs_human" and order.attempt % 3 else "",
            host="h",
            **{"spent": use.spent, "includes": use.includes, "carried": use.carried, **said},
        )
        if outcome == "candidate":
            self.published[order.task, order.attempt] = made
        return self._tell(made)

    def check(self, request: CheckRequest, verdict: str) -> Answer:
        self.mail.remove(request)
        if request.whole:
            return self._tell(self._on_the_target(request, verdict))
        if verdict == "apart" and not request.ahead:
            verdict = "green"
        steps = composed_on(request.base, [one.commit for one in request.spec])
        commit, before = steps[-1], (request.base, *steps)
        patches = tuple(self.patch(on, one.commit) for on, one in zip(before, request.spec, strict=False))
        tree = _digest("tree", commit)
        composed = verdict not in ("conflict", "stale", "apart", "not_configured", "infrastructure")
        said = CheckResult.model_validate(
            {
                "request_id": request.request_id,
                "token": request.token,
                "verdict": verdict,
                "commit": commit if composed else None,
                "tree": tree if composed else None,
                "about": request.spec[0].task if verdict in ("conflict", "stale", "apart") else "",
                "commits": tuple(steps) if composed else (),
                "patch_ids": patches if composed else (),
                "certificates": (_certificate(tree),) if verdict == "green" else (),
                "detail": f"found {verdict}",
            }
        )
        if verdict == "green":
            self.green[commit] = tree
        return self._tell(said)

    def patch(self, base: str, candidate: str) -> str:
        """Return the id of the composed diff. It changes with the tip only if a landing changed neighbouring lines."""
        beside = not self.calm and int(_digest("beside", base, candidate), 16) % 4 == 0
        return _digest("patch", base if beside else "", candidate)

    def _on_the_target(self, request: CheckRequest, verdict: str) -> CheckResult:
        assert not request.entries and verdict in ("green", "base_red", "not_configured", "infrastructure")
        where = {"request_id": request.request_id, "token": request.token}
        return CheckResult.model_validate({**where, "verdict": verdict, "detail": f"found {verdict}"})

    def review(self, request: ReviewRequest, outcome: str, share: float = 0.1, **said: Any) -> Answer:
        self.mail.remove(request)
        if request.wave is not None:
            candidate, patch = request.wave.tip, _digest("whole", request.base, request.wave.tip)
        else:
            candidate, patch = request.entries[-1].commit, self.patch(request.base, request.entries[-1].commit)
        if outcome == "passed":
            self.passed.add((candidate, patch))
        where = {"request_id": request.request_id, "token": request.token, "detail": f"ended as {outcome}"}
        spent = self.burn_review(request, share)
        return self._tell(
            Review.model_validate({**where, "outcome": outcome, "patch_id": patch, "spent": spent, **said})
        )

    def land(self, request: LandRequest, *, refused: bool = False, trouble: bool = False) -> Answer:
        """
        Answer as the real landing does. A failure may come before the target moves, but is never reported after it.
        """
        self.mail.remove(request)
        entry = request.entries[-1]
        said = Landing(request_id=request.request_id, token=request.token, outcome="infrastructure", host="h")
        if trouble:
            return self._tell(said.model_copy(update={"detail": "the hub is away"}))
        # Only its own marker proves that it has landed, and not the marker of another landing.
        if entry.task in self.markers and (len(request.entries) == 1 or self.markers[entry.task] == request.commit):
            return self._tell(said.model_copy(update={"outcome": "landed", "commit": self.markers[entry.task]}))
        if refused:
            return self._tell(said.model_copy(update={"outcome": "refused", "detail": "no permission"}))
        if request.base != self.tip:
            return self._tell(said.model_copy(update={"outcome": "moved", "commit": self.tip}))
        tree = self.green.get(request.commit)
        assert tree is not None, f"{entry.task} was to land as {request.commit}, which nobody found green"
        assert [one.tree for one in request.certificates] == [tree] == [request.tree]
        steps = composed_on(request.base, [one.commit for one in request.entries])
        assert request.commit == steps[-1] and not request.ahead
        self._is_approved(request)
        for one, step in zip(request.entries, steps, strict=True):
            assert one.task not in self.markers, f"{one.task} lands a second time, with others"
            self.markers[one.task] = step
        self.tip = request.commit
        return self._tell(said.model_copy(update={"outcome": "landed", "commit": request.commit}))

    def _is_approved(self, request: LandRequest) -> None:
        """Assert the approvals that a landing demands: of the exact candidate, or of the exact diff in its place."""
        if not request.reviewed:
            return
        candidates = [one.commit for one in request.entries]
        before = (request.base, *composed_on(request.base, candidates))
        for on, entry, approval in zip(before, request.entries, request.approvals, strict=False):
            candidate = entry.commit
            if not entry.reviewed:
                continue
            assert approval is not None, f"{candidate} was to land, and nobody has approved it"
            if isinstance(approval, PersonApproval):
                assert approval.commit == candidate and candidate in self.approved
            else:
                assert (candidate, approval.patch_id) in self.passed
                assert approval.patch_id == self.patch(on, candidate) or self.calm

    def ask_paths(self, order: WorkOrder, number: int, paths: Sequence[str]) -> Answer:
        return self._tell(PathRequest(order_id=order.order_id, token=order.token, number=number, paths=tuple(paths)))

    def ask_money(self, order: WorkOrder, needs: float) -> Answer:
        """Ask for more of the budget; `needs` is the share of its limits that the next call would exceed them by."""
        usd, tokens = order.limits.cost_usd, order.limits.tokens
        return self._tell(
            MoneyRequest(
                order_id=order.order_id,
                token=order.token,
                kinds=order.shared,
                has_usd=usd,
                has_tokens=tokens,
                needs_usd=needs * (usd or 0.0) if "usd" in order.shared else 0.0,
                needs_tokens=int(needs * (tokens or 0)) if "tokens" in order.shared else 0,
            )
        )

    def grant(self, order_id: str, limits: Limits) -> None:
        """Let the attempt under way know its new limits."""
        self.mail = [
            one.model_copy(update={"limits": limits})
            if isinstance(one, WorkOrder) and one.order_id == order_id
            else one
            for one in self.mail
        ]

    def somebody_else_lands(self) -> None:
        self.moves += 1
        self.tip = f"person-{self.moves}"

    def _tell(self, answer: Answer) -> Answer:
        self.told.append(answer)
        return answer


def composed_on(tip: str, candidates: Sequence[str]) -> list[str]:
    """Return the commits that the candidates are composed to, one on top of the other."""
    steps: list[str] = []
    for candidate in candidates:
        steps.append(_digest("merge", steps[-1] if steps else tip, candidate))
    return steps


def _room(order: WorkOrder, found: Spent) -> tuple[float, int]:
    """Return the USD and tokens that its limits leave an order, or a default where they say nothing."""
    usd, tokens = order.limits.cost_usd, order.limits.tokens
    held = max(order.carried.cost_usd or 0.0, found.cost_usd or 0.0), max(order.carried.tokens, found.tokens)
    left_usd = 1.0 if usd is None else max(0.0, usd - held[0])
    left_tokens = 1000 if tokens is None else max(0, tokens - held[1])
    return left_usd, left_tokens


def _plus(carried: Spent, turn: Spent, times: int) -> Spent:
    return Spent(
        turns=carried.turns + times,
        input_tokens=carried.input_tokens + turn.input_tokens * times,
        cost_usd=(carried.cost_usd or 0.0) + (turn.cost_usd or 0.0) * times,
    )


def message_id(request: Request) -> str:
    return request.order_id if isinstance(request, WorkOrder) else request.request_id


def _certificate(tree: str) -> Certificate:
    return Certificate(key="k", check="test", definition="d", environment="e", tree=tree, seconds=1.0, host="h")


def _digest(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:16]
