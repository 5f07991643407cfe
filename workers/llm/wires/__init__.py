"""The wire formats of model vendors."""
