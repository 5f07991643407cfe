"""
The host that a run starts on its own machine: `python -m forgepool.workers.queue.host_main QUEUES=CONCURRENCY=LOG...`.
"""

import gc
import sys

if __name__ == "__main__":
    # What it imports stays: the collector would look through it again and again, and find nothing.
    gc.disable()
    from forgepool.workers.queue.host import serve_posts

    sys.exit(serve_posts(sys.argv[1:]))
