"""Results of landed tasks that other tasks and people read: commits, transcripts, earlier runs."""
