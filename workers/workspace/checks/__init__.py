"""
The target's checks where commands run: which share a checkout (`lines`), what they find in it (`setups`), and the
dependency folders that set-ups fill (`dependencies`).

The supervisor runs and judges them in its own way. `target_checks` runs them on an attempt's work, for its author.
"""
