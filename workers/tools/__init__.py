"""
The tools of a model: find, read, write and edit files, run commands, end the conversation.

A `Tool` is an offer (name, description, schema of its arguments), a kind, and a function from arguments and `Workplace`
to a `ToolAnswer`. Whatever goes wrong comes back to the model as one line that says what would be right, and the
conversation goes on. `workplace` resolves paths and keeps them inside the worktree; the sandbox limits what commands
may touch. `toolset` says which tools a phase offers.

To find: `listing`, `grep`. To read and write: `text_file`, `edit`, and `apply_patch` (over `patch`) for models that
were taught patches. To run: `run`, `red_phase` (over `runners`). To end: `endings`. Other servers' tools: `lsp`, `mcp`.

Why not a shell alone, which can read and write too: an edit that must find its old text reports a changed file, and a
known read can be left out of a later view.

Why not commit by tool: the harness commits once, whatever the model believes it has done.

Why a hunk whose white space differs is not applied: where blanks are the program, a guess is a wrong one.
"""
