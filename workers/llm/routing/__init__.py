"""The routing of requests: which model is asked, what it costs, and what follows a failure."""
