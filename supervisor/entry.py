"""
The entry points of requests into a supervisor process. They decode, deliver and answer.

The Celery tasks are dispatched by importing them, never by name.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from forgepool.supervisor.messages.answers import CheckResult, Doubt, Landing, Review
from forgepool.supervisor.messages.requests import CheckRequest, LandRequest, ReviewRequest, TrainRequest
from forgepool.workers.queue.broker import BrokerAway, app, connect
from forgepool.workers.queue.consumer import Delivery, Failed, deliver, read_message
from forgepool.workers.queue.replies import tell
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.settings import Settings


@app.task(name="supervisor.entry.check")  # type: ignore[untyped-decorator]  # celery has no types
def check(encoded: str) -> None:
    request = read_message(CheckRequest, encoded, _failed_check)
    if request is None:
        return

    def work(stop: Callable[[], bool]) -> Message:
        from forgepool.supervisor.gate.check_entry import examine

        return examine(request, Settings(), stop=stop, doubt=lambda: _tell_doubt(request))

    failed = partial(_failed_check, request.request_id, request.token)
    deliver(_delivery(request, failed), work, apart=False)


def _failed_check(request_id: str, token: str, why: str) -> Message:
    return CheckResult(request_id=request_id, token=token, verdict="infrastructure", detail=why, host=Settings().host)


def _tell_doubt(request: CheckRequest) -> None:
    """It spares others some waiting, and is not missed where Redis is away."""
    broker = Settings().broker_url
    if broker is not None:
        with suppress(*BrokerAway), connect(broker) as client:
            tell(client, request.run, Doubt(request_id=request.request_id, token=request.token))


@app.task(name="supervisor.entry.review")  # type: ignore[untyped-decorator]  # celery has no types
def review(encoded: str) -> None:
    request = read_message(ReviewRequest, encoded, _failed_review)
    if request is None:
        return

    def work(stop: Callable[[], bool]) -> Message:
        from forgepool.supervisor.review.run_review import conduct

        return conduct(request, Settings(), stop=stop)

    def make_failure(why: str) -> Message:
        return unforeseen(request, Settings(), why)

    deliver(_delivery(request, make_failure), work, apart=True)


def _failed_review(request_id: str, token: str, why: str) -> Message:
    return Review(request_id=request_id, token=token, outcome="infrastructure", detail=why, host=Settings().host)


def unforeseen(request: ReviewRequest, settings: Settings, why: str) -> Review:
    """Answer for a review that broke off for an unforeseen reason, with the use it had until then."""
    from forgepool.supervisor.review.run_review import sum_spent

    return Review(
        request_id=request.request_id,
        token=request.token,
        outcome="infrastructure",
        detail=why,
        spent=sum_spent(request, settings),
        host=settings.host,
    )


@app.task(name="supervisor.entry.land")  # type: ignore[untyped-decorator]  # celery has no types
def land(encoded: str) -> None:
    request = read_message(LandRequest, encoded, _failed_landing)
    if request is None:
        return

    def work(stop: Callable[[], bool]) -> Message:
        from forgepool.supervisor.gate.land import land as move

        return move(request, Settings(), stop=stop)

    failed = partial(_failed_landing, request.request_id, request.token)
    deliver(_delivery(request, failed), work, apart=False)


def _failed_landing(request_id: str, token: str, why: str) -> Message:
    return Landing(request_id=request_id, token=token, outcome="infrastructure", detail=why, host=Settings().host)


def _delivery(request: TrainRequest, failed: Failed) -> Delivery:
    return Delivery(
        message_id=request.request_id, token=request.token, run=request.run, start_by=request.start_by, failed=failed
    )
