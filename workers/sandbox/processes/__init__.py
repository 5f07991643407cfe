"""Process groups, user ids and scratch folders."""
