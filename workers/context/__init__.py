"""
What a model is shown next, as a pure function of its conversation's transcript.

Words: an **exchange** is a tool's call and its one result; a **deed** is an exchange with what is known of it (what it
read, wrote, searched, ran, and how that ended); a **birth transform** shortens a result when it enters, and never
later; an **edit** is what is shown in place of the beginning of a conversation from some moment on; a **rebuild** is
the entry of the transcript that puts an edit in force; a **profile** is a strategy that proposes edits; a **head** is
what an edit shows in place of what it cuts.

The way through: `deeds` reads exchanges, with `commands` for what shell commands do; `birth` shortens results;
`state` is all that a profile may look at; a profile (`profiles/`) proposes an `edit`; `validity` judges what would be
shown, and `view` shows it. `gauge` counts tokens. `replay/` puts recorded runs through all of it and prices them.

Nothing a view leaves out is lost: the transcript has all of it, and what an edit drops is written to files the agent
can read (`archive`). Sent bytes are rewritten rarely and wholesale, since a provider's cache charges for what is
rewritten, not for what is removed: docs/explanation/context.md has the arithmetic.
"""
