"""Scans of paths: protected files, settings of tools, the shape of a change."""
