"""
The door to models: our own conversation types, one small protocol, and the models that speak it.

A conversation is a list of turns. A `Turn` of the assistant holds text and tool calls, the turn of the user
after it holds exactly one result for each of those calls. A provider is asked with a whole conversation and
answers with the next turn, or fails in a way that says what is wrong (`ModelFailed`); it keeps no
conversation of its own, so that any process can go on with one that another began.

`scripted` is the one model that ships without a vendor behind it: it replays turns a person wrote, for
demonstrations and tests, and says so wherever its name appears.

Why not a vendor's message types: a transcript outlives the kit it was recorded with, and an attempt may go on
with another vendor's model. Why not import the vendors' kits here: one of them takes nearly two seconds, which
every order would pay. Why not mock a model in tests: the scripted one walks the whole road a real one does.
"""
