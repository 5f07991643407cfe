"""
What a model can do: find, read, write and edit files, run commands, say that it is done.

A `Tool` is an offer (name, description, schema of its arguments), a kind, and a function from arguments and
`Workplace` to an `Answer`. Tools answer the model, never the harness: whatever goes wrong comes back as one line that
says what would be right, and the conversation goes on. Paths are resolved and kept inside the worktree (`workplace`);
what commands may touch is the sandbox's affair. `toolset` says which tools a phase offers.

To find: `listing`, `grep` (over `search`). To read and change: `read`, `write`, `edit`, and `apply_patch` (over
`patch`, `hunks`) for models that were taught patches; `near` tells what a text that did not fit was probably meant to
be. To run: `run`, `background`, `red_phase` (over `verdicts`). To end: `endings`.

Why not a shell alone, with which a model can read and write too: an edit that must find its old text says so
when the file has changed, and a read that is known as one can be left out of a later view.
Why not commit by tool: the harness commits, once, whatever the model believes it has done.
Why a hunk whose white space differs is not applied: where blanks are the program, a guess is a wrong one.
"""
