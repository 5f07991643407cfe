"""Tools that end a turn or a conversation."""
