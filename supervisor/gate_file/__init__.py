"""The target's forgepool.yaml: checks, scopes, scan rules, and which paths are tests."""
