"""Shorter forms of single tool results."""
