"""Each request to a supervisor has a Celery task that answers it, on the queue of its kind."""

import pytest

from forgepool.supervisor import entry
from forgepool.workers.queue.broker import CHECKS, LANDINGS, REVIEWS, RegisteredJob, app


@pytest.mark.parametrize(("job", "queue"), [(entry.check, CHECKS), (entry.review, REVIEWS), (entry.land, LANDINGS)])
def test_a_request_that_nobody_would_answer_is_not_sent(job: RegisteredJob, queue: str) -> None:
    assert app.tasks[job.name] is not None
    assert app.conf.task_routes[job.name] == {"queue": queue}
