"""
The context profiles: strategies by which a conversation is shown, each under its published name.

`ledger` is our own and the default. The others can be chosen too, and serve to compare. Each is a class that proposes
edits (`workers.context.edits.state.Profile`).
"""
