"""Which model is asked, what it costs, and what follows a failure."""
