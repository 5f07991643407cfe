"""The facts of a conversation: calls, files, names, tokens."""
