"""
The host that a run starts on its own machine: `python -m forgepool.workers.queue.host_main QUEUES=CONCURRENCY=LOG...`.
"""

import sys
from pathlib import Path

from forgepool.workers.queue.host import WorkerPost, serve
from forgepool.workers.schema.logs import log_to_stderr
from forgepool.workers.schema.settings import Settings


def _post(text: str) -> WorkerPost:
    queues, concurrency, log = text.split("=", 2)
    return WorkerPost(queues=tuple(queues.split(",")), concurrency=int(concurrency), log=Path(log))


if __name__ == "__main__":
    log_to_stderr()
    sys.exit(serve([_post(text) for text in sys.argv[1:]], Settings()))
