"""The target's `forgepool.yaml`: its checks, scopes, scan rules and generated files, and which paths are tests."""
