"""A plan on a virtual clock: how long it takes, what it costs, what bounds it."""
