"""The requests of a task that leads its run, the replies to it, and the proof of its synthesis."""
