"""One function for each event: the change it makes to the state."""
