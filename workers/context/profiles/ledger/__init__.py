"""The profile `ledger`."""
