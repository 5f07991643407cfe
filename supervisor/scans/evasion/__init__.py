"""Scans for code that notices, ends or replaces what checks it."""
