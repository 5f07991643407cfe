"""The one place that understands shell commands."""
