"""A merge queue on a virtual clock, beside the queues of others."""
