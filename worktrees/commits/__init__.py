"""Commits: made, composed, compared and read."""
