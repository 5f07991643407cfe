"""Source files for scans: parsed within bounds, in one spelling, without layout."""
