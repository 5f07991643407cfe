"""
Checks: the target's commands, each run in a clean checkout, judged against the tip, and what a green one earns.

`lines` says which checks share a checkout and which is run first, `setups` fills it, `running` runs the commands.
`runs` takes a run from the host's store (`store`) or from the commands. `trial` asks for runs until there is a
judgement (`supervisor.checks.results`), and a green check earns a certificate (`certificates`). The checks of the tip
itself are in `supervisor.gate.check_target`. `traced` leaves out the test files that are proven green. `non_voting`
runs checks without a vote, and `cannot_fail` finds commands that cannot fail.
"""
