"""
Coding agents with a command line of their own: `claude`, `codex`, `opencode`, `aider`, run without a person.

Each program has a module with a `program.CliAgentProgram`: how it is called, and how its output is read.
`record` writes the events of a run into the transcript and judges its end; `output` has the readers' common parts.
`performing` puts one attempt together.

A program edits files in the worktree, with a home of its own, and its standard input is closed after the prompt. It is
asked for no commit. It has finished when its exit status and its last event say so, and its model had something to say.

Why not the programs' own kits for embedding: each wants its own runtime in our process, while the command line is
installed already, and kept stable by its vendor. Why no resuming: a program's conversation is in its own file format;
an attempt that was interrupted begins again.
"""

from forgepool.workers.agents.cli.performing import find_installed, perform_cli

__all__ = ["find_installed", "perform_cli"]
