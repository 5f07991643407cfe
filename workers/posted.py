"""A host that a run has started on its own machine: `python -m workers.posted QUEUES CONCURRENCY LOG`."""

import sys
from pathlib import Path

from forgepool.workers.host import Post, serve
from forgepool.workers.logs import log_to_stderr
from forgepool.workers.settings import Settings

if __name__ == "__main__":
    log_to_stderr()
    queues, concurrency, log = sys.argv[1:]
    sys.exit(serve(Post(queues=tuple(queues.split(",")), concurrency=int(concurrency), log=Path(log)), Settings()))
