"""Decide which candidates are checked together, and which land."""
