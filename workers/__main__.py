"""
The Celery worker itself, `python -m forgepool.workers QUEUES CONCURRENCY`: started and watched over by `workers.host`.

Reads its broker from the settings. Nobody starts it by hand; `forgepool worker` is the command for people.
"""

import importlib
import sys

from forgepool.workers.logs import log_to_stderr
from forgepool.workers.settings import Settings
from forgepool.workers.wire import app, use_broker
from forgepool.worktrees.git import git_version

_NEEDED = {
    "orders": ("forgepool.workers.orders", "forgepool.workers.agents.command", "forgepool.workers.agents.builtin"),
    "checks": ("forgepool.supervisor.gate",),
    "landings": ("forgepool.supervisor.lander",),
    "reviews": (),
}
"""By queue, what every message of it needs."""


def main() -> None:
    queues, concurrency = sys.argv[1:3]
    settings = Settings()
    log_to_stderr()
    # Once, before the forks: a process per message must not import anew what every message needs.
    for queue in queues.split(","):
        for name in _NEEDED[queue]:
            importlib.import_module(name)
    git_version()
    use_broker(settings.broker_url or "")
    app.worker_main(
        [
            "worker",
            f"--queues={queues}",
            f"--concurrency={concurrency}",
            "--pool=prefork",
            "--loglevel=WARNING",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            f"--hostname=forgepool-{queues.replace(',', '-')}@{settings.host}",
        ]
    )


if __name__ == "__main__":
    main()
