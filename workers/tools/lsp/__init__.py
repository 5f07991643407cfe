"""
Questions about code, which language servers answer: definitions, uses, errors.

`LanguageServers` (in `servers`) holds, for one order, the servers for the worktree's files, and the table of known
ones. A server starts with the first question to it, is a child of the sandbox, and is dead when the order ends.
`conversation` speaks with one server (pygls does the wire). It is imported with the first question, because the
protocol's types cost a third of a second. `documents` finds what changed on the disk, so that an answer is always about
the files as they are now.

The answers are values of ours, in `documents`; the protocol's types stay in `conversation` and `wire`.

Why not one server for many orders: it would hold one worktree's files while it answers about another's.
"""
