"""The transcript: every message and call of a task, as written to disk."""
