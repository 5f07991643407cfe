"""The profile `pace`."""
