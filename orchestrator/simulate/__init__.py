"""
Forgepool on a virtual clock: the same decisions as in a run, against generated arrivals and generated outcomes.

A **world** is what arrives, how long checks take and what is red with what; nobody is told of it but by runs of checks.
A **policy** decides what is checked and what lands. The **yard** runs the checks on a virtual clock, moves the target,
and writes down what was tested and how the target moved; **numbers** are recomputed from what it wrote down, not from
what a policy says of itself. `forgepool` is the merge train's own `plan`; the others are peers, as far as they are
described in public.
"""
