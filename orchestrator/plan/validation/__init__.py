"""
Validates a plan before it costs anything: rules over the plan, the tree it starts from, and what was measured there.

`validate` is pure. Its facts (the tree, the symbols, the results of acceptance commands on the base, the forecast) are
gathered by `launch.plan_facts` and above. A plan that the reader refuses never comes here: its mistakes are in
`PlanWrong`, with lines of the same kind.

A fault is an *error* where the plan cannot do what it says, and a *warning* where it may be meant. A false error on an
honest plan is as bad as a missed fault, so a rule that cannot be sure keeps silent.
"""
