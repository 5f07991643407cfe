"""
The door to models: our own conversation types, one small protocol, and the models that speak it.

A conversation is a list of turns. A `Turn` of the assistant holds text and tool calls, the turn of the user
after it holds exactly one result for each of those calls. A provider is asked with a whole conversation and
answers with the next turn, or fails in a way that says what is wrong (`ModelFailed`); it keeps no
conversation of its own, so that any process can go on with one that another began.

Three adapters ask a vendor once, always streaming (`anthropic`, `openai_responses`, `openai_chat`, told apart by their
wire); what they share is in `endpoint`, `arguments` (no tool runs on JSON that was repaired), `alternation`, `caching`,
`listening` and `openai_client`; `faults` and `resets` say what a failure was. Before them stand `retry` (again, after a
pause), `breaker` (what is shut off, for all workers) and `chain` (the next model, and what an answer cost: `prices`).
`table` has the models, accounts and routes, `router` decides whom to ask, `open` makes a chain of all that.

`scripted` is the one model that ships without a vendor behind it: it replays turns a person wrote, for
demonstrations and tests, and says so wherever its name appears.

Why not a vendor's message types: a transcript outlives the kit it was recorded with, and an attempt may go on
with another vendor's model. Why not import the vendors' kits here: one of them takes nearly two seconds, which
every order would pay. Why not mock a model in tests: the scripted one walks the whole road a real one does.
"""
