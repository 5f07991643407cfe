"""
Context messages between a running attempt and its orchestrator, through Redis. Any of them may be lost.

The orchestrator records the profile a person wants, and attempts look for it before each model call. An attempt reports
each rebuild, but the entry in its transcript is what counts.
"""

from typing import Literal, cast

from forgepool.workers.context.transcript.entries import Rebuilt
from forgepool.workers.queue.broker import Redis, RedisTrouble, connect
from forgepool.workers.queue.replies import tell
from forgepool.workers.schema.orders import Message

_KEEP_S = 24 * 3600


class ContextTold(Message):
    """
    A rebuild of a running order, as the journal's `ContextRebuilt` records it. Without a change and a reason it says
    alone how full the window is.
    """

    kind: Literal["context_told"] = "context_told"
    order_id: str
    token: str
    profile: str
    why: str
    changed: bool
    before_tokens: int
    after_tokens: int
    window_tokens: int
    calls: int
    cost_usd: float | None
    dropped: tuple[int, ...]
    archive: str


def tell_rebuilt(broker_url: str | None, run: str, order_id: str, token: str, entry: Rebuilt) -> None:
    note = ContextTold(
        order_id=order_id,
        token=token,
        profile=entry.profile,
        why=entry.why,
        changed=entry.edit is not None,
        before_tokens=entry.before_tokens,
        after_tokens=entry.after_tokens,
        window_tokens=entry.window_tokens,
        calls=entry.calls,
        cost_usd=entry.usage.cost_usd,
        dropped=entry.dropped,
        archive=entry.archive,
    )
    _tell(broker_url, run, note)


def tell_filled(
    broker_url: str | None, run: str, order_id: str, token: str, profile: str, tokens: int, window_tokens: int
) -> None:
    """Tell how much of the window the next request of a running order fills."""
    note = ContextTold(
        order_id=order_id,
        token=token,
        profile=profile,
        why="",
        changed=False,
        before_tokens=tokens,
        after_tokens=tokens,
        window_tokens=window_tokens,
        calls=0,
        cost_usd=0.0,
        dropped=(),
        archive="",
    )
    _tell(broker_url, run, note)


def _tell(broker_url: str | None, run: str, note: ContextTold) -> None:
    if broker_url is None:
        return
    try:
        with connect(broker_url) as client:
            tell(client, run, note)
    except RedisTrouble:
        return


def wish_profile(client: Redis, run: str, task: str, profile: str) -> None:
    client.set(_key(run, task), profile, ex=_KEEP_S)


def read_wished_profile(broker_url: str | None, run: str, task: str) -> str | None:
    """Return the profile a person wants; None where there is none or Redis is unreachable."""
    if broker_url is None:
        return None
    try:
        with connect(broker_url) as client:
            return cast(str | None, client.get(_key(run, task)))
    except RedisTrouble:
        return None


def _key(run: str, task: str) -> str:
    return f"forgepool:context:{run}:{task}"
