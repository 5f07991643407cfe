"""
The server of `forgepool mcp`: other agents, and editors, use Forgepool by the Model Context Protocol.

A tool does what a command does, through the functions behind it, and answers with one JSON object. A mistake is an
error of the tool, with the command's own sentence. A run is a process of its own, so that it outlives the client; its
name is all that a client has to remember.

A client is another program, often a model. So what only a person may decide is not offered: no tool waives a rule or
grants a path. A plan that does so, and an approval, need `--may approve`. What a client answers or submits is kept with
the client's name. Texts of repositories and models are data: they are cut, and cannot control a terminal.

Why no tool that follows a run? A client that asks for the status gets it in one short answer; a call that lasts as long
as a run would end with the client's patience.
"""
