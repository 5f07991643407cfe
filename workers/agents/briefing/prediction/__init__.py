"""
Predicts the files that a task will change, each with a probability that holds on the repository's own past.

`history` reads the last commits, `facts` what each file defines and imports, `snapshot` keeps both for one tree.
`signals` scores paths by five signals; `calibration` turns a score into a probability; `predict` puts them together.

The past is replayed as if each commit had been a task: its message is the task's text, only what came before it is
known, and the existing files that it changed are the truth. Why no index on disk: git greps a tree in a second, and an
index would be stale; only the calibration, which needs hundreds of trees, is kept, by the tree it was made for.
"""
