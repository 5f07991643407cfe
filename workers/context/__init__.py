"""
The context: what a model is shown next, as a pure function of its conversation's transcript.

An **exchange** is a tool's call and its one result. A **deed** is an exchange with the facts about it: what it read,
wrote, searched and ran, and how that ended. A **birth transform** shortens a result when it enters, and never later. An
**edit** stands for the beginning of a conversation from some moment on; its **head** replaces what it cuts. A
**rebuild** is the transcript entry that puts an edit in force. A **profile** is a strategy that proposes edits.

The steps: `transcript.actions` turns exchanges into deeds, and `shorten/` shortens results. A profile (`profiles/`)
looks at a `ContextState` (`edits.state`) and proposes an edit, and `view/` checks and shows it. `replay/` runs
recordings through all of this and prices them.

A view loses nothing: the transcript keeps everything, and dropped text is written to files that the agent can read
(`view.archive`). Sent bytes are rewritten rarely and all at once, since a provider's cache charges for rewritten text,
not for removed text. docs/explanation/context.md has the arithmetic.
"""
