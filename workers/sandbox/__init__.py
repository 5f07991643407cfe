"""
The only way to run other people's commands: agents' tools, command agents, acceptance commands and checks.

A command carries its `Confinement`: bubblewrap with an almost empty root, or the fallback of Landlock and seccomp. It
sees a constructed environment, keeps to its limits of time and output, and leaves no process behind.
docs/reference/sandbox.md says what is held and what is not.

- `layers` finds out what holds on this host. `sandbox_profile` makes the confinement of one order or check.
- `launch` starts a command in it: `confined` asks the `launcher`, which applies Landlock, seccomp and mounts.
- `run` runs one command to its end (`process`), beside other work (`background`), or talks to it (`dialogue`). `usage`
  adds up its memory and files where nothing else bounds them.
- `network` is the proxy through which a command reaches the hosts it is granted.
- `tree` knows processes and which of them belong to a command. `scratch` makes temporary folders.

The calling process becomes a sub-reaper. A daemon that forked twice and started its own session comes back to it as a
child when its parents are gone. Nothing runs between fork and exec (`preexec_fn`), because that copies the parent's
page tables: about 30 ms with a parent of 1 GB, where vfork takes half a millisecond.

Why not process groups alone: `setsid` leaves them. Why not cgroups: an ordinary user cannot write them on most hosts.
Why not a small parent process for each command, as a background command has: starting an interpreter costs more than
most commands do.
"""

import os

OWN_PREFIX = "FORGEPOOL_"
"""The prefix of Forgepool's own variables, which no task may set."""

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
