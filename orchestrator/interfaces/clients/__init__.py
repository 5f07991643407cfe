"""
The common part of the interfaces for other programs, `forgepool mcp` and `forgepool acp`.

Plans are started as processes of their own, within what a client may do without a person; words of the command line are
left where that leaves them; texts of repositories and models are cut, and cannot control a terminal.
"""
