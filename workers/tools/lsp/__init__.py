"""
Questions about code, answered by language servers: where is it defined, who uses it, what is wrong with it.

`LanguageServers` (in `servers`) has, for one order, the servers there are for the worktree's files. A server starts
with the first question to it, is a child behind the door to processes, and is dead when the order ends. `table` says
which are known without being told. `conversation` speaks with one of them (pygls does the wire); it is imported with
the first question, because the protocol's types cost a third of a second. `disk` tells what has changed since, so that
an answer is always about the files as they are now, whoever changed them. `places` is lines, columns and edits of text.

The answers are values of ours (`answers`); nothing of the protocol's types leaves `conversation` and `wire`.

Why not one server for many orders: it would hold one worktree's files in mind while it answers about another's.
"""
