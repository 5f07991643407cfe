"""
What a check's run shows: its tests by id, what is evidence and what is none, and how a run compares with the tip's.

`reports` and `junit` read what runners write, `evidence` says what a run shows, `judging` compares it with the tip's,
and is pure. `test_paths` is the one list of what is a test, a test's support or a setting of the gate; `protected` puts
these back as the target has them, `touched` says who lets an entry change them. `flakes` counts.
"""
