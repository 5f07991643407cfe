"""The profiles `soulforge-v1` and `soulforge-v2`."""
