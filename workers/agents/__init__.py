"""
Whoever edits: an assignment in, an answer out, the same for every kind of agent.

`agent.perform` is the seam. `command` runs a shell command in the worktree (codemods, formatters);
`builtin` leads a model's conversation with tools. Agents edit files and nothing else: they are asked for no
commit, and what they say of their work is a claim that no decision reads. An agent's kind is imported only
when one is performed.

Why not a class for each kind, registered by name: there are two, a `match` shows both, and mypy says where a
third one is forgotten. Why not take exit status 0 for success: programs exit with 0 and change nothing. Success
is the end that was asked for, and a difference in the tree.
"""
