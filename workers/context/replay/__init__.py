"""
Replay: recorded runs under each profile, with the cost of each and the information the agent would have missed.

A **recording** is one conversation of any agent. A **need** is something a call used that an earlier result had shown;
a profile **loses** it where its view no longer shows it. The **oracle** knows what will be needed. No lossless profile
costs less than the **floor**.

`formats/` reads files into recordings. `simulation` runs a profile over one call by call. `cost` prices its views as a
caching provider does, and `needs` finds the losses. `comparison` puts profiles side by side. The agent's behaviour is
fixed: a replay cannot tell what it would have done with another view.
"""
