"""
Deterministic scans over the composed diff: milliseconds, no model, the same answer every time.

One module for each family of rules; `subject` is what they look at, `scanning` asks them all.
"""
