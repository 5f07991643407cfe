"""Profiles that others use, for comparison."""
