"""
The bot that connects a queue with GitHub or GitLab: it asks the forge every few seconds, in a thread of the queue's
process.

`intake` remembers what was submitted and reported, and decides the next steps, purely. `admission` decides whether a
ready change may enter the queue now. `rounds` carries out one round, `service` is the thread.

An entry's name has its change's number: `pr-12`, `mr-12`; a second one after a landing is `pr-12-2`. The bot acts only
on entries that it has submitted itself.

Why is a comment sent at most once? A forge that does not answer may have accepted it. A repeated status replaces the
first one; a repeated comment is read twice.
"""
