"""Carry out decisions: send orders, take in answers, watch leases, recover after a crash."""
