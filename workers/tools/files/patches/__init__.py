"""Patches: read, placed and applied."""
