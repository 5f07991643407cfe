"""Edits that make a conversation shorter, and when they are due."""
