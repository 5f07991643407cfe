"""A shell script as tokens."""
