"""The journal: every event of a run or a queue, in the order in which it was written."""
