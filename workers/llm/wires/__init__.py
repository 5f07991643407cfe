"""The wire formats of model vendors, one adapter each."""
