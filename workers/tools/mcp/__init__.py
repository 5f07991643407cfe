"""
Tools of other people's servers, over the Model Context Protocol: which servers there are, and how they are spoken to.

`servers` starts what is configured for an order and lists its tools; `session` speaks with one server, on a loop of its
own; `stdio` carries that over a child's pipes. What a model may call of it, and how a call is judged, is said in
`workers.tools.mcp.tools`. In here, `mcp` by itself is the official package, imported where it is used: it is heavy.

Why not that package's own way to start a server: processes have one door here, and its way lends them variables of the
worker's environment.
"""
