"""
A worker turns one order into one candidate. This package also carries every message of Forgepool.

An **order** is the message that asks for one **attempt** at a task. A worker takes the order's **lease**, leases a
checkout, lets an **agent** edit, runs the task's acceptance commands and commits the files. Then it puts the
**candidate** into the hub together with its **result** (`order.run_order`). Files of an attempt without a candidate go
to another ref, from which nothing lands. Statements of the agent about its own work are stored (`claimed_*`), and no
decision reads them.

The rooms, from the lowest to the highest; each imports only those before it:

- `schema`: messages, globs, settings, YAML with line numbers.
- `sandbox`: the only door to processes. bubblewrap, or Landlock and seccomp; on macOS Seatbelt.
- `queue`: the only door to Celery and Redis. Leases, answers, presence, and the processes that take messages.
- `llm`: the only door to models. Wire formats, retries, prices, the chain of models for a task.
- `tools`: the tools a model may call, language servers and MCP servers among them.
- `shell`: the only place that understands shell commands: scan, parse, known programs, effects, purpose.
- `policy`: may this call be made? Rules of the person, the repository and the plan. `policy.gate_file` is the
  repository's own file.
- `context`: the part of a conversation that a model is sent, and profiles that keep it short.
- `workspace`: the worktree of one task, its dependencies, checkpoints, acceptance commands, candidate. Its `scans` are
  the gate's, too.
- `agents`: the built-in agent, command-line agents, shell commands, and the text each of them starts from.
- `order`: one order, from the message to the candidate.

The built-in agent goes through **phases** (`agents.builtin.phases`). Each is a conversation (`agents.builtin.loop`),
written down as it happens, with limits that are tested before each question. After every turn the files and the
transcript are pushed to the hub (`workspace.checkpoints`), where another worker finds them after a crash
(`workspace.resume`).

Every message, of the supervisor too, enters through `queue.consumer` and is handled in a forked process of its own: its
death is seen at once, and memory and child processes go with it. The lease is a Redis key with the attempt's token,
renewed by a thread. A **fence** ends a message for good. Answers go into one stream for each run. A **host** process
starts dead Celery workers again, ends orphaned processes, and announces that it is present.

Why not rely on Celery's redelivery: the message of a killed child comes back in seconds, that of a killed main process
only after the visibility timeout. A message popped by a dying connection never comes back. The sender watches leases
and sends again. A second delivery finds the lease, the fence or the marker, and does nothing.

Why not the agent's own commit as the candidate: it may commit half, amend, or move HEAD. The harness commits the files
that are there, on the base that was ordered.

Why not let the worker try again by itself: a retry is a decision, and decisions are made where the journal is.
"""
