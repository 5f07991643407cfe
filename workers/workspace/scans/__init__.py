"""
Deterministic scans of the composed diff: fast, without a model, and with the same answer every time.

Each module holds one family of rules. `subject` is the change they read, and `scanning` runs them all.
"""
