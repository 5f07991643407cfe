"""
Commands that make plans: `forgepool plan` and `do` from a goal, `forgepool add` for a run under way.

A goal in a sentence becomes a plan file, and a person's yes runs it.

A planner, which is a model that reads a clean checkout of the base and can change nothing, writes the plan with its
tool `write_plan`. The tool answers with the mistakes of the plan's reader and the faults of its validation, so that the
planner corrects them; after three refused forms the command fails and keeps the draft. A critic, which is a model of
another family, may object once. The result is an ordinary plan file, which nothing runs before a person has read it.

Why a file, and not a plan in memory? A person can read it, compare it, correct it and keep it, and everything that
checks, forecasts and runs plans already takes one.
"""
