"""
The lead: an agent that dispatches tasks of its own run, collects their results, and says what they come to.

It writes nothing and runs nothing. `tools` are the tools it has beside those that read; `rules` decide, from the
transcript alone, which of them it may call now. A tool that needs the orchestrator ends the conversation with a
request. The next order brings the reply and goes on with the conversation, in any worker. So a lead that waits holds
no slot and costs nothing.

Why are the rules not in the prompt? A model forgets a prompt in the middle of the night; a refused call it cannot.
"""
