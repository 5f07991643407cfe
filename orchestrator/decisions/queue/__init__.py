"""Decide which submissions enter a merge queue, and what a run delegates to one."""
