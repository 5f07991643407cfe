"""
`forgepool watch`: all runs and queues of a home, in a terminal.

`panes` makes the contents from the same read model as the pages of `forgepool serve`; `screens` shows them, and follows
the journals. An action is a word of the command line, left where that leaves it. Foreign text is shown as text: no
markup is read from it, and terminal sequences are removed.

Why not the pages over HTTP? A person who has reached this host by ssh has no browser here, and needs no server.
"""
