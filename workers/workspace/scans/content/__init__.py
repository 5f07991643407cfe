"""Scans of added lines: secrets, hidden characters, unfinished work, and attempts to deceive a reviewer or a runner."""
