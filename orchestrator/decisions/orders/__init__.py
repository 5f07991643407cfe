"""Orders: which start now, and with how much of the run's budget."""
