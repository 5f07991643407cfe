"""
The way out of a sandbox, for commands that are granted hosts: a filtering proxy of the harness, reached on their
own loopback.

`hosts` and `addresses` judge what may be reached; `proxy` serves (`exchange` one connection, `head` its HTTP, `lookup`
names, `stream` bytes); `netns` opens listening sockets inside a command's network; `outlet` puts the two together for
an order, `linked` for a command that another process of ours runs.
"""
