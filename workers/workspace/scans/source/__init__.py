"""Source files as scans read them: comments and strings apart from code, in one spelling, and without layout."""
