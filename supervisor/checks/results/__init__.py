"""
The results of checks: tests by id, evidence, and the comparison with the same check on the tip.

`reports` and `junit` read what runners write, `evidence` says what a run shows, `judging` compares it with the tip's,
and is pure. `test_paths` is the one list of what is a test, a test's support or a setting of the gate; `protected` puts
these back as the target has them, `touched` says who lets an entry change them. `flakes` counts.
"""
