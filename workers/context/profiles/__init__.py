"""
The strategies a conversation can be shown by, each under its published name, with its own formats and defaults.

`ledger` is ours, and the default. The others are there to be chosen, and to be compared with: a profile is a class that
proposes edits (`workers.context.edits.state.Profile`), and what is published about it stands in its module.
"""
