"""
The bot that connects a gate with GitHub or GitLab: it looks there every few seconds, in a thread of the gate's process.

What follows from what it sees is decided in `orchestrator.merge_queue.forges.intake`, purely; here is what that is
decided by, and what carries it out. `standing` reads the gate's entries out of its state, `admission` says of a ready
change whether it may enter now, `rounds` does one round of it all, `memory` keeps what was told, `service` is the
thread.

An entry of the gate has its change's number in its name: `pr-12`, `mr-12`; after that has landed, `pr-12-2`. The bot
acts upon the entries that it has submitted itself, and upon no others.

Why is a comment sent at most once? A forge that does not answer may have taken it. A status that is missing is sent
again, for twice is once there; of two comments people read both.
"""
