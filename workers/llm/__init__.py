"""
The door to models: our own types for conversations, one small protocol, and the models that speak it.

A conversation is a list of turns. An assistant's `Turn` holds text and tool calls; the user's next turn holds exactly
one result for each call. A provider is asked with a whole conversation and answers with the next turn, or raises
`ModelFailed`. It keeps no conversation of its own, so any process can continue one that another began.

In `wires/`, three adapters ask a vendor once, always streaming: `anthropic`, `openai_responses` and `openai_chat`. They
share `asking` (one try), `normal_forms` (one form for all vendors) and `faults` with `resets` (what a failure was). In
`routing/` stand the providers before them: `chain` asks again after a pause, then the next model; `breaker` keeps what
is shut off, for all workers; `pace` keeps them within an account's rate limits together. `table` holds the models,
accounts and routes, `router` chooses and prices them, and `open` makes a chain of it all.

A single call may go by a vendor's `batch` lane. `wires` has a lane for each vendor, and `routing.lane` is the provider
that makes a batch, looks at it, and never waits.

`scripted` is the one model that ships without a vendor: it replays turns that a person wrote, for demonstrations and
tests, and its name says so everywhere.

Why not a vendor's message types: a transcript outlives the kit it was recorded with, and an attempt may continue with
another vendor's model. Why not import the vendors' kits here: one of them takes nearly two seconds, which every order
would pay. Why not mock a model in tests: the scripted one takes the same road as a real one.
"""
