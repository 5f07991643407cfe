"""
Coding agents with a command line of their own: `claude`, `codex`, `opencode`, `aider`, run without a person.

Each program has a file, with how it is called (`Program.invoke`) and how its output is read (`Program.reader`).
`events` are what all of them tell, in one form; `record` writes them into the transcript as they come and counts;
`judgement` says what the end of it means; `wordings` are the programs' own words for limits and other trouble, and
`reset_times` when a limit ends. `performing` puts one attempt together.

A program edits files in the worktree, in a home of its own, with its standard input closed after the prompt. It is
asked for no commit. Its exit status is not believed, nor is its last event: it has finished when both say so and it
had something to say; whether there is a change is for the harness to see.

Why not the programs' own kits for embedding: each wants its own runtime in our process, and the command line is what
people have installed, and what their vendors keep stable. Why no resuming: a program's conversation is its own file
format; an attempt that was interrupted begins again.
"""

from forgepool.workers.agents.cli.performing import find_installed, perform_cli

__all__ = ["find_installed", "perform_cli"]
