"""Commands about plans: what is planned for a run."""
