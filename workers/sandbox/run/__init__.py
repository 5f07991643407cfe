"""Run a process in a sandbox: output, limits, background jobs."""
