"""
Forges: what the gate tells GitHub or GitLab, and what it takes in from there.

A **forge** (`protocol`) holds **changes**: pull requests, merge requests. A change that bears the queue's label and is
no draft is **ready**; it enters the gate with the commit it has at that moment, and no other. What the gate thinks of a
commit is **reported** as a status (`forgepool/gate`), which the forge's own rules can demand. `github` and `gitlab`
speak the two wire formats, `api` is the HTTP beneath both: pages, limits, retries, and one sentence for each failure.
Whose approval the target's CODEOWNERS demand is decided in `codeowners`, purely, and asked for in `consent`.

Landing is not here. It is the gate's own push by compare-and-swap, as to any hub: the forge sees that the change's
commits are in the target, and shows it as merged.

Why not the forges' merge buttons, by their API? They make a commit of their own when they are pressed; what was tested
is another one, and what lands would be tested by nobody.

Why not webhooks? Asking every few seconds needs no address that the forge can reach, loses nothing while this side is
away, and costs one request of a page.

Why httpx2? Both vendors' kits bring it, and it is among our own dependencies; nothing is added.

What is not in here: reading `CODEOWNERS` out of the target (git), the queue, and when it is asked (the gate's daemon).
"""
