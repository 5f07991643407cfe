"""
Checks: the target's commands, each run in a clean checkout, judged against the tip, and what a green one earns.

`running` runs the commands, in checkouts that `workers.workspace.checks` divides and fills. `runs` takes a run from the
host's store (`store`) or from the commands. `trial` asks for runs until there is a judgement
(`supervisor.checks.results`), and a green check earns a certificate (`certificates`). The checks of the tip itself are
in `supervisor.gate.check_target`. `non_voting` runs checks without a vote, and `sibling_tests` the tests of a returned
attempt. `traced` leaves out the test files that are proven green. `missing` finds programs that commands lack, and
`cannot_fail` finds commands that cannot fail.
"""
