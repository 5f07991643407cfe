"""
The Celery worker itself: `workers.queue.host` imports what its messages need, forks, and calls `work` in the child.
"""

import gc
import importlib
from collections.abc import Iterable

from forgepool.workers.queue.broker import CHECKS, LANDINGS, ORDERS, REVIEWS, Queue, app, use_broker
from forgepool.workers.schema.logs import log_to_stderr
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import git_version

_NEEDED: dict[Queue, tuple[str, ...]] = {
    ORDERS: (
        "forgepool.workers.order.run_order",
        "forgepool.workers.agents.command",
        "forgepool.workers.agents.builtin.agent",
    ),
    CHECKS: ("forgepool.supervisor.gate.check_entry",),
    LANDINGS: ("forgepool.supervisor.gate.land",),
    REVIEWS: (),
}
"""By queue, what every message of it needs."""


def import_needed(queues: Iterable[Queue]) -> None:
    """Once, before the forks: a process per message must not import anew what every message needs."""
    # What is imported stays: the collector would look through it again and again, and find nothing.
    gc.disable()
    for queue in queues:
        for name in _NEEDED[queue]:
            importlib.import_module(name)
    gc.enable()
    git_version()


def work(queues: tuple[Queue, ...], concurrency: int) -> None:
    """Serves messages of these queues, so many at once, until SIGTERM. Reads its broker from the settings."""
    settings = Settings()
    log_to_stderr()
    use_broker(settings.broker_url or "")
    app.worker_main(
        [
            "worker",
            f"--queues={','.join(queues)}",
            f"--concurrency={concurrency}",
            "--pool=prefork",
            "--loglevel=WARNING",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            f"--hostname=forgepool-{'-'.join(queues)}@{settings.host}",
        ]
    )
