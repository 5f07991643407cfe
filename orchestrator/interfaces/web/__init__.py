"""
The pages of `forgepool serve`: all runs and queues of a home, in a browser.

A page is made on the server from the read model in `reports.home`, and is whole without a script. One script listens
to the stream of events, asks for the same page again, and takes over the parts that differ. So a page that was open all
night is the page that a reload would show. An action is a word of the command line, left where that leaves it.

Why no htmx or other library? The pages need one listener and one exchange of parts, which is about a hundred lines. A
library brings many times that, and ways to run code from attributes that the policy would have to close again. Why no
user names? An operator's link acts, and a viewer's link looks. A proxy in front can know people better.
"""
