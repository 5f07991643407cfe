"""
One order in, one candidate out; and the wire on which every message of Forgepool travels.

An **order** is the message that asks for one **attempt** at a task. A worker takes its **lease**, leases a
checkout, lets an **agent** edit, runs the task's acceptance commands, commits what is there, and puts the
**candidate** into the hub together with its **result** (`orders`, `candidates`). What an agent says of its work is
kept as a claim (`claimed_*`), and no decision reads it.

A model's attempt is led through **phases** (`phases`), each a conversation (`loop`) that is written down as it happens
(`transcript`) within limits that are asked about before each question (`meter`). After every turn files and transcript
are put into the hub (`progress`), where another worker finds them when this one is gone (`resuming`). VERIFY is the
harness' own (`verify`). What a conversation has come to is summed up by rules (`summary`, `excerpts`, `stuck`).

Every message, of the gate too, comes in by the same door (`delivery`) and is worked on in a forked process of its
own: whatever the work leaves in memory or starts goes with it, and its death is seen at once. The **lease**
(`leases`) is a Redis key with the attempt's token, renewed by a thread; a **fence** ends a message for good.
Answers go into one stream per run (`answers`). Over each Celery worker stands a **host** process (`host`), which
starts it again when it dies, ends orphans, and says that it is **present** (`presence`).

The doors are here: `wire` to Celery and Redis, `settings` to the environment, `sandbox` to processes, `llm` to
models.

Why not rely on Celery's redelivery: a killed pool child's message comes back in seconds, but a killed main process'
only after the visibility timeout, and a message popped by a dying connection never. The sender watches leases and
sends again; a second delivery of the same id finds the lease, the fence or the mark, and does nothing.

Why not the agent's own commit as the candidate: it may commit half, amend, or move HEAD. The harness commits the
tree of the files that are there, on the base that was ordered.

Why not let the worker try again by itself: whether to try, with which reasons and from which tip is a decision, and
decisions are made where the journal is.
"""
