"""
The network access of confined commands: a filtering proxy of the harness, reached on their own loopback.

- `hosts` decides which hosts and addresses may be reached.
- `outlet` holds the proxy of one order; `exchange` serves one connection, `head` reads and writes its HTTP.
- `upstream` is the host's own proxy and its name lookup.
- `netns` opens listening sockets inside a command's network.
- `package_access` finds how this host reaches package indexes; `stand_in` asks these with the host's passwords.
"""
