"""
The part of the run's budget that an attempt has, made larger on request.

An attempt asks once four fifths of its part are used, or the next call has little room, and goes on meanwhile. Only one
that could make no further call waits for the answer. The orchestrator has reserved what it grants before it says so.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from forgepool.workers.context.transcript.usage import ROUNDED_USD, Shortage
from forgepool.workers.queue.broker import BrokerAway, Redis, connect
from forgepool.workers.queue.replies import MoneyAnswer, MoneyRequest, ask_money, read_money
from forgepool.workers.schema.orders import LimitKind, Limits, Spent, WorkOrder

_SHARE = 0.8
"""The share of its part that an attempt has used when it asks."""
_AGAIN_S = 2.0
"""Seconds after which a request without an answer is repeated: Redis may have lost it."""
_LOOK_S = 0.05


@dataclass(slots=True, kw_only=True)
class BudgetPart:
    order: WorkOrder
    broker_url: str
    stop: Callable[[], bool]
    left_s: Callable[[], float]
    known: Limits
    """The limits of its order, as they were raised since."""
    _asked: MoneyRequest | None = None
    _asked_at: float = 0.0
    refused: bool = False
    """The last answer was that too little is left."""

    @property
    def kinds(self) -> tuple[LimitKind, ...]:
        return self.order.shared

    def grow(self, limits: Limits, spent: Spent, short: Shortage | None) -> Limits:
        """Return the limits, raised by what was granted since. Ask for more where little is left of them."""
        near = self._find_near(limits, spent, short)
        if not near:
            return limits
        stops = short is not None and short.stops
        request = MoneyRequest(
            order_id=self.order.order_id,
            token=self.order.token,
            kinds=near,
            has_usd=self.known.cost_usd,
            has_tokens=self.known.tokens,
            needs_usd=short.usd if short is not None and "usd" in near else 0.0,
            needs_tokens=short.tokens if short is not None and "tokens" in near else 0,
        )
        try:
            with connect(self.broker_url) as client:
                answer = self._hear(client, request, wait=stops)
        except BrokerAway:
            return limits
        return limits if answer is None else self._take(answer, limits)

    def _find_near(self, limits: Limits, spent: Spent, short: Shortage | None) -> tuple[LimitKind, ...]:
        carried, kinds = self.order.carried, short.kinds if short is not None else ()
        usd, tokens = limits.cost_usd, limits.tokens
        near: dict[LimitKind, bool] = {
            "usd": usd is not None and _is_near(spent.cost_usd or 0.0, carried.cost_usd or 0.0, usd),
            "tokens": tokens is not None and _is_near(spent.tokens, carried.tokens, tokens),
        }
        return tuple(kind for kind in self.order.shared if near[kind] or kind in kinds)

    def _hear(self, client: Redis, request: MoneyRequest, *, wait: bool) -> MoneyAnswer | None:
        while True:
            if request != self._asked or time.monotonic() > self._asked_at + _AGAIN_S:
                self._asked, self._asked_at = request, time.monotonic()
                ask_money(client, self.order, request)
            answer = read_money(client, self.order.order_id)
            if answer is not None and (self._is_more(answer) or _refuses(answer, request)):
                self.refused = not self._is_more(answer)
                return answer
            if not wait or self.stop() or self.left_s() <= 0:
                return None
            time.sleep(_LOOK_S)

    def _is_more(self, answer: MoneyAnswer) -> bool:
        usd, tokens = self.known.cost_usd, self.known.tokens
        more_usd = answer.usd is not None and usd is not None and answer.usd > usd + ROUNDED_USD
        return more_usd or (answer.tokens is not None and tokens is not None and answer.tokens > tokens)

    def _take(self, answer: MoneyAnswer, limits: Limits) -> Limits:
        """Add what is new: the attempt's limits may be less than its order's, by usage that it does not know of."""
        before = self.known
        if answer.usd is not None and before.cost_usd is not None and limits.cost_usd is not None:
            limits = limits.model_copy(update={"cost_usd": limits.cost_usd + max(0.0, answer.usd - before.cost_usd)})
            self.known = self.known.model_copy(update={"cost_usd": max(answer.usd, before.cost_usd)})
        if answer.tokens is not None and before.tokens is not None and limits.tokens is not None:
            limits = limits.model_copy(update={"tokens": limits.tokens + max(0, answer.tokens - before.tokens)})
            self.known = self.known.model_copy(update={"tokens": max(answer.tokens, before.tokens)})
        return limits


def _is_near(spent: float, carried: float, limit: float) -> bool:
    return spent - carried >= _SHARE * (limit - carried)


def _refuses(answer: MoneyAnswer, request: MoneyRequest) -> bool:
    """Tell whether this very request is put off, and not a smaller one before it."""
    enough = answer.needs_usd >= request.needs_usd and answer.needs_tokens >= request.needs_tokens
    return answer.verdict == "queued" and enough
