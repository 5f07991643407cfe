"""The plan: its tasks, their dependencies and files, their budget."""
