"""
The agent of `forgepool acp`: editors run plans by the Agent Client Protocol, on standard input and output.

A prompt that names a plan, or contains one, starts its run; the tasks are the entries of the editor's plan, and follow
the run's journal. A session is a run: its id is the run's name, and nothing else is stored. So a session that is loaded
again, also by another editor, shows what the journal has; and a run of the terminal can be opened as a session.

The run is a process of its own, which outlives the editor. When the person stops the turn, the run stops, too, as by
Ctrl-C: they want the work to end, and the next prompt can continue it. What only a person may decide is refused here as
in `forgepool mcp`; with `--may approve` the editor asks the person about each candidate.
"""
