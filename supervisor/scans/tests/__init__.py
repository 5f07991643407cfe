"""Scans that compare the tests before and after a change."""
