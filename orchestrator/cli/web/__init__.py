"""
The pages of `forgepool serve`: all runs and queues of a home, in a browser.

A page is made on the server from the read model in `reports.home`, and is whole without a script. One script of ours
listens to the stream of events, asks for the same page again, and takes over the parts that differ: so a page that was
open all night is the page that a reload would show. An action is a word of the command line, left where that leaves it.

Why no htmx or other library? It would serve one listener and one exchange of parts, in ten times the lines, and each
of its ways to run code from attributes would have to be closed again. Why no user names? One operator's link acts,
one viewer's link only looks; a proxy in front can know people better.
"""
