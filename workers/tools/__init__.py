"""
What a model can do: read, write, edit and list files, run commands, finish.

A `Tool` is a name, a description, a model of its arguments and a function from arguments and `Workplace` to
an `Answer`. Tools answer the model, never the harness: whatever goes wrong comes back as one line that says
what would be right, and the conversation goes on. Paths are resolved and kept inside the worktree
(`workplace`); what commands may touch is the sandbox's affair. Which tools a phase offers is decided where
phases are.

Why not a shell alone, with which a model can read and write too: an edit that must find its old text says so
when the file has changed, and a read that is known as one can be left out of a later view.
Why not commit by tool: the harness commits, once, whatever the model believes it has done.
"""
