"""The requests to the supervisor, and its answers."""
