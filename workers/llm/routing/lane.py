"""
A provider that makes one call by a vendor's batch lane, and never waits for it.

A first request makes the batch, and later ones look at it, with pauses that grow with the time that has passed. Each
ends with a `BatchTicket` to be journaled. Where the lane brings no answer, the ticket says why, and the caller makes
the call live. The lane makes no live call itself, so what it has cost is known: nothing, or one answer.

Before it makes a batch again, because the request that may have made one was lost, it looks for that one.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from forgepool.workers.llm.batch import BatchCall, Batches, BatchLook, BatchTicket
from forgepool.workers.llm.messages import Turn, Usage
from forgepool.workers.llm.provider import Hear, ModelFailed, ModelRequest, ProviderTry, deaf
from forgepool.workers.llm.routing.chain import ModelChain
from forgepool.workers.llm.routing.open import keys_present, open_batches
from forgepool.workers.llm.routing.router import ModelChoice, Tariff, candidates, tariff
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.schema.orders import Spent

_FIRST_LOOK, _LONGEST_PAUSE_S = 1 / 120, 600.0
"""The first pause, as a share of the time until the deadline, and the longest."""
_GRACE_S = 900.0
"""Seconds for which a cancelled batch is waited for: OpenAI takes up to ten minutes to end one."""
_CHARACTERS_PER_TOKEN = 3
"""Fewer than any vendor counts, so that the estimate errs on the safe side."""
_FOR_GOOD = ("authentication", "bad_request", "overflow")


@dataclass(kw_only=True)
class BatchLane:
    call: BatchCall
    table: Table
    clock: Callable[[], float] = time.time
    ticket: BatchTicket = field(init=False)
    over: str = ""
    """Why the call is to be made live."""
    waits: bool = False
    """The batch is there, or may be, and has no answer yet."""
    read: bool = False
    """The batch's answer was given to the conversation."""
    lost: Spent = field(default_factory=Spent)
    """The most that a batch has cost that is given up while it may still be answered."""
    said: str = ""
    """Why the vendor could not be asked just now."""
    _look: BatchLook | None = None

    def __post_init__(self) -> None:
        self.ticket = self.call.ticket or BatchTicket()

    @property
    def late(self) -> bool:
        return self.clock() >= self.call.until

    @property
    def not_before(self) -> float:
        """The time of the next look."""
        now = self.clock()
        if self.over:
            return now
        first = (self.call.until - self.call.since) * _FIRST_LOOK
        pause = max(first, (now - (self.call.until if self.late else self.call.since)) / 2)
        then = now + min(pause, _LONGEST_PAUSE_S)
        return then if self.late else min(then, self.call.until)

    def look(self) -> None:
        """Look at the batch once. Past its deadline, cancel it."""
        if self.late and not self.ticket.id:
            self._give_up("no batch was made before its deadline", lost=self.call.again)
        if not self.ticket.id:
            return
        self.ticket = self.ticket.model_copy(update={"looks": self.ticket.looks + 1})
        found = self._ask_how_it_stands()
        if found is None and self.late and not self.ticket.cancelled:
            with suppress(ModelFailed):
                self._batches.cancel(self.ticket.id)
            self.ticket = self.ticket.model_copy(update={"cancelled": True})
            found = self._ask_how_it_stands()
        self._look = found
        self.waits = found is None
        if found is not None and found.kind == "over":
            late = ", past its deadline" if self.late else ""
            self._give_up(found.why + late, lost=False)
        elif self.waits and self.clock() >= self.call.until + _GRACE_S:
            self._give_up("its batch has not ended since it was cancelled, past its deadline", lost=True)

    def choose(self, chain: ModelChain) -> None:
        """Choose the model and the account of a call for which there is no batch yet."""
        if self.ticket.account:
            return
        able = [one.candidate for one in chain.contenders if not one.wanting]
        with_lane = (one for one in able if self.table.accounts[one.account].batch is not None)
        if (chosen := next(with_lane, None)) is None:
            tried = ", ".join(dict.fromkeys(one.account for one in able))
            self.over = f"no account of its reviewers has a batch lane ({tried}); give one `batch` in models.yaml"
        else:
            self.ticket = BatchTicket(account=chosen.account, model=chosen.model)

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        """
        Return the batch's answer, once.

        Raises:
            ModelFailed: there is none, and `over` or `waits` says what follows; or it was read already.
        """
        if self.read:
            raise ModelFailed("a batch answers once", trouble="no_turn")
        if self._look is not None:
            return self._read(request, self._look, hear)
        if not self.over:
            self._make(request)
        said = self.over or self.said or f"it is in batch {self.ticket.id}"
        raise ModelFailed(said, trouble="unavailable", resets_at=self.not_before)

    def _read(self, request: ModelRequest, found: BatchLook, hear: Hear) -> Turn:
        self.read = True
        try:
            turn = self._batches.read(found.answer, request)
        except ModelFailed as failed:
            usage = self._priced(failed.usage)
            hear(
                ProviderTry(
                    model=self.ticket.model,
                    account=self.ticket.account,
                    trouble=failed.trouble,
                    said=str(failed),
                    status=200,
                    seconds=0.0,
                    wait_s=None,
                    usage=usage,
                )
            )
            raise
        return turn.model_copy(update={"model": self.ticket.model, "usage": self._priced(turn.usage)})

    def _make(self, request: ModelRequest) -> None:
        most = self._find_most(request)
        self.ticket, self.waits = self.ticket.model_copy(update={"most": most}), True
        try:
            found = None
            if self.call.again:
                found = self._batches.find(self.call.key, self.call.since, self.call.others)
            made = self._batches.create(self.call.key, request) if found is None else found
        except ModelFailed as failed:
            self.said = str(failed)
            if failed.trouble in _FOR_GOOD:
                self._give_up(f"it could not be sent to a batch: {failed}", lost=False)
            return
        self.ticket = self.ticket.model_copy(update={"id": made})
        self.said = "" if made else "a batch that may hold it is under way"

    def _give_up(self, why: str, *, lost: bool) -> None:
        self.over, self.waits = why, False
        self.lost = self.ticket.most if lost else Spent()
        self.ticket = self.ticket.model_copy(update={"over": why})

    def _ask_how_it_stands(self) -> BatchLook | None:
        """Return how the batch has ended; None where it has not, or cannot be asked."""
        found = self._try(lambda: self._batches.look(self.ticket.id, self.call.key))
        return found if found is not None and found.kind != "waits" else None

    def _try(self, asked: Callable[[], BatchLook | None]) -> BatchLook | None:
        try:
            return asked()
        except ModelFailed as failed:
            self.said = str(failed)
            return None

    def _find_most(self, request: ModelRequest) -> Spent:
        texts = [*request.system, *(tool.description + json.dumps(dict(tool.schema)) for tool in request.tools)]
        texts += [turn.model_dump_json() for turn in request.turns]
        given = sum(map(len, texts)) // _CHARACTERS_PER_TOKEN + 1
        limit = self.table.models[self.ticket.model].max_output_tokens
        made = min(limit, request.max_output_tokens or limit)
        cost = self._tariff.worst_case_usd(given, made)
        return Spent(turns=1, input_tokens=given, output_tokens=made, cost_usd=cost)

    def _priced(self, usage: Usage) -> Usage:
        return usage if usage == Usage() else usage.model_copy(update={"cost_usd": self._tariff.cost_usd(usage)})

    @property
    def _choice(self) -> ModelChoice:
        """
        Raises:
            ModelFailed: this host's table has no such model and account.
        """
        own, known = self.ticket, self.table.models
        there = candidates(self.table, own.model, keys=keys_present(self.table)) if own.model in known else ()
        found = next((one for one in there if one.account == own.account), None)
        if found is None or found.wants_key:
            raise ModelFailed(f"this host cannot ask model '{own.model}' of account '{own.account}'")
        return found

    @cached_property
    def _batches(self) -> Batches:
        return open_batches(self.table, self._choice)

    @property
    def _tariff(self) -> Tariff:
        return tariff(self.table, self._choice, batch=True)
