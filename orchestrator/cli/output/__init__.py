"""Text on the terminal: lines, tables, live progress, and sentences for failures."""
