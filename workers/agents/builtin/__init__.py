"""The built-in agent: one conversation with a model, with tools."""
