"""
Where other people's commands run: agents' tools, command agents, acceptance commands, checks.

A command carries what it is held by (`confinement`): bubblewrap in a root where little exists, or the fallback of
Landlock and seccomp. It sees a built-up environment, stays within its time and output, and leaves no process behind.
`layers` finds out what holds on a host, `shelter` and `private` make the confinement of one order or check, `confined`
starts a command in it through the `launcher`. docs/reference/sandbox.md says what is held and what is not.

`process.run` starts one command and answers how it ended; when it has answered, nothing of the command is
alive. `tree` knows processes and their descendants, `kin` which of them belong to a command, `output` keeps
what a command printed within bounds, `environment` builds what a command may see of the host's variables.
`background` runs commands beside an order's other work, each under a `guard`, a process that runs it alone.

The calling process becomes a sub-reaper: a daemon that forked twice and started its own session comes back
to it as a child when its parents are gone, and is found there. Nothing runs between fork and exec
(`preexec_fn`), because that costs a copy of the parent's page tables: about 30 ms with a parent of 1 GB,
where vfork takes half a millisecond.

Why not process groups alone: `setsid` leaves them. Why not cgroups: not writable for an ordinary user on
most hosts. Why not a small parent process for each command, as a background command has: starting an
interpreter costs more than most commands do.
"""

import os

HOUSE = os.path.realpath(os.path.join(__file__, *[os.pardir] * 3))  # noqa: PTH118 - a bare interpreter starts quicker
"""
The folder of the four packages, whether a checkout or an installation: what the name `forgepool` stands for. A bare
interpreter (`python -I -S`, which has no site folder) gets it as its first argument.
"""

START = """
import sys, types
sys.modules["forgepool"] = types.ModuleType("forgepool")
sys.modules["forgepool"].__path__ = [sys.argv[1]]
"""
"""The first lines of such an interpreter's program: they make `forgepool` importable."""
