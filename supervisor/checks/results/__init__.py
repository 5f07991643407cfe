"""
The results of checks: tests by id, evidence, and the comparison with the same check on the tip.

`reports` and `junit` read the reports of test runners, and `problems` the output of linters. `evidence` says what a run
shows. `judging` compares it with the tip's run, and is pure. `failures` describes a check that was not green.

`workers.policy.gate_file.test_paths` is the one list of tests, their support and settings of the gate. `protected` puts
these back as the target has them, with `shared_settings` for files that hold other settings too. `touched` says who
lets an entry change them. `flakes` counts.
"""
