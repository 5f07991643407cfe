"""The data that messages and documents are made of, and how YAML is read."""
