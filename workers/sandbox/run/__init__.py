"""Runs commands in a sandbox: to their end, in the background, or as a dialogue."""
