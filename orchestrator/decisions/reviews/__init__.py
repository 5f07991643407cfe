"""Decide which reviews and post-merge checks are due, and what their answers lead to."""
