"""
Checks: the target's commands, each run in a clean checkout, judged against the tip, and what a green one earns.

`lines` says which checks share a checkout and which is run first, `setups` fills it, `running` runs the commands.
`runs` takes a run from the host's store or from the commands, and `trial` asks for runs until there is a judgement
(`supervisor.checks.results`). A green check earns a certificate (`certificates`). `whole` is the tip itself, without
entries; `unfailing` finds commands that cannot fail; `failures` has the words.
"""
