"""The worktree of one task: set-up, checkpoints, acceptance, candidate."""
