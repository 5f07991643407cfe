"""One order, from the message to the candidate."""
