"""Decide which tasks are worked on: ready tasks, locks, retries, and what a worker's result leads to."""
