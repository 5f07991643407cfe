"""YAML documents with line numbers, so that a mistake is told with its place."""
