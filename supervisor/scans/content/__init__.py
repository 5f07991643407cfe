"""Scans of added lines."""
