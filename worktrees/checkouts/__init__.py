"""A pool of checkouts that are used again."""
