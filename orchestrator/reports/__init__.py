"""Text and JSON for people: status, events, costs, the report in the morning."""
