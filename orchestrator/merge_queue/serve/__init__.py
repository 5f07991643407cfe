"""Serve a merge queue: one loop for each target, and what several of them share."""
