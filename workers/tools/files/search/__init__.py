"""Tools that find files and lines."""
