"""The gate: requirements, scans, checks and landing of one candidate."""
