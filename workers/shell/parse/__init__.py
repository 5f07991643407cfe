"""A shell script as a tree."""
