"""Commits: composed, compared, replayed."""
