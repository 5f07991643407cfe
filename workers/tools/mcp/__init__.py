"""
Tools of other people's servers, over the Model Context Protocol.

`servers` starts what is configured for an order, lists its tools and speaks with each server. `tools` makes them tools
of ours and checks their calls. The name `mcp` alone means the official package; it is heavy, and imported where it is
used.

Why not that package's own way to start a server: processes have one door here, and its way passes on variables of the
worker's environment.
"""
