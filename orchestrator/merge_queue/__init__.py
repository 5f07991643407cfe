"""
The gate in front of a branch, with no plan at all: a run that never ends, whose entries come from anybody.

Somebody submits a commit by pushing to `refs/forgepool/for/<target>/<name>` in the hub (`submissions`), by themselves
or through `forgepool queue submit`. The gate takes it in (`intake`): it pins the commit below its own refs, journals it
as an entry, and only then removes what was pushed. From there on an entry is what a plan's candidate is: it stands in
the train, is tested, reviewed where its author's kind wants that, and lands or is returned with its reasons.

The gate shows in the hub how its entries stand (`board`), and hears requests about them there; `remote` is the other
side of that, in any clone. Refs and journals call an entry `feature--base`; people read the branch's own name
(`branches`).

Why not a server that is asked: a hub is what everybody can already push to, with the rights they already have, and a
push that has succeeded is not lost, whether the gate is up or not.
"""
