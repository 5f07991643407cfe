"""
The agents, which edit files: each kind takes an assignment and returns an answer (`contract`).

`dispatch.perform` runs the agent that an order names. A shell command runs in the worktree (codemods, formatters).
`cli` runs coding agents that have a command line of their own. `builtin` is Forgepool's own agent: `agent` assembles an
attempt, `attempt` leads it from phase to phase, and `loop` leads one conversation. `briefing` makes the texts that an
agent starts from, and `render_transcript` a log of its work for people.

Agents edit files and nothing else: they are asked for no commit, and their statements about the work are claims that no
decision reads. An agent's kind is imported only when an order names it. No agent starts another.

Why not a class for each kind, registered by name: there are four, a `match` shows them, and mypy says where a fifth is
forgotten. Why is exit status 0 no success: programs exit with 0 and change nothing. Success is the expected end and a
difference in the tree. Why not one conversation for all phases: the reading that finds the place is in the way of the
work, and a model that can skip a phase does.
"""
