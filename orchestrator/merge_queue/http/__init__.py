"""
A gate by HTTP: a few JSON endpoints for programs that have neither git nor this home at hand.

`desk` answers, `bodies` reads what is sent, `app` speaks HTTP and asks for the token, `service` keeps it in a thread of
the gate's own process. It takes the roads that the command line takes: what it tells is read from the journal, a
submission is a push of a tag to the hub, and a person's word is left in the run's inbox. So it can do nothing to the
gate that could not be done beside it, and a gate without it is the same gate.

Why no answer of what has become of a word? The gate takes words in at its next turn, and journals them then. What is
answered is that the word is kept; how the entry stands is asked for like anything else.

Why no TLS, no users, no rights? A proxy in front of it does that better. There is one token, and whoever has it may do
all of it.
"""
