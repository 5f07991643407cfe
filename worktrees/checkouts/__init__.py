"""Checkouts: folders with one commit's files, leased from a pool that reuses them."""
