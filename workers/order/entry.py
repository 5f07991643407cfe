"""
The Celery task by which an order enters a worker process: decode, deliver, carry out.

The Celery task is called `run_order`; senders dispatch by importing it, never by its name.
"""

import time
from collections.abc import Callable

from forgepool.workers.queue.broker import app
from forgepool.workers.queue.consumer import Delivery, deliver, read_message
from forgepool.workers.schema.orders import Message, WorkOrder, WorkResult
from forgepool.workers.schema.settings import Settings


@app.task(name="workers.entry.run_order")  # type: ignore[untyped-decorator]  # celery has no types
def run_order(encoded: str) -> None:
    order = read_message(WorkOrder, encoded, _cannot_read)
    if order is None:
        return

    def work(stop: Callable[[], bool]) -> Message:
        from forgepool.workers.order.run_order import carry_out

        return carry_out(order, Settings(), stop=stop)

    def make_failure(why: str) -> Message:
        from forgepool.workers.workspace.resume import sum_so_far

        return WorkResult(
            **sum_so_far(order, Settings()),
            order_id=order.order_id,
            token=order.token,
            outcome="infrastructure",
            detail=why,
            host=Settings().host,
            started_at=time.time(),
            finished_at=time.time(),
        )

    if order.agent.kind == "builtin":
        from forgepool.workers.llm.routing.open import preload

        preload(Settings())
    delivery = Delivery(
        message_id=order.order_id, token=order.token, run=order.run, start_by=order.start_by, failed=make_failure
    )
    deliver(delivery, work, apart=True)


def _cannot_read(order_id: str, token: str, why: str) -> Message:
    """Return an answer by which the order goes to another host, or to a person where there is none."""
    settings = Settings()
    return WorkResult(order_id=order_id, token=token, outcome="needs_human", lacks=True, detail=why, host=settings.host)
