"""Redis and Celery: messages, leases, presence, and the processes that take orders."""
