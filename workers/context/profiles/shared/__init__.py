"""Parts that several profiles share."""
