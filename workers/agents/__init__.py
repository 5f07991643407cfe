"""
Whoever edits: an assignment in, an answer out, the same for every kind of agent.

`dispatch.perform` chooses the agent. `command` runs a shell command in the worktree (codemods, formatters). `cli` runs
coding agents that have a command line of their own. `builtin` puts an attempt of the built-in agent together, and
`attempt` leads it from phase to phase: what a model is told (`card`, `material`, `told`, `words`), what it may use
(`toolbox`, `servers`), and a log of it all that a person can read (`narration`).

Agents edit files and nothing else: they are asked for no commit, and what they say of their work is a claim that no
decision reads. An agent's kind is imported only when one is performed. Agents are leaves: none starts another.

Why not a class for each kind, registered by name: there are four, a `match` shows them, and mypy says where a fifth is
forgotten. Why not take exit status 0 for success: programs exit with 0 and change nothing. Success is the end that was
asked for, and a difference in the tree. Why not one conversation for all phases: what was read to find the place is in
the way of doing the work, and a model that can skip a phase does.
"""
