"""`forgepool demo`: sample runs, told as a story."""
