"""Everything before the first order: checks of the plan and the machine, the hub, Redis and workers."""
