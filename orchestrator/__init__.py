"""
The orchestrator turns a plan into a landed target. Only this package remembers, and only this package decides.

A **run** executes one **plan**. Its **journal** is a list of **events**. Its **state** is computed from them and stored
nowhere. A task goes

    pending -> running -> answered -> candidate -> queued -> testing -> landing -> landed

and may leave that road for `failed`, `blocked`, `cancelled` or `needs_human`. From `running` to `landing` the task is
**in flight** and holds the **lock** of the paths it may write: its declared globs, and the paths it touched or was
granted later.

The rooms, from the lowest to the highest; each imports only those before it:

- `plan`: the document, the graph of its tasks, overlaps of globs, readiness, the budget.
- `journal`: events, and the SQLite file that holds them.
- `state`: the data that a run or a queue consists of now, and the change that each event makes.
- `decisions`: plan, state and clock in, the next events out. Nothing here reads a file or a socket, so that
  tests with random events call the functions that a run calls.
- `run`: the loop that carries decisions out. Each turn it reads answers, watches leases, takes in requests of people
  and asks `decisions.decide`. It writes the events before it sends the messages they stand for.
- `reports`: status, costs, the report, and all other text about a state.
- `launch`: everything before the first message, and the private Redis and workers of a one-machine run.
- `merge_queue`: the daemon in front of a branch, with its HTTP interface and its bot for GitHub and GitLab.
- `simulate`: the same decisions on a virtual clock.
- `cli`: the `forgepool` command.

One or more entries of the merge train are a **car**. A **trial** checks a car on top of the target and of the cars
ahead of it. Green entries land as they were tested. A failure behind others is only a doubt: an entry is returned for a
failure that it has alone (`decisions.landing`).

A model's change needs an **approval** as well: a reviewer's, bound to the checked diff, or a person's, bound to the
candidate. A **post-merge check** runs all checks on the target itself. An **integration review** then reads what has
landed since the last one, and the run does not end before it has passed.

The money an order or a review may use is **reserved** when it is sent and settled by its answer. An interrupted attempt
is continued by the next one, on the same base. A question of an agent parks its task until a person answers.

Why not a database server, or Celery's result backend, as the memory: a run has one writer, and SQLite survives a loss
of power with nothing to administrate. Anything in Redis may be lost at any moment.

Why not a status column for each task: it could disagree with the events that led to it. A computed state cannot.

Why not rounds of tasks: a round is as slow as its slowest task. Here a task starts when its needs have landed, its
files are free and a worker is free.

Why not Celery's chains and chords for dependencies: they live in the broker, know nothing of files, and end with the
first failure.
"""
