"""
The merge queue in front of a branch: a run that never ends and has no plan.

Anyone who may push can submit: a submission is a push to `refs/forgepool/for/<target>/<name>` in the hub (`submit`).
The queue pins the commit below its own refs, journals it as an entry, and only then deletes the pushed ref (`serve`).
From there on an entry is treated like a plan's candidate: it is tested, reviewed if its author's kind needs it, and
lands or is returned with reasons.

The queue publishes its board in the hub and reads requests there; `hub_queue` is the client side, usable from any
clone. `lookup` finds the queue a person means. `http_server` serves a JSON API, `bot` connects a queue with GitHub or
GitLab. Refs and journals call an entry `feature--base`; people read the branch's own name.

Why not a server: everyone can already push to a hub, with the rights they already have. A push that succeeded is not
lost, whether the queue is up or not.
"""
