"""Commands about runs: start, resume, follow, ask, answer, clean up."""
